-- The main table's rows and the drafter behind each method's name.
SELECT m.*, d.drafter
FROM main_table AS m JOIN (
    SELECT DISTINCT r.method, r.drafter FROM selected AS s JOIN runs AS r USING (run_id) WHERE s.experiment = $experiment
) AS d USING (method)
WHERE m.experiment = $experiment
ORDER BY m.temperature, m.task, m.budget, m.method;
