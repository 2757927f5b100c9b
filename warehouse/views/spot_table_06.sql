-- spot_table_06: SPOT, table 6, properties of the drafters: the paper compares published methods in words; this is
--   what runs can show of it.
--   experiment                  name of the experiment
--   method, drafter, verifier   cell
--   learns_order                whether a trained model predicts the commit order
--   multi_step                  whether a draft was ever seen to hold several commits in a row
--   above_zero                  whether the runs are at T>0
--   claim                       whether the configuration keeps the target's distribution
--   n_cells                     cells behind it
--   tokens_match_min            smallest share of samples equal to the control, over cells and seeds
--   checks_passed, checks_made   checks of this verifier against the target's law; NULL for verifiers that need none
CREATE OR REPLACE VIEW spot_table_06 AS
WITH checks AS (
    SELECT experiment, verifier, count(*) FILTER (passed) AS checks_passed, count(*) AS checks_made
    FROM rejection_checks GROUP BY experiment, verifier
), steps AS (
    SELECT s.experiment, r.method, max(o.accepted) > 1 AS multi_step
    FROM selected AS s JOIN runs AS r USING (run_id) JOIN rounds AS o USING (run_id) GROUP BY s.experiment, r.method
)
SELECT m.experiment, m.method, m.drafter, m.verifier, m.drafter = 'spot' AS learns_order,
    any_value(p.multi_step) AS multi_step,
    m.temperature > 0 AS above_zero, bool_and(m.distribution_preserving) AS claim, count(*) AS n_cells,
    min(m.tokens_match_min) AS tokens_match_min, any_value(c.checks_passed) AS checks_passed,
    any_value(c.checks_made) AS checks_made
FROM method_cells AS m LEFT JOIN steps AS p ON p.experiment = m.experiment AND p.method = m.method
LEFT JOIN checks AS c ON c.experiment = m.experiment AND c.verifier = m.verifier
WHERE m.method IN ('spot', 'spiffy', 'chain', 'tree') AND m.commit_rule = 'single'
GROUP BY m.experiment, m.method, m.drafter, m.verifier, m.temperature > 0
ORDER BY m.experiment, m.drafter, above_zero, m.verifier;
