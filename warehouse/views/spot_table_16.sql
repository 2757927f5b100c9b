-- spot_table_16: SPOT, table 16, generation length: methods measured at several generation lengths above T=0, over
--   the same samples and each against the control of its length.
--   experiment            name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split   see runs
--   budget, method, verifier, padded, floor   cell
--   n_samples, n_seeds    samples per seed, and seeds
--   nfe, nfe_std          target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction         control's NFE over this one's
--   ratio, ratio_std      throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction      the control's forwards up to the first stop id over this one's
--   answer_ratio          ratio of answer tokens per second
--   over_spiffy_percent   100 * (nfe / NFE of spiffy at this length and budget - 1)
--   ratio_over_spiffy     ratio over that of spiffy there
CREATE OR REPLACE VIEW spot_table_16 AS
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    budget, method, verifier, padded, floor, n_samples, n_seeds, nfe, nfe_std, nfe_reduction, ratio, ratio_std,
        answer_reduction, answer_ratio,
    100 * (nfe / nullif(min(nfe) FILTER (method = 'spiffy') OVER place, 0) - 1) AS over_spiffy_percent,
    ratio / nullif(max(ratio) FILTER (method = 'spiffy') OVER place, 0) AS ratio_over_spiffy
FROM method_cells
WHERE method IN ('spot', 'spot-gamma', 'spiffy', 'chain', 'tree') AND native IS DISTINCT
    FROM false AND temperature = 1
    AND commit_rule = 'single' AND (verifier = 'coupled' OR verifier = 'rejection' AND method = 'chain')
WINDOW place AS (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split,
        sample_set, verifier, budget
)
QUALIFY count(DISTINCT generation_length) OVER (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, block_length, device_class, split,
        sample_set, method, verifier, padded, floor, budget
) > 1
ORDER BY experiment, target, task, temperature, budget, method, generation_length;
