-- Drafts verified and accepted per drafted round by cell and block, pooled over samples and seeds.
SELECT r.target, r.task, r.method, r.verifier, r.budget, r.floor, r.padded, r.temperature, r.commit_rule, r.cache, r.layout,
    r.stop, r.generation_length, r.block_length, r.device_class, r.split, o.block,
    count(*) AS drafted_rounds, avg(o.drafted) AS drafted_per_round, avg(o.accepted) AS accepted_per_round
FROM selected AS s JOIN runs AS r USING (run_id) JOIN rounds AS o USING (run_id)
WHERE s.experiment = $experiment AND o.drafted > 0
GROUP BY ALL
ORDER BY r.temperature, r.task, r.method, r.budget, o.block;
