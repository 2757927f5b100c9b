-- The latest submit of the experiment, and when it was first submitted.
SELECT name, spec_text, spec_identity, command, versions, git_commit, recorded_at AS submitted_at,
    min(recorded_at) OVER () AS first_submitted_at, count(*) OVER () AS submits
FROM experiments WHERE name = $experiment
QUALIFY row_number() OVER (ORDER BY seq DESC) = 1;
