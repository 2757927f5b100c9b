-- audit: runs whose drafts claim to change nothing but whose tokens differ from their control's. Empty is good. Exact drafts on top
--   of an approximate cache or a lossy commit rule belong here too, as the control has the same.
--   run_id            the run
--   control_run_id    its control
--   experiment        the experiment
--   target, task, method, verifier, budget, temperature, seed, dtype   see runs
--   tokens_match      share of samples whose tokens are equal
--   n_samples         samples decoded
--   failure           true in float32 (or where the type is not stated), where nothing excuses a difference; false in
--                     half precision, where the batch shape may turn a near tie
--   samples           ids of the samples that differ
CREATE OR REPLACE VIEW audit AS
SELECT p.run_id, p.control_run_id, p.experiment, p.target, p.task, p.method, p.verifier, p.budget, p.temperature,
    p.seed, p.dtype, p.tokens_match, p.n_samples, coalesce(p.dtype, 'float32') = 'float32' AS failure,
    (
        SELECT list(s.sample_id ORDER BY s.sample_id) FROM samples AS s
        JOIN samples AS c ON c.run_id = p.control_run_id AND c.sample_id = s.sample_id
        WHERE s.run_id = p.run_id AND s.tokens <> c.tokens
    ) AS samples
FROM paired AS p JOIN runs AS r ON r.run_id = p.run_id
WHERE coalesce((r.extra ->> '$.drafts_exact')::BOOLEAN, p.distribution_preserving) AND p.tokens_match < 1;
