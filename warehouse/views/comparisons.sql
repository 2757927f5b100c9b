-- comparisons: one method against another at the same budget, temperature and verifier, seed by seed. Each pair
--   appears in both directions. A verdict is win or loss only when the 95 % t interval of the mean difference over
--   seeds excludes zero and the mean exceeds 5 %; everything else, a single seed included, is a tie.
--   experiment            name of the experiment
--   target, task, temperature, budget, verifier, device_class   see runs
--   commit_rule, cache, layout, stop, generation_length, block_length   see runs
--   method                the method judged
--   other                 the method it is judged against
--   floor, padded         cell of method
--   other_floor, other_padded   cell of other
--   n_seeds               seeds both have
--   nfe                   NFE of method, mean over those seeds
--   other_nfe             NFE of other
--   nfe_percent           mean over seeds of 100 * (nfe / other_nfe - 1): negative = fewer forwards
--   nfe_low, nfe_high     its interval
--   nfe_verdict           win = method needs fewer forwards
--   throughput_percent    mean over seeds of 100 * (throughput ratio of method / that of other - 1)
--   throughput_low, throughput_high   its interval
--   throughput_verdict    win = method is faster
CREATE OR REPLACE VIEW comparisons AS
WITH members AS (
    SELECT s.experiment AS owner, p.* FROM selected AS s JOIN paired AS p USING (run_id) WHERE p.drafter <> 'none'
), seeds AS (
    SELECT a.owner, a.target, a.task, a.temperature, a.budget, a.verifier, a.device_class, a.commit_rule, a.cache,
        a.layout, a.stop, a.generation_length, a.block_length, a.sample_set, a.method, b.method AS other, a.floor,
        a.padded, b.floor AS other_floor, b.padded AS other_padded, a.seed, a.nfe, b.nfe AS other_nfe,
        100 * (a.nfe / nullif(b.nfe, 0) - 1) AS nfe_percent,
        100 * (a.throughput_ratio / nullif(b.throughput_ratio, 0) - 1) AS throughput_percent
    FROM members AS a JOIN members AS b
        ON a.owner = b.owner AND a.target = b.target AND a.task = b.task AND a.temperature = b.temperature
        AND a.budget = b.budget AND a.verifier = b.verifier AND a.seed = b.seed AND a.commit_rule = b.commit_rule
        AND a.cache = b.cache AND a.layout = b.layout AND a.stop = b.stop AND a.generation_length = b.generation_length
        AND a.block_length = b.block_length AND a.sample_set = b.sample_set AND a.method <> b.method
        AND a.device_class IS NOT DISTINCT FROM b.device_class AND a.target_digest IS NOT DISTINCT FROM b.target_digest
        AND a.sample_digest IS NOT DISTINCT FROM b.sample_digest
), grouped AS (
    SELECT owner, target, task, temperature, budget, verifier, device_class, commit_rule, cache, layout, stop,
        generation_length, block_length, sample_set, method, other, floor, padded, other_floor, other_padded,
        count(*) AS n_seeds, avg(nfe) AS nfe, avg(other_nfe) AS other_nfe,
        avg(nfe_percent) AS nfe_percent, stddev_samp(nfe_percent) / sqrt(count(nfe_percent)) AS nfe_error,
        count(nfe_percent) AS n_nfe, avg(throughput_percent) AS throughput_percent,
        stddev_samp(throughput_percent) / sqrt(count(throughput_percent)) AS throughput_error,
        count(throughput_percent) AS n_throughput
    FROM seeds GROUP BY ALL
), intervals AS (
    SELECT g.*, nfe_percent - tn.t * nfe_error AS nfe_low, nfe_percent + tn.t * nfe_error AS nfe_high,
        throughput_percent - tt.t * throughput_error AS throughput_low,
        throughput_percent + tt.t * throughput_error AS throughput_high
    FROM grouped AS g
    LEFT JOIN t_quantiles AS tn ON tn.df = least(n_nfe - 1, 200)
    LEFT JOIN t_quantiles AS tt ON tt.df = least(n_throughput - 1, 200)
)
SELECT owner AS experiment, target, task, temperature, budget, verifier, device_class, commit_rule, cache, layout, stop,
    generation_length, block_length, method, other, floor, padded,
    other_floor, other_padded, n_seeds, nfe, other_nfe, nfe_percent, nfe_low, nfe_high,
    CASE
        WHEN nfe_high < 0 AND nfe_percent < -5 THEN 'win'
        WHEN nfe_low > 0 AND nfe_percent > 5 THEN 'loss'
        ELSE 'tie'
    END AS nfe_verdict,
    throughput_percent, throughput_low, throughput_high,
    CASE
        WHEN throughput_low > 0 AND throughput_percent > 5 THEN 'win'
        WHEN throughput_high < 0 AND throughput_percent < -5 THEN 'loss'
        ELSE 'tie'
    END AS throughput_verdict
FROM intervals
ORDER BY experiment, target, task, temperature, budget, verifier, method, other;
