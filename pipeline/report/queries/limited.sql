-- Runs kept out of every table because --limit cut them short.
SELECT count(*) AS runs
FROM runs WHERE limited AND (experiment = $experiment OR identity IN (SELECT identity FROM nodes WHERE experiment = $experiment));
