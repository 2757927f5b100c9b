-- spot_table_22: SPOT, table 22, verifier and structure at T>0: SPOT's own proposals as trees and as chains under
--   each exact verifier.
--   experiment            name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split   see runs
--   budget, method, verifier, padded   cell
--   shape                 tree or chain
--   n_samples, n_seeds    samples per seed, and seeds
--   nfe, nfe_std          target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction         control's NFE over this one's
--   ratio, ratio_std      throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction      the control's forwards up to the first stop id over this one's
--   answer_ratio          ratio of answer tokens per second
--   over_tree             nfe minus that of the tree under the same verifier
--   over_coupled          nfe minus that of the same shape under coupled noise
--   ratio_over_coupled    ratio minus that of the same shape under coupled noise
CREATE OR REPLACE VIEW spot_table_22 AS
WITH recipes AS (
    SELECT DISTINCT experiment, target, block_length, model, hedge, tau
        FROM method_cells WHERE method = 'spot' AND native
), members AS (
    SELECT m.* FROM method_cells AS m JOIN recipes AS r
            ON r.experiment = m.experiment AND r.target = m.target AND r.block_length = m.block_length AND r.model = m.model
        AND r.hedge = m.hedge AND r.tau = m.tau
    WHERE m.drafter = 'spot' AND m.temperature > 0 AND m.commit_rule = 'single' AND m.floor = 0
        AND m.verifier IN ('coupled', 'rejection', 'pt-rejection')
)
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    budget, method, verifier, padded, shape, n_samples, n_seeds, nfe, nfe_std, nfe_reduction, ratio, ratio_std,
        answer_reduction, answer_ratio,
    nfe - min(nfe) FILTER (shape = 'tree') OVER (
        PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
            device_class, split,
            sample_set, budget, padded, verifier
    ) AS over_tree,
    nfe - min(nfe) FILTER (verifier = 'coupled') OVER alike AS over_coupled,
    ratio - max(ratio) FILTER (verifier = 'coupled') OVER alike AS ratio_over_coupled
FROM members
WINDOW alike AS (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split,
        sample_set, budget, padded, shape
)
QUALIFY count(DISTINCT shape || verifier) OVER (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split, sample_set
) > 1
ORDER BY experiment, target, task, temperature, budget, shape DESC, verifier;
