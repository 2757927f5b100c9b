-- trajectory_table_04: trajectory paper, tables 4, 7, 8 and 12: tree shapes, expansion strategies, drafts of the next block
--   and generation lengths, with the control of the same commit rule and cache as first row.
--   experiment           name of the experiment
--   target, task, temperature, stop, generation_length, block_length, device_class, split   see trajectory_metrics
--   setting              fast-dllm with its cache, or the method
--   commit_rule, cache, verifier, layout   rest of the cell
--   shape, inter_blocks  trajectory drafts
--   most_drafts          largest number of drafts in a round
--   n_seeds, n_samples   seeds, and samples over all of them
--   tokens_per_step      generated tokens over forwards
--   steps                forwards per sample
--   step_change          steps over the control's, minus 1
--   ms_per_step          milliseconds per forward, all included
--   latency_s            seconds per sample
--   latency_change       latency_s over the control's, minus 1
--   alpha_1, alpha_2     acceptance of the first and second level
--   accuracy, accuracy_change   share correct, and its change against the control
--   drifted_samples, drifted_tokens   share that differs from the control's
CREATE OR REPLACE VIEW trajectory_table_04 AS
SELECT experiment, target, task, temperature, stop, generation_length, block_length, device_class, split, setting, commit_rule,
    cache, verifier, layout, shape, inter_blocks, most_drafts, n_seeds, n_samples, tokens_per_step, steps, step_change,
    ms_per_step, latency_s, latency_change, alpha_1, alpha_2, accuracy, accuracy_change, drifted_samples, drifted_tokens
FROM trajectory_metrics
WHERE drafter IN ('none', 'trajectory') AND commit_rule <> 'single' AND NOT check_logits
ORDER BY experiment, target, task, generation_length, commit_rule, cache, drafter, verifier, inter_blocks, shape, setting;
