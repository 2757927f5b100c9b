-- run_rounds: rounds summed per run.
--   run_id           the run
--   rounds           target forwards
--   drafted_rounds   forwards that verified at least one draft
--   drafted          draft nodes verified
--   accepted         drafts accepted
CREATE OR REPLACE VIEW run_rounds AS
SELECT run_id, count(*) AS rounds, count(*) FILTER (drafted > 0) AS drafted_rounds, sum(drafted)::BIGINT AS drafted,
    sum(accepted)::BIGINT AS accepted
FROM rounds GROUP BY run_id;
