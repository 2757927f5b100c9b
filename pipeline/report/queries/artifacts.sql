-- Where the stages of the latest plan left their files.
SELECT n.kind, n.label, n.identity, a.path
FROM nodes AS n JOIN artifacts AS a USING (identity)
WHERE n.experiment = $experiment
QUALIFY row_number() OVER (PARTITION BY n.identity ORDER BY a.seq DESC) = 1
ORDER BY n.kind, n.label;
