-- noise_aware_spiffy: Spiffy that knows the noise (SPOT, section F.6): positions ranked by the stale probability of
--   the token drawn there, or graphs calibrated on samples, beside plain Spiffy and SPOT under coupled noise.
--   experiment               name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split      see runs
--   budget, method, padded   cell
--   rank_by                  what ranks positions
--   n_samples, n_seeds       samples per seed, and seeds
--   nfe, nfe_std             target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction            control's NFE over this one's
--   ratio, ratio_std         throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction         the control's forwards up to the first stop id over this one's
--   answer_ratio             ratio of answer tokens per second
--   over_spiffy_percent      100 * (nfe / NFE of plain spiffy - 1)
CREATE OR REPLACE VIEW noise_aware_spiffy AS
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    budget, method, padded, coalesce(rank_by, if(drafter = 'spiffy', 'confidence', 'order model')) AS rank_by,
        n_samples, n_seeds,
    nfe, nfe_std, nfe_reduction, ratio, ratio_std, answer_reduction, answer_ratio,
    100 * (nfe / nullif(min(nfe) FILTER (method = 'spiffy') OVER place, 0) - 1) AS over_spiffy_percent
FROM method_cells
WHERE temperature > 0 AND verifier = 'coupled' AND commit_rule = 'single' AND native
    AND (drafter = 'spiffy' OR method = 'spot')
WINDOW place AS (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split,
        sample_set, budget, padded
)
QUALIFY bool_or(drafter = 'spiffy' AND method <> 'spiffy') OVER place
ORDER BY experiment, target, task, temperature, budget, method;
