-- ratio_intervals: how sure a difference is given the samples it was measured on: one row per method against its control,
--   and against every other method of the same budget. Intervals are two-sided 95 % percentile bootstrap intervals over
--   1000 resamples of the samples; both sides are resampled together, so that a hard sample counts for both (sample-paired),
--   and the seeds of a sample stay together. Draw j of resample i takes the sample of number md5("i/j") modulo n, so that the
--   same records always give the same intervals. Verdicts follow the rule of comparisons: win or loss only where the interval
--   excludes zero difference and the margin exceeds 5 %. Methods are compared only over the same seeds.
--   experiment             name of the experiment
--   target, task, temperature, budget, commit_rule, cache, stop, generation_length, block_length, device_class   of both
--   method, verifier, floor, padded, layout   the method judged
--   other                  what it is judged against: control, or another method
--   other_verifier, other_floor, other_padded, other_layout   the rest of its cell; NULL for the control
--   n_seeds                seeds
--   n_samples              samples, the unit of resampling
--   ratio                  tokens per second of method over that of other, pooled over samples and seeds
--   ratio_low, ratio_high  its interval, NULL below two samples
--   nfe                    target forwards per sample of method
--   other_nfe              of other
--   nfe_difference         nfe - other_nfe
--   nfe_difference_low, nfe_difference_high   its interval
--   nfe_reduction          other_nfe / nfe
--   nfe_reduction_low, nfe_reduction_high     its interval
--   throughput_verdict     win = method is faster
--   nfe_verdict            win = method needs fewer forwards
CREATE OR REPLACE VIEW ratio_intervals AS
WITH members AS (
    SELECT s.experiment AS owner, p.* FROM selected AS s JOIN paired AS p USING (run_id)
    WHERE p.paired AND p.drafter <> 'none'
), sides AS MATERIALIZED (
    SELECT row_number() OVER () AS side, owner, target, task, temperature, budget, commit_rule, cache, stop,
        generation_length, block_length, device_class, sample_set, sample_digest, target_digest, method, verifier, floor,
        padded, layout, list(seed ORDER BY seed) AS seeds, list(struct_pack(run_id, control_run_id)) AS runs
    FROM members GROUP BY ALL
), measured AS (
    SELECT d.side, s.sample_id, sum(s.generated_tokens) AS tokens, sum(s.wall_s) AS wall, sum(s.nfe) AS nfe,
        sum(c.generated_tokens) AS control_tokens, sum(c.wall_s) AS control_wall, sum(c.nfe) AS control_nfe
    FROM (SELECT side, unnest(runs) AS run FROM sides) AS d JOIN samples AS s ON s.run_id = d.run.run_id
    JOIN samples AS c ON c.run_id = d.run.control_run_id AND c.sample_id = s.sample_id
    GROUP BY d.side, s.sample_id
), numbered AS (
    SELECT *, row_number() OVER (PARTITION BY side ORDER BY sample_id) - 1 AS number,
        count(*) OVER (PARTITION BY side) AS n
    FROM measured
), picks AS (
    SELECT n, i AS resample, (md5_number_lower(i || '/' || j) % n::UBIGINT)::BIGINT AS number, count(*) AS weight
    FROM (SELECT DISTINCT n FROM numbered WHERE n > 1) CROSS JOIN range(1, 1001) AS r(i), range(n) AS d(j)
    GROUP BY n, resample, number
    UNION ALL
    SELECT DISTINCT n, 0, number, 1 FROM numbered
), resampled AS MATERIALIZED (
    SELECT side, resample, any_value(n) AS n, sum(weight * tokens) AS tokens, sum(weight * wall) AS wall,
        sum(weight * nfe) AS nfe, sum(weight * control_tokens) AS control_tokens, sum(weight * control_wall) AS control_wall,
        sum(weight * control_nfe) AS control_nfe
    FROM numbered JOIN picks USING (n, number) GROUP BY side, resample
), pairs AS (
    SELECT side, NULL AS other_side FROM sides
    UNION ALL
    SELECT a.side, b.side FROM sides AS a JOIN sides AS b
        USING (owner, target, task, temperature, budget, commit_rule, cache, stop, generation_length, block_length,
            sample_set, seeds)
    WHERE a.side <> b.side AND a.device_class IS NOT DISTINCT FROM b.device_class
        AND a.sample_digest IS NOT DISTINCT FROM b.sample_digest
        AND a.target_digest IS NOT DISTINCT FROM b.target_digest
), drawn AS (
    SELECT side, NULL AS other_side, resample, n, nfe, control_nfe AS other_nfe,
        tokens / nullif(wall, 0) / nullif(control_tokens / nullif(control_wall, 0), 0) AS ratio
    FROM resampled
    UNION ALL
    SELECT p.side, p.other_side, a.resample, a.n, a.nfe, b.nfe,
        a.tokens / nullif(a.wall, 0) / nullif(b.tokens / nullif(b.wall, 0), 0)
    FROM pairs AS p JOIN resampled AS a ON a.side = p.side
    JOIN resampled AS b ON b.side = p.other_side AND b.resample = a.resample
), intervals AS (
    SELECT side, other_side, any_value(n) AS n, any_value(ratio) FILTER (resample = 0) AS ratio,
        quantile_cont(ratio, 0.025) FILTER (resample > 0 AND n > 1) AS ratio_low,
        quantile_cont(ratio, 0.975) FILTER (resample > 0 AND n > 1) AS ratio_high,
        any_value(nfe) FILTER (resample = 0) AS nfe, any_value(other_nfe) FILTER (resample = 0) AS other_nfe,
        quantile_cont(nfe - other_nfe, 0.025) FILTER (resample > 0 AND n > 1) AS nfe_low,
        quantile_cont(nfe - other_nfe, 0.975) FILTER (resample > 0 AND n > 1) AS nfe_high,
        quantile_cont(other_nfe / nullif(nfe, 0), 0.025) FILTER (resample > 0 AND n > 1) AS reduction_low,
        quantile_cont(other_nfe / nullif(nfe, 0), 0.975) FILTER (resample > 0 AND n > 1) AS reduction_high
    FROM drawn GROUP BY side, other_side
)
SELECT a.owner AS experiment, a.target, a.task, a.temperature, a.budget, a.commit_rule, a.cache, a.stop,
    a.generation_length, a.block_length, a.device_class, a.method, a.verifier, a.floor, a.padded, a.layout,
    coalesce(b.method, 'control') AS other, b.verifier AS other_verifier, b.floor AS other_floor,
    b.padded AS other_padded, b.layout AS other_layout, len(a.seeds) AS n_seeds, i.n AS n_samples, i.ratio, i.ratio_low,
    i.ratio_high, i.nfe / (i.n * n_seeds) AS nfe, i.other_nfe / (i.n * n_seeds) AS other_nfe,
    (i.nfe - i.other_nfe) / (i.n * n_seeds) AS nfe_difference, i.nfe_low / (i.n * n_seeds) AS nfe_difference_low,
    i.nfe_high / (i.n * n_seeds) AS nfe_difference_high, i.other_nfe / nullif(i.nfe, 0) AS nfe_reduction,
    i.reduction_low AS nfe_reduction_low, i.reduction_high AS nfe_reduction_high,
    CASE
        WHEN i.ratio_low > 1 AND i.ratio > 1.05 THEN 'win'
        WHEN i.ratio_high < 1 AND i.ratio < 0.95 THEN 'loss'
        ELSE 'tie'
    END AS throughput_verdict,
    CASE
        WHEN i.nfe_high < 0 AND i.nfe < 0.95 * i.other_nfe THEN 'win'
        WHEN i.nfe_low > 0 AND i.nfe > 1.05 * i.other_nfe THEN 'loss'
        ELSE 'tie'
    END AS nfe_verdict
FROM intervals AS i JOIN sides AS a ON a.side = i.side LEFT JOIN sides AS b ON b.side = i.other_side
ORDER BY experiment, a.target, a.task, a.temperature, a.budget, a.method, a.verifier, other, other_verifier;
