-- Method runs without a control, and why (view unpaired).
SELECT u.*
FROM selected AS s JOIN unpaired AS u USING (run_id)
WHERE s.experiment = $experiment
ORDER BY u.temperature, u.task, u.method, u.budget, u.seed;
