-- trajectory_table_10: trajectory paper, table 10: does drafting leave the baseline's output alone? Run against control of
--   the same commit rule and cache, pooled over seeds.
--   experiment           name of the experiment
--   target, task, temperature, commit_rule, cache, layout, stop, generation_length, block_length, device_class   cell
--   method, shape, inter_blocks, verifier   trajectory drafts
--   n_samples            samples over all seeds
--   token_match          share of samples whose tokens are all equal
--   token_share          share of tokens that are equal at the same place
--   checked_rounds       rounds whose logits were compared; 0 without check_logits
--   logit_error          largest difference between the logits that decided and those of a forward without drafts
--   logits_equal         share of the checked rounds without any difference
--   exact                whether every sample is equal
CREATE OR REPLACE VIEW trajectory_table_10 AS
WITH checked AS (
    SELECT s.experiment, r.target, r.task, r.temperature, r.commit_rule, r.cache, r.layout, r.stop, r.generation_length,
        r.block_length, r.device_class, r.sample_set, r.method, r.verifier, r.budget, r.floor, r.padded,
        count(o.logit_error) AS checked_rounds,
        max(o.logit_error) AS logit_error, avg((o.logit_error = 0)::INTEGER) AS logits_equal
    FROM selected AS s JOIN runs AS r USING (run_id) JOIN rounds AS o USING (run_id)
    WHERE r.drafter = 'trajectory' GROUP BY ALL
)
SELECT m.experiment, m.target, m.task, m.temperature, m.commit_rule, m.cache, m.layout, m.stop, m.generation_length,
    m.block_length, m.device_class, m.method, m.shape, m.inter_blocks, m.verifier, m.n_samples,
    1 - m.drifted_samples AS token_match, 1 - m.drifted_tokens AS token_share,
    coalesce(c.checked_rounds, 0) AS checked_rounds, c.logit_error, c.logits_equal, m.drifted_samples = 0 AS exact
FROM trajectory_metrics AS m LEFT JOIN checked AS c
    ON c.experiment = m.experiment AND c.target = m.target AND c.task = m.task AND c.temperature = m.temperature
    AND c.commit_rule = m.commit_rule AND c.cache = m.cache AND c.layout = m.layout AND c.stop = m.stop
    AND c.generation_length = m.generation_length AND c.block_length = m.block_length
    AND c.device_class IS NOT DISTINCT FROM m.device_class AND c.sample_set IS NOT DISTINCT FROM m.sample_set
    AND c.method = m.method AND c.verifier = m.verifier AND c.budget = m.budget AND c.floor IS NOT DISTINCT FROM m.floor
    AND c.padded = m.padded
WHERE m.drafter = 'trajectory'
ORDER BY m.experiment, m.target, m.task, m.commit_rule, m.verifier, m.layout, m.method;
