-- One row per run that stands for its seed.
SELECT p.*
FROM selected AS s JOIN paired AS p USING (run_id)
WHERE s.experiment = $experiment
ORDER BY p.temperature, p.task, p.method, p.budget, p.seed;
