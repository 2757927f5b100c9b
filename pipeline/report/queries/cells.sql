-- The main table's rows and the drafter behind each method's name.
SELECT m.*, d.drafter
FROM main_table AS m JOIN (SELECT DISTINCT experiment, method, drafter FROM cells) AS d USING (experiment, method)
WHERE m.experiment = $experiment
ORDER BY m.temperature, m.task, m.budget, m.method;
