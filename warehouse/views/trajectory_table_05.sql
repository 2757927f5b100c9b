-- trajectory_table_05: trajectory paper, table 5: time spent on building drafts over the time of the forwards, by tree shape and
--   generation length. The paper's forwards see the whole sequence; ours see what the cache leaves.
--   experiment           name of the experiment
--   target, task, temperature, block_length, device_class, layout, cache, commit_rule, verifier   see trajectory_metrics
--   method, shape        trajectory drafts
--   generation_length    tokens asked for
--   n_seeds, n_samples   seeds, and samples over all of them
--   draft_overhead       time of drafting over time of the forwards
--   draft_share          time of drafting over all net time
CREATE OR REPLACE VIEW trajectory_table_05 AS
SELECT experiment, target, task, temperature, block_length, device_class, layout, cache, commit_rule, verifier, method, shape,
    generation_length, n_seeds, n_samples, draft_overhead, draft_share
FROM trajectory_metrics WHERE drafter = 'trajectory' AND inter_blocks = 0 AND NOT check_logits
ORDER BY experiment, target, task, shape, generation_length;
