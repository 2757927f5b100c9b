-- drift: how far a machine moved between two timings of the same control: controls archived because they were re-timed,
--   beside the active control of their key.
--   run_id           the earlier timing, archived
--   active_run_id    the active control
--   target, task, temperature, seed, device_class   see runs
--   tok_s            tokens per second then
--   active_tok_s     tokens per second of the active control
--   drift            active_tok_s / tok_s - 1
--   started_at       start of the earlier timing
--   active_started_at   start of the active control
--   reason           why the earlier one was archived
CREATE OR REPLACE VIEW drift AS
SELECT r.run_id, c.run_id AS active_run_id, r.target, r.task, r.temperature, r.seed, r.device_class, r.tok_s,
    c.tok_s AS active_tok_s, c.tok_s / nullif(r.tok_s, 0) - 1 AS drift, r.started_at, c.started_at AS active_started_at,
    r.reason
FROM runs AS r JOIN controls AS c
    ON r.target = c.target AND r.task = c.task AND r.temperature = c.temperature
    AND r.generation_length = c.generation_length AND r.block_length = c.block_length AND r.cache = c.cache
    AND r.commit_rule = c.commit_rule AND r.stop = c.stop AND r.seed = c.seed AND r.sample_set = c.sample_set
    AND r.sample_digest IS NOT DISTINCT FROM c.sample_digest AND r.target_digest IS NOT DISTINCT FROM c.target_digest
    AND r.device_class IS NOT DISTINCT FROM c.device_class
WHERE r.drafter = 'none' AND r.status = 'archived' AND starts_with(r.reason, 're-timed');
