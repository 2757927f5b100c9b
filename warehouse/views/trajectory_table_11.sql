-- trajectory_table_11: trajectory paper, table 11: accuracy by difficulty. The paper's levels are those of MATH; here samples fall
--   into fifths by the forwards per answer token that the control of the same commit rule and cache needed, the first the
--   easiest. For settings of 10 samples or more.
--   experiment           name of the experiment
--   target, task, temperature, commit_rule, cache, layout, stop, generation_length, block_length, device_class   cell
--   method, verifier, budget   the run judged
--   level                fifth, 1 .. 5; NULL for all samples
--   n_samples            samples over all seeds
--   control_steps_per_token   the control's forwards up to the first stop id over answer tokens
--   accuracy, control_accuracy   share correct
--   accuracy_change      accuracy minus control_accuracy
--   steps, control_steps   forwards per sample
--   step_change          steps over control_steps, minus 1
--   drifted_samples      share of samples whose tokens differ from the control's
CREATE OR REPLACE VIEW trajectory_table_11 AS
WITH pairs AS (
    SELECT s.experiment, p.target, p.task, p.temperature, p.commit_rule, p.cache, p.layout, p.stop, p.generation_length,
        p.block_length, p.device_class, p.method, p.verifier, p.budget, p.run_id, a.sample_id, a.correct, c.correct AS control_correct,
        a.nfe, c.nfe AS control_nfe, a.tokens <> c.tokens AS differs, c.nfe_answer, c.answer_tokens,
        c.nfe_answer / greatest(c.answer_tokens, 1) AS difficulty
    FROM selected AS s JOIN paired AS p USING (run_id) JOIN samples AS a ON a.run_id = p.run_id
    JOIN samples AS c ON c.run_id = p.control_run_id AND c.sample_id = a.sample_id
    WHERE p.drafter = 'trajectory'
), levels AS (
    SELECT *, ntile(5) OVER (PARTITION BY experiment, run_id ORDER BY difficulty, sample_id) AS level,
        count(*) OVER (PARTITION BY experiment, run_id) AS size
    FROM pairs
)
SELECT experiment, target, task, temperature, commit_rule, cache, layout, stop, generation_length, block_length, device_class, method,
    verifier, budget, level, count(*) AS n_samples, sum(nfe_answer) / nullif(sum(answer_tokens), 0) AS control_steps_per_token,
    avg(correct::INTEGER) AS accuracy, avg(control_correct::INTEGER) AS control_accuracy,
    avg(correct::INTEGER) - avg(control_correct::INTEGER) AS accuracy_change, avg(nfe) AS steps, avg(control_nfe) AS control_steps,
    avg(nfe) / nullif(avg(control_nfe), 0) - 1 AS step_change, avg(differs::INTEGER) AS drifted_samples
FROM levels WHERE size >= 10
GROUP BY experiment, target, task, temperature, commit_rule, cache, layout, stop, generation_length, block_length, device_class, method,
    verifier, budget, GROUPING SETS ((level), ())
ORDER BY experiment, target, task, commit_rule, method, verifier, level NULLS LAST;
