-- spot_figure_2a: SPOT, figure 2a, oracle ceilings: the peak throughput ratio of each oracle over the budgets
--   measured (table 7).
--   experiment            name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split   see runs
--   method                oracle-position, oracle-token or oracle-joint
--   n_samples, n_seeds    samples per seed, and seeds
--   ratio                 highest throughput ratio
--   budget                where it is
--   nfe_reduction         largest cut in NFE
--   answer_ratio          highest ratio of answer tokens per second
--   spot_ratio, spot_nfe_reduction   the same of SPOT in this setting, NULL if it was not run
CREATE OR REPLACE VIEW spot_figure_2a AS
WITH spot AS (
    SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
        split,
        max(ratio) AS ratio, max(nfe_reduction) AS nfe_reduction
    FROM spot_table_02 WHERE method = 'spot' GROUP BY ALL
)
SELECT o.experiment, o.target, o.task, o.temperature, o.cache, o.layout, o.stop, o.generation_length, o.block_length,
    o.device_class, o.split, o.method, max(o.n_samples) AS n_samples, max(o.n_seeds) AS n_seeds,
        max(o.ratio) AS ratio,
    arg_max(o.budget, o.ratio) AS budget, max(o.nfe_reduction) AS nfe_reduction, max(o.answer_ratio) AS answer_ratio,
    any_value(s.ratio) AS spot_ratio, any_value(s.nfe_reduction) AS spot_nfe_reduction
FROM spot_table_07 AS o LEFT JOIN spot AS s
    ON s.experiment = o.experiment AND s.target = o.target AND s.task = o.task AND s.temperature = o.temperature
    AND s.cache = o.cache AND s.layout = o.layout AND s.stop = o.stop AND s.generation_length = o.generation_length
    AND s.block_length = o.block_length AND s.device_class IS NOT DISTINCT FROM o.device_class
    AND s.split IS NOT DISTINCT FROM o.split
GROUP BY o.experiment, o.target, o.task, o.temperature, o.cache, o.layout, o.stop, o.generation_length,
    o.block_length,
    o.device_class, o.split, o.method
ORDER BY o.experiment, o.target, o.block_length DESC, o.task, o.method;
