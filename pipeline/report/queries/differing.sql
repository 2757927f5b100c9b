-- Runs that claim exactness and differ from their control, with the samples that differ (view audit).
SELECT a.run_id, a.control_run_id, a.task, a.method, a.verifier, a.budget, a.temperature, a.seed, a.dtype, a.tokens_match,
    a.failure, a.samples
FROM selected AS s JOIN audit AS a USING (run_id)
WHERE s.experiment = $experiment
ORDER BY a.tokens_match, a.run_id;
