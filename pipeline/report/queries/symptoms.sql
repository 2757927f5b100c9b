-- What decoding without drafts shows about the target: does the previous forward already know the token, and the position?
SELECT r.target, r.task, r.temperature, avg(r.stale_token_share) AS stale_token_share,
    avg(r.stale_position_share) AS stale_position_share, avg(r.exact_tie_share) AS exact_tie_share,
    avg(r.near_tie_share) AS near_tie_share, count(*) AS runs
FROM selected AS s JOIN runs AS r USING (run_id)
WHERE s.experiment = $experiment AND r.drafter = 'none'
    AND (r.stale_token_share IS NOT NULL OR r.stale_position_share IS NOT NULL)
GROUP BY r.target, r.task, r.temperature ORDER BY r.target, r.temperature, r.task;
