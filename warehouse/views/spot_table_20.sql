-- spot_table_20: SPOT, table 20, budget response: NFE and throughput of SPOT by budget at T=0; for settings with
--   three budgets or more.
--   experiment            name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split   see runs
--   budget, padded        cell
--   n_samples, n_seeds    samples per seed, and seeds
--   nfe, nfe_std          target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction         control's NFE over this one's
--   ratio, ratio_std      throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction      the control's forwards up to the first stop id over this one's
--   answer_ratio          ratio of answer tokens per second
--   optimum               whether the ratio is the largest of the curve
--   accepted_per_round    accepted drafts per drafted round, pooled
CREATE OR REPLACE VIEW spot_table_20 AS
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    budget, padded, n_samples, n_seeds, nfe, nfe_std, nfe_reduction, ratio, ratio_std, answer_reduction, answer_ratio,
        ratio = max(ratio) OVER curve AS optimum, accepted_per_round
FROM spot_table_02
WHERE temperature = 0 AND method = 'spot'
WINDOW curve AS (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split,
        n_samples, padded
)
QUALIFY count(DISTINCT budget) OVER curve > 2
ORDER BY experiment, target, task, padded, budget;
