-- rejection_checks: what each check of a rejection verifier found on live states of its target, before any run with it.
--   experiment    name of the experiment
--   identity      the check-rejection node, upstream of the runs it allows
--   label         readable name of the node
--   verifier      rejection or pt-rejection
--   temperature   of the target's law
--   check_name    accept-residual: draws against the law at the committing position. committed pairs: the (position, token)
--                 pairs of whole rounds. acceptance: share of accepted draws against 1 - TV
--   proposal      the law proposals were drawn from: stale, or one that is wrong on purpose
--   states        live states
--   draws         draws per state
--   statistic     chi-square summed over the states; for acceptance the largest difference
--   dof           degrees of freedom, NULL for acceptance
--   p_value       of the chi-square, NULL for acceptance
--   passed        p_value at least 1e-5, or a difference of at most 0.002
CREATE OR REPLACE VIEW rejection_checks AS
WITH found AS (
    SELECT n.experiment, n.identity, n.label, n.summary ->> '$.verifier' AS verifier,
        (n.summary ->> '$.temperature')::DOUBLE AS temperature,
        unnest(from_json(n.summary -> '$.checks', '[{"check": "VARCHAR", "proposal": "VARCHAR", "states": "INTEGER",
            "draws": "INTEGER", "statistic": "DOUBLE", "dof": "INTEGER", "p_value": "DOUBLE", "passed": "BOOLEAN"}]')) AS c
    FROM nodes AS n WHERE n.kind = 'check-rejection' AND n.state = 'done'
)
SELECT experiment, identity, label, verifier, temperature, c."check" AS check_name, c.proposal, c.states, c.draws,
    c.statistic, c.dof, c.p_value, c.passed
FROM found;
