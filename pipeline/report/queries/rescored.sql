-- Samples whose tokens equal the control's and whose score does not: the scorer decided differently on the same text.
SELECT p.task, count(*) AS samples
FROM selected AS s JOIN paired AS p USING (run_id)
JOIN samples AS own ON own.run_id = p.run_id
JOIN samples AS control ON control.run_id = p.control_run_id AND control.sample_id = own.sample_id
WHERE s.experiment = $experiment AND own.tokens = control.tokens AND own.correct <> control.correct
GROUP BY p.task ORDER BY p.task;
