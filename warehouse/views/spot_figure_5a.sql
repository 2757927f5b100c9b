-- spot_figure_5a: SPOT, figure 5 left, calibration of SPOT's own node score at T=0: share of drafted nodes accepted,
--   by prefix mass.
--   experiment            name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class          see runs
--   method, budget, padded, floor   cell
--   bin                   bin of the mass, see acceptance_calibration
--   mass_low, mass_high   its bounds
--   n_seeds               seeds
--   drafted, accepted     nodes
--   mass                  their mean mass
--   acceptance            accepted / drafted
CREATE OR REPLACE VIEW spot_figure_5a AS
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    method, budget, padded, floor, bin, mass_low, mass_high, n_seeds, drafted, accepted, mass, acceptance
FROM acceptance_calibration
WHERE method = 'spot' AND temperature = 0 AND commit_rule = 'single'
QUALIFY budget = max(budget) OVER (PARTITION BY experiment, target, task, temperature, cache, layout, stop,
    generation_length, block_length, device_class, padded)
    AND padded = bool_or(padded) OVER (PARTITION BY experiment, target, task, temperature, cache, layout, stop,
        generation_length, block_length, device_class)
ORDER BY experiment, target, task, generation_length, block_length, padded, bin;
