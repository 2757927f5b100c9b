-- spot_table_15: SPOT, table 15, recipe transfer, and table 13 at T=1: the one recipe (method spot) beside order
--   models of the same size and corpus that were trained with settings tuned for one setting.
--   experiment               name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split      see runs
--   budget, method, padded   cell
--   n_samples, n_seeds       samples per seed, and seeds
--   tuned                    false for the one recipe
--   nfe, nfe_std             target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction            control's NFE over this one's
--   ratio, ratio_std         throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction         the control's forwards up to the first stop id over this one's
--   answer_ratio             ratio of answer tokens per second
--   nfe_saved                NFE of the best tuned drafter minus this one's, on the row of the recipe: positive = the
--       recipe is ahead
--   ratio_gained             this ratio minus that of the best tuned drafter
CREATE OR REPLACE VIEW spot_table_15 AS
WITH recipes AS (
    SELECT * FROM method_cells WHERE method = 'spot' AND native AND commit_rule = 'single'
), members AS (
    SELECT r.*, false AS tuned FROM recipes AS r
    UNION ALL
    SELECT t.*, true AS tuned FROM method_cells AS t JOIN recipes AS r
        ON r.experiment = t.experiment AND r.target = t.target AND r.task = t.task AND r.temperature = t.temperature
            AND r.cache = t.cache AND r.layout = t.layout AND r.stop = t.stop AND r.generation_length = t.generation_length
        AND r.block_length = t.block_length AND r.sample_set = t.sample_set AND r.budget = t.budget
        AND r.padded = t.padded AND r.floor = t.floor AND r.verifier = t.verifier AND r.commit_rule = t.commit_rule
        AND r.device_class IS NOT DISTINCT FROM t.device_class AND r.shape = t.shape AND r.hedge = t.hedge
        AND r.tau = t.tau AND r.layers = t.layers AND r.width = t.width AND r.prompts = t.prompts
        AND r.training <> t.training
    WHERE t.drafter = 'spot' AND t.native
)
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    budget, method, padded, n_samples, n_seeds, tuned, nfe, nfe_std, nfe_reduction, ratio, ratio_std,
        answer_reduction, answer_ratio,
    CASE WHEN NOT tuned THEN min(nfe) FILTER (tuned) OVER place - nfe END AS nfe_saved,
    CASE WHEN NOT tuned THEN ratio - max(ratio) FILTER (tuned) OVER place END AS ratio_gained
FROM members
WINDOW place AS (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split,
        sample_set, budget, padded, floor, verifier
)
QUALIFY bool_or(tuned) OVER place
ORDER BY experiment, target, block_length DESC, task, temperature, budget, tuned, method;
