-- paired: every ok run, methods and controls alike, beside the active control of its key: same target, task,
--   temperature, lengths, cache, commit rule, stop, samples, seed and device class. A run without one stays, with
--   paired = false and NULLs.
--   experiment                the experiment that ran it first
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout   cell
--   stop, generation_length, block_length   cell
--   seed                      seed
--   run_id                    the run
--   control_run_id            its control; a control's own is the active one of its key
--   paired                    whether there is a control
--   nfe                       target forwards per sample
--   control_nfe               the control's
--   nfe_reduction             control_nfe / nfe
--   tok_s                     pooled tokens per second
--   control_tok_s             the control's
--   throughput_ratio          tok_s / control_tok_s, pooled over pooled
--   accuracy                  share correct
--   control_accuracy          the control's
--   accuracy_delta            accuracy - control_accuracy
--   tokens_match              share of samples (0-1) whose generated tokens equal the control's; NULL for verifiers
--                             rejection and pt-rejection, exact in law only, and where tokens were not stored
--   nfe_answer                forwards up to the first stop id, per sample
--   control_nfe_answer        the control's
--   answer_tok_s              answer tokens per second
--   control_answer_tok_s      the control's
--   answer_throughput_ratio   answer_tok_s / control_answer_tok_s
--   distribution_preserving   see runs
--   identity                  the run's identity
--   attempt                   its attempt
--   n_samples                 samples decoded
--   split                     split of the task
--   sample_digest             see runs
--   sample_set                see runs
--   target_digest             see runs
--   limited                   whether --limit cut it short; such a run has no control
--   segments                  process segments, above 1 = interrupted and resumed
--   device_class              see runs
--   dtype                     see runs
--   started_at                see runs
CREATE OR REPLACE VIEW paired AS
WITH pairs AS (
    SELECT r.*, c.run_id AS control_run_id, c.nfe AS control_nfe, c.tok_s AS control_tok_s,
        c.accuracy AS control_accuracy, c.nfe_answer AS control_nfe_answer, c.answer_tok_s AS control_answer_tok_s
    FROM runs AS r LEFT JOIN controls AS c
        ON r.target = c.target AND r.task = c.task AND r.temperature = c.temperature
        AND r.generation_length = c.generation_length AND r.block_length = c.block_length AND r.cache = c.cache
        AND r.commit_rule = c.commit_rule AND r.stop = c.stop AND r.seed = c.seed AND r.sample_set = c.sample_set
        AND r.sample_digest IS NOT DISTINCT FROM c.sample_digest
        AND r.target_digest IS NOT DISTINCT FROM c.target_digest
        AND r.device_class IS NOT DISTINCT FROM c.device_class AND NOT r.limited
    WHERE r.status = 'ok'
), matches AS (
    SELECT p.run_id, avg(CASE WHEN s.tokens = cs.tokens THEN 1.0::DOUBLE ELSE 0.0::DOUBLE END) AS tokens_match
    FROM pairs AS p
    JOIN samples AS s ON s.run_id = p.run_id
    JOIN samples AS cs ON cs.run_id = p.control_run_id AND cs.sample_id = s.sample_id
    WHERE p.verifier NOT IN ('rejection', 'pt-rejection') AND s.tokens IS NOT NULL AND cs.tokens IS NOT NULL
    GROUP BY p.run_id
)
SELECT p.experiment, p.target, p.task, p.method, p.drafter, p.verifier, p.budget, p.floor, p.padded, p.temperature,
    p.commit_rule, p.cache, p.layout, p.stop, p.generation_length, p.block_length, p.seed, p.run_id, p.control_run_id,
    p.control_run_id IS NOT NULL AS paired, p.nfe, p.control_nfe, p.control_nfe / nullif(p.nfe, 0) AS nfe_reduction,
    p.tok_s, p.control_tok_s, p.tok_s / nullif(p.control_tok_s, 0) AS throughput_ratio, p.accuracy, p.control_accuracy,
    p.accuracy - p.control_accuracy AS accuracy_delta, m.tokens_match, p.nfe_answer, p.control_nfe_answer,
    p.answer_tok_s, p.control_answer_tok_s,
    p.answer_tok_s / nullif(p.control_answer_tok_s, 0) AS answer_throughput_ratio, p.distribution_preserving, p.identity, p.attempt, p.n_samples, p.split,
    p.sample_digest, p.sample_set, p.target_digest, p.limited, p.segments, p.device_class, p.dtype, p.started_at
FROM pairs AS p LEFT JOIN matches AS m USING (run_id);
