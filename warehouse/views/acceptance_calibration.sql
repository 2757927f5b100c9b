-- acceptance_calibration: how often drafted nodes are accepted, by the mass their drafter gave them, pooled over samples
--   and seeds (SPOT, figure 5 left). Only spot's mass claims to be the probability of acceptance; that of other drafters
--   (products of stale token probabilities, renormalised confidences, 1 for oracles) is shown as it is.
--   experiment             name of the experiment
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout   cell
--   stop, generation_length, block_length   cell
--   device_class           see runs
--   bin                    bin of the mass, 1 to 10
--   mass_low, mass_high    its bounds; the lower one belongs to it
--   n_seeds                seeds
--   drafted                nodes drafted in the bin; bins without any are left out
--   accepted               of those, nodes accepted
--   mass                   mean mass of the drafted nodes
--   acceptance             accepted / drafted
CREATE OR REPLACE VIEW acceptance_calibration AS
WITH bins AS (SELECT unnest(range(1, 11))::INTEGER AS bin)
SELECT s.experiment, r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature,
    r.commit_rule, r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, k.bin,
    (k.bin - 1) / 10 AS mass_low, k.bin / 10 AS mass_high, count(DISTINCT r.seed) AS n_seeds,
    sum(b.mass_drafted[k.bin])::BIGINT AS drafted, sum(b.mass_accepted[k.bin])::BIGINT AS accepted,
    sum(b.mass_sum[k.bin]) / nullif(sum(b.mass_drafted[k.bin]), 0) AS mass,
    sum(b.mass_accepted[k.bin]) / nullif(sum(b.mass_drafted[k.bin]), 0) AS acceptance
FROM selected AS s JOIN runs AS r USING (run_id) JOIN blocks AS b USING (run_id) CROSS JOIN bins AS k
GROUP BY s.experiment, r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature,
    r.commit_rule, r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, r.split,
    r.sample_set, k.bin
HAVING drafted > 0
ORDER BY s.experiment, r.target, r.task, r.temperature, r.method, r.budget, k.bin;
