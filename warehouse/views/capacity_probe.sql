-- capacity_probe: order models of different size beside each other (SPOT, section F.10): held-out accuracy and what
--   it is worth in NFE at T=0; for experiments with models of two sizes on the same corpus.
--   experiment               name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split      see runs
--   layers, width            size of the order model
--   parameters               its parameters
--   accuracy                 next commits predicted on held-out trajectories
--   baseline                 the same by stale confidence
--   method, budget, padded   cell
--   n_samples, n_seeds       samples per seed, and seeds
--   nfe, nfe_std             target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction            control's NFE over this one's
--   ratio, ratio_std         throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction         the control's forwards up to the first stop id over this one's
--   answer_ratio             ratio of answer tokens per second
CREATE OR REPLACE VIEW capacity_probe AS
WITH members AS (
    SELECT m.*, n.summary
        FROM method_cells AS m JOIN nodes AS n ON n.experiment = m.experiment AND n.identity = m.model

        WHERE m.drafter = 'spot' AND m.native AND m.temperature = 0 AND m.commit_rule = 'single' AND m.floor = 0 AND m.shape = 'tree'
        AND NOT EXISTS (
            SELECT 1
                FROM method_cells AS r WHERE r.experiment = m.experiment AND r.method = 'spot' AND r.target = m.target
                AND r.block_length = m.block_length
                AND (r.prompts <> m.prompts OR r.hedge <> m.hedge OR r.tau <> m.tau
                    OR r.method <> m.method AND r.layers = m.layers AND r.width = m.width)
        )
)
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    layers, width, (summary ->> '$.parameters')::BIGINT AS parameters, (summary ->> '$.accuracy')::DOUBLE AS accuracy,
    (summary ->> '$.baseline')::DOUBLE AS baseline, method, budget, padded, n_samples, n_seeds, nfe, nfe_std,
        nfe_reduction, ratio, ratio_std, answer_reduction, answer_ratio
FROM members
QUALIFY count(DISTINCT layers * 100000 + width) OVER (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split,
        sample_set, budget, padded
) > 1
ORDER BY experiment, target, task, block_length, budget, parameters;
