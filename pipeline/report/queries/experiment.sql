-- The latest submit of the experiment; `stale` if the runs that are shown belong to an earlier plan, as it has none yet.
SELECT name, spec_text, spec_identity, command, versions, git_commit, recorded_at AS submitted_at,
    EXISTS (
        SELECT 1 FROM selected AS s JOIN runs AS r USING (run_id)
        WHERE s.experiment = $experiment AND EXISTS (SELECT 1 FROM node_plans WHERE experiment = $experiment)
            AND r.identity NOT IN (SELECT identity FROM nodes WHERE experiment = $experiment)
    ) AS stale
FROM experiments WHERE name = $experiment ORDER BY seq DESC LIMIT 1;
