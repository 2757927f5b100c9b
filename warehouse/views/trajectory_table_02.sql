-- trajectory_table_02: trajectory paper, tables 2, 3, 9 and 13: throughput, steps, accuracy and speedup over vanilla decoding
--   (the whole canvas in every step, one position filled) of the same experiment.
--   experiment           name of the experiment
--   target, task, temperature, stop, generation_length, block_length, device_class, split, sample_set   see trajectory_metrics
--   setting              vanilla, fast-dllm with its cache, or the method
--   commit_rule, cache, verifier, layout   rest of the cell
--   shape, inter_blocks  trajectory drafts
--   n_seeds, n_samples   seeds, and samples over all of them
--   tok_s                generated tokens per second
--   steps                forwards per sample
--   accuracy             share of samples scored correct
--   speedup              tok_s over vanilla's; NULL where the experiment has no vanilla run
--   step_speedup         vanilla's steps over these (table 9)
--   speedup_over_control   tok_s over that of the control of the same commit rule and cache
--   step_change          steps over that control's, minus 1
--   tokens_per_step      generated tokens over forwards
--   accuracy_change      accuracy minus that control's
--   drifted_samples, drifted_tokens   share that differs from that control's
--   distribution_preserving   whether the target's distribution is kept
CREATE OR REPLACE VIEW trajectory_table_02 AS
WITH vanilla AS (
    SELECT experiment, target, task, temperature, stop, generation_length, block_length, device_class, split, sample_set,
        max(tok_s) AS tok_s, max(steps) AS steps
    FROM trajectory_metrics WHERE setting = 'vanilla' GROUP BY ALL
)
SELECT m.experiment, m.target, m.task, m.temperature, m.stop, m.generation_length, m.block_length, m.device_class, m.split,
    m.sample_set, m.setting, m.commit_rule, m.cache, m.verifier, m.layout, m.shape, m.inter_blocks, m.n_seeds, m.n_samples,
    m.tok_s, m.steps, m.accuracy, m.tok_s / nullif(v.tok_s, 0) AS speedup, v.steps / nullif(m.steps, 0) AS step_speedup,
    m.tps_ratio AS speedup_over_control, m.step_change, m.tokens_per_step, m.accuracy_change, m.drifted_samples,
    m.drifted_tokens, m.distribution_preserving
FROM trajectory_metrics AS m LEFT JOIN vanilla AS v
    ON v.experiment = m.experiment AND v.target = m.target AND v.task = m.task AND v.temperature = m.temperature
    AND v.stop = m.stop AND v.generation_length = m.generation_length AND v.block_length = m.block_length
    AND v.device_class IS NOT DISTINCT FROM m.device_class AND v.split IS NOT DISTINCT FROM m.split
    AND v.sample_set IS NOT DISTINCT FROM m.sample_set
WHERE m.drafter IN ('none', 'trajectory') AND NOT m.check_logits
ORDER BY m.experiment, m.target, m.task, m.generation_length, m.steps DESC, m.setting, m.verifier;
