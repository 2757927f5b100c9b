-- spot_table_17: SPOT, table 17, ablations at T=0: SPOT with one component changed beside SPOT itself (method spot,
--   no floor, padded alike). Components are told from the drafter's options, so a variant that changes two is named
--   by both.
--   experiment            name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split   see runs
--   budget, method, padded, floor   cell
--   component             what differs from SPOT: chain, hedge, corpus, tau, floor, padding; recipe for SPOT itself
--   n_samples, n_seeds    samples per seed, and seeds
--   hedge, tau, prompts   see drafters
--   nfe, nfe_std          target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction         control's NFE over this one's
--   ratio, ratio_std      throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction      the control's forwards up to the first stop id over this one's
--   answer_ratio          ratio of answer tokens per second
--   nfe_added             NFE minus that of SPOT; of SPOT unpadded minus SPOT padded
--   ratio_added           ratio minus that of SPOT, likewise
CREATE OR REPLACE VIEW spot_table_17 AS
WITH members AS (
    SELECT *, row_number() OVER () AS number FROM method_cells
    WHERE drafter = 'spot' AND native AND temperature = 0 AND commit_rule = 'single' AND rank_by IS NULL
), recipes AS (
    SELECT * FROM members WHERE method = 'spot' AND floor = 0
), compared AS (
    SELECT m.*, r.nfe AS recipe_nfe, r.ratio AS recipe_ratio, concat_ws(', ',
        CASE WHEN m.shape <> r.shape THEN m.shape END, CASE WHEN m.hedge <> r.hedge THEN 'hedge' END,
        CASE WHEN m.prompts <> r.prompts THEN 'corpus' END, CASE WHEN m.tau <> r.tau THEN 'tau' END,
        CASE WHEN m.floor <> r.floor THEN 'floor' END, CASE WHEN m.padded <> r.padded THEN 'padding' END
    ) AS changed
    FROM members AS m JOIN recipes AS r
        ON r.experiment = m.experiment AND r.target = m.target AND r.task = m.task AND r.cache = m.cache
        AND r.layout = m.layout AND r.stop = m.stop AND r.generation_length = m.generation_length
        AND r.block_length = m.block_length AND r.sample_set = m.sample_set AND r.budget = m.budget
        AND r.device_class IS NOT DISTINCT FROM m.device_class
        AND r.padded = CASE WHEN m.method = 'spot' AND m.floor = 0 THEN r.padded ELSE m.padded END
        AND r.layers IS NOT DISTINCT FROM m.layers AND r.width IS NOT DISTINCT FROM m.width
        AND r.training IS NOT DISTINCT FROM m.training
    QUALIFY row_number() OVER (PARTITION BY m.number ORDER BY r.padded DESC) = 1
)
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    budget, method, padded, floor, if(changed = '', 'recipe', changed) AS component, n_samples, n_seeds, hedge, tau,
        prompts,
    nfe, nfe_std, nfe_reduction, ratio, ratio_std, answer_reduction, answer_ratio, nfe - recipe_nfe AS nfe_added,
    ratio - recipe_ratio AS ratio_added
FROM compared
QUALIFY bool_or(changed <> '') OVER (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split,
        sample_set, budget
)
ORDER BY experiment, target, task, budget, padded DESC, (component <> 'recipe'), component, method;
