-- spot_figure_3: SPOT, figure 3, budget curves at T=0: NFE and throughput ratio over the budget for SPOT and the
--   drafters it is compared with; padded where a method was measured both ways.
--   experiment            name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split   see runs
--   method, budget, padded, floor, verifier   cell
--   n_samples, n_seeds    samples per seed, and seeds
--   nfe, nfe_std          target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction         control's NFE over this one's
--   ratio, ratio_std      throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction      the control's forwards up to the first stop id over this one's
--   answer_ratio          ratio of answer tokens per second
CREATE OR REPLACE VIEW spot_figure_3 AS
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    method, budget, padded, floor, verifier, n_samples, n_seeds, nfe, nfe_std, nfe_reduction, ratio, ratio_std,
        answer_reduction, answer_ratio
FROM spot_table_02
WHERE temperature = 0 AND method <> 'control'
QUALIFY count(DISTINCT budget) OVER (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split, n_samples
) > 2 AND padded = bool_or(padded) OVER (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split, n_samples, method
)
ORDER BY experiment, target, task, method, padded, budget;
