-- trajectory_figure_5: trajectory paper, figure 5 and table 6: what a forward costs by its number of drafts, and what drafting
--   saves. Table 6 times the attention kernel alone; here it is the whole forward.
--   experiment           name of the experiment
--   target, task, temperature, generation_length, block_length, device_class, layout, cache, commit_rule   see runs
--   method, shape, verifier   trajectory drafts
--   drafts               states in the forward but the root: drafts, padding, the root of the next block where it takes part
--   rounds               forwards
--   forward_ms           median milliseconds of a forward
--   overhead             forward_ms over that of the control's forwards behind the first of each block, minus 1
--   step_change          steps over the control's, minus 1, for the whole cell
CREATE OR REPLACE VIEW trajectory_figure_5 AS
WITH timed AS (
    SELECT s.experiment, r.target, r.task, r.temperature, r.generation_length, r.block_length, r.device_class, r.layout, r.cache,
        r.commit_rule, r.method, r.drafter, r.verifier, r.budget, o.replicas - 1 AS drafts, o.forward_s
    FROM selected AS s JOIN runs AS r USING (run_id) JOIN rounds AS o USING (run_id)
    WHERE o.round > 0 AND r.drafter IN ('none', 'trajectory')
), single AS (
    SELECT experiment, target, task, temperature, generation_length, block_length, device_class, cache, commit_rule,
        median(forward_s) AS forward_s
    FROM timed WHERE drafter = 'none' GROUP BY ALL
), drafted AS (
    SELECT experiment, target, task, temperature, generation_length, block_length, device_class, layout, cache, commit_rule, method,
        verifier, budget, drafts, count(*) AS rounds, median(forward_s) AS forward_s
    FROM timed WHERE drafter = 'trajectory' AND drafts > 0 GROUP BY ALL
), saved AS (
    SELECT experiment, target, task, temperature, generation_length, block_length, device_class, layout, cache, commit_rule, method,
        verifier, budget, any_value(shape) AS shape, avg(step_change) AS step_change
    FROM trajectory_metrics WHERE drafter = 'trajectory' AND NOT check_logits GROUP BY ALL
)
SELECT d.experiment, d.target, d.task, d.temperature, d.generation_length, d.block_length, d.device_class, d.layout, d.cache,
    d.commit_rule, d.method, v.shape, d.verifier, d.drafts, d.rounds, 1000 * d.forward_s AS forward_ms,
    d.forward_s / nullif(c.forward_s, 0) - 1 AS overhead, v.step_change
FROM drafted AS d
LEFT JOIN single AS c ON c.experiment = d.experiment AND c.target = d.target AND c.task = d.task
    AND c.temperature = d.temperature AND c.generation_length = d.generation_length AND c.block_length = d.block_length
    AND c.device_class IS NOT DISTINCT FROM d.device_class AND c.cache = d.cache AND c.commit_rule = d.commit_rule
JOIN saved AS v ON v.experiment = d.experiment AND v.target = d.target AND v.task = d.task
    AND v.temperature = d.temperature AND v.generation_length = d.generation_length AND v.block_length = d.block_length
    AND v.device_class IS NOT DISTINCT FROM d.device_class AND v.layout = d.layout AND v.cache = d.cache
    AND v.commit_rule = d.commit_rule AND v.method = d.method AND v.verifier = d.verifier AND v.budget = d.budget
ORDER BY d.experiment, d.target, d.task, d.commit_rule, d.method, d.verifier, d.drafts;
