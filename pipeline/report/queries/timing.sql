-- Net milliseconds per generated token of each cell, by what they were spent on, pooled over samples and seeds.
SELECT r.target, r.task, r.method, r.verifier, r.budget, r.floor, r.padded, r.temperature, r.commit_rule, r.cache, r.layout,
    r.stop, r.generation_length, r.block_length, r.device_class, r.split,
    1000 * sum(t.wall_s) / nullif(sum(t.generated_tokens), 0) AS total_ms,
    1000 * sum(t.forward_s) / nullif(sum(t.generated_tokens), 0) AS forward_ms,
    1000 * sum(coalesce(t.draft_s, 0)) / nullif(sum(t.generated_tokens), 0) AS draft_ms,
    1000 * sum(t.wall_s - t.forward_s - coalesce(t.draft_s, 0)) / nullif(sum(t.generated_tokens), 0) AS other_ms,
    1000 * sum(t.wall_s) / nullif(sum(t.nfe), 0) AS ms_per_forward
FROM selected AS s JOIN runs AS r USING (run_id) JOIN samples AS t USING (run_id)
WHERE s.experiment = $experiment
GROUP BY ALL
ORDER BY r.temperature, r.task, r.method, r.budget;
