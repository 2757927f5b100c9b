-- spot_table_02: SPOT, table 2, and tables 8 to 13, 18 and 19, which are the same for other targets, tasks and
--   budgets: the drafters of the main comparison at T=0 and T=1. Above T=0 all go by coupled noise but the chain
--   under rejection sampling.
--   experiment                name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split       see runs
--   method, verifier, budget, padded, floor   cell
--   n_samples, n_seeds        samples per seed, and seeds
--   distribution_preserving   see runs
--   accuracy                  share correct
--   nfe, nfe_std              target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction             control's NFE over this one's
--   ratio, ratio_std          throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction          the control's forwards up to the first stop id over this one's
--   answer_ratio              ratio of answer tokens per second
--   accepted_per_round        accepted drafts per drafted round, pooled
CREATE OR REPLACE VIEW spot_table_02 AS
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    method, verifier, budget, padded, floor, n_samples, n_seeds, distribution_preserving, accuracy, nfe, nfe_std,
    nfe_reduction, ratio, ratio_std, answer_reduction, answer_ratio, accepted_per_round
FROM method_cells
WHERE method IN ('control', 'spot', 'spot-gamma', 'spiffy', 'chain', 'tree') AND commit_rule = 'single'
    AND temperature IN (0, 1) AND native IS DISTINCT FROM false AND (
        verifier IN ('none', 'coupled') OR verifier = 'greedy' AND temperature = 0
        OR verifier = 'rejection' AND method = 'chain'
    )
ORDER BY experiment, target, task, temperature, budget, method, verifier;
