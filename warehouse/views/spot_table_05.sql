-- spot_table_05: SPOT, table 5, the reported speedups of MRP beside SPOT at D8 and T=0: each is a ratio over the
--   draft-free decoder of its own implementation, so that only the gains can be compared. MRP is not run; its figures
--   are those of table published.
--   experiment               name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split      see runs
--   method, budget, padded   cell; padded where SPOT was measured both ways
--   n_samples, n_seeds       samples per seed, and seeds
--   nfe, nfe_std             target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction            control's NFE over this one's
--   ratio, ratio_std         throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction         the control's forwards up to the first stop id over this one's
--   answer_ratio             ratio of answer tokens per second
--   mrp_low, mrp_high        smallest and largest speedup that MRP reports
--   mrp_targets              on these targets
CREATE OR REPLACE VIEW spot_table_05 AS
WITH mrp AS (
    SELECT min(coalesce(value_low, value)) AS mrp_low, max(coalesce(value_high, value)) AS mrp_high,
        string_agg(DISTINCT target, ', ' ORDER BY target) AS mrp_targets
    FROM published WHERE item = 'Table 5' AND method = 'mrp' AND quantity = 'ratio'
)
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    method, budget, padded, n_samples, n_seeds, nfe, nfe_std, nfe_reduction, ratio, ratio_std, answer_reduction,
        answer_ratio, mrp_low, mrp_high, mrp_targets
FROM spot_table_02 CROSS JOIN mrp
WHERE method = 'spot' AND budget = 8 AND temperature = 0
QUALIFY padded = bool_or(padded) OVER (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split, n_samples
)
ORDER BY experiment, target, task, block_length DESC;
