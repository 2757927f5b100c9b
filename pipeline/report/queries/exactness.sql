-- Token-for-token agreement with the control by method and temperature, over tasks, budgets and seeds, and how often two
-- confidences tied or nearly tied, where rounding decides the order.
SELECT r.target, r.temperature, r.method, r.verifier, bool_and(r.distribution_preserving) AS distribution_preserving,
    string_agg(DISTINCT r.dtype, ', ') AS dtype, count(*) AS runs, count(p.tokens_match) AS compared,
    count(*) FILTER (p.tokens_match = 1) AS identical, min(p.tokens_match) AS tokens_match_min,
    sum(r.n_samples)::BIGINT AS samples, avg(r.exact_tie_share) AS exact_tie_share, avg(r.near_tie_share) AS near_tie_share
FROM selected AS s JOIN runs AS r USING (run_id) JOIN paired AS p USING (run_id)
WHERE s.experiment = $experiment AND r.drafter <> 'none'
GROUP BY r.target, r.temperature, r.method, r.verifier
ORDER BY r.target, r.temperature, r.method, r.verifier;
