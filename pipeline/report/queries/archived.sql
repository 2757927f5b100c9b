-- Archived runs of the experiment's nodes, with the reason and what replaced them (view outliers).
SELECT o.*
FROM outliers AS o JOIN runs AS r USING (run_id)
WHERE o.experiment = $experiment OR r.identity IN (SELECT identity FROM nodes WHERE experiment = $experiment)
ORDER BY o.archived_at, o.run_id;
