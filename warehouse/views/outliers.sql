-- outliers: archived runs with the reason and what replaced them.
--   run_id            the archived run
--   experiment        the experiment
--   target, task, method, budget, temperature, seed, attempt, device_class   see runs
--   reason            why it was archived
--   successor         the run that replaces it, NULL if none does yet
--   tok_s             its tokens per second
--   successor_tok_s   the successor's
--   relative          tok_s / successor_tok_s - 1
--   archived_at       when
CREATE OR REPLACE VIEW outliers AS
SELECT r.run_id, r.experiment, r.target, r.task, r.method, r.budget, r.temperature, r.seed, r.attempt, r.device_class,
    r.reason, r.successor, r.tok_s, s.tok_s AS successor_tok_s, r.tok_s / nullif(s.tok_s, 0) - 1 AS relative,
    a.archived_at
FROM runs AS r
JOIN (SELECT run_id, max(recorded_at) AS archived_at FROM archives GROUP BY run_id) AS a ON a.run_id = r.run_id
LEFT JOIN run_records AS s ON s.run_id = r.successor;
