-- spot_table_03: SPOT, tables 3 (NFE) and 14 (NFE and ratio), transfer: order models and graphs on targets they were
--   not made on, beside the native ones, at T=0 without retraining; for targets where at least one drafter is
--   transferred.
--   experiment            name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split   see runs
--   made_on, made_on_block_length   where the order model was trained or the graph calibrated
--   native                whether that is this target and block length
--   method, drafter, budget, padded, floor   cell
--   n_samples, n_seeds    samples per seed, and seeds
--   nfe, nfe_std          target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction         control's NFE over this one's
--   ratio, ratio_std      throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction      the control's forwards up to the first stop id over this one's
--   answer_ratio          ratio of answer tokens per second
--   over_native_percent   100 * (nfe / NFE of the native drafter of the same kind and options - 1); NULL without one
CREATE OR REPLACE VIEW spot_table_03 AS
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    made_on, made_on_block_length, native, method, drafter, budget, padded, floor, n_samples, n_seeds, nfe, nfe_std,
        nfe_reduction, ratio, ratio_std, answer_reduction, answer_ratio,
    100 * (nfe / nullif(min(nfe) FILTER (native AND method = drafter) OVER alike, 0) - 1) AS over_native_percent
FROM method_cells
WHERE temperature = 0 AND commit_rule = 'single' AND (method = drafter OR NOT native) AND drafter IN ('spot',
    'spiffy')
    AND made_on IS NOT NULL
WINDOW place AS (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split,
        sample_set, budget, padded
), alike AS (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split,
        sample_set, budget, padded, drafter
)
QUALIFY bool_or(NOT native) OVER place
ORDER BY experiment, target, block_length, drafter, task, budget, (NOT native), made_on, made_on_block_length;
