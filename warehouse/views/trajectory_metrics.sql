-- trajectory_metrics: what the trajectory paper reports, for every cell, controls included, pooled over samples and seeds.
--   A step is a target forward. Drift and changes are against the control of the same commit rule and cache, so that they
--   are what drafting did; a lossless run has none.
--   experiment           name of the experiment
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout   cell
--   stop, generation_length, block_length   cell
--   device_class, split, sample_set   see runs
--   setting              vanilla (no cache, one position per step), top-k, fast-dllm or fast-dllm factor with its cache for
--                        controls that are those; else the method
--   shape                W<width>D<depth> of trajectory drafts, with its variant unless hybrid; NULL for other drafters
--   inter_blocks         drafts of the next block in it
--   most_drafts          largest number of drafts in a round
--   check_logits         whether its logits were compared with those of forwards without drafts, as for table 10
--   n_seeds, n_samples   seeds, and samples over all of them
--   distribution_preserving   whether all runs are
--   steps                forwards per sample
--   step_change          steps over the control's, minus 1
--   tokens_per_step      generated tokens over forwards
--   control_tokens_per_step   the control's
--   answer_tokens_per_step   answer tokens over the forwards up to the first stop id
--   tok_s                generated tokens per second
--   tps_ratio            tok_s over the control's
--   latency_s            seconds per sample
--   latency_change       latency_s over the control's, minus 1
--   ms_per_step          milliseconds per forward, all included
--   draft_share          share of the time spent on building drafts
--   draft_overhead       time spent on building drafts over that of the forwards (table 5)
--   accuracy             share of samples scored correct
--   accuracy_change      accuracy minus the control's
--   drifted_samples      share of samples whose tokens differ from the control's
--   drifted_tokens       share of tokens that differ from the control's at the same place
--   none_certain         share of steps after which no masked position has confidence tau or more
--   fewer_than_2, fewer_than_3, fewer_than_4   share of steps after which fewer positions have (low-confidence degeneration)
--   doubtful             masked positions of stale confidence below tau, over rounds
--   true_in_top_1, true_in_top_2, true_in_top_3, true_in_top_5, true_in_top_8   of those, share whose final token is among
--                        the most probable stale ones
--   alpha_1              share of drafted rounds that accepted a draft of the first level or beyond
--   alpha_2              of these, where there was a second level, share that accepted one of it or beyond
--   accepted_per_round   accepted drafts of the open block per drafted round
--   ahead_share          share of steps that worked on the next block as well
--   ahead_per_step       positions of the next block filled per step
CREATE OR REPLACE VIEW trajectory_metrics AS
WITH options AS (
    SELECT identity, arg_max(params, seq)::JSON -> '$.params.drafter_options' AS given,
        coalesce((arg_max(params, seq)::JSON ->> '$.params.check_logits')::BOOLEAN, false) AS check_logits
    FROM node_plans WHERE kind = 'evaluate' GROUP BY identity
), shapes AS (
    SELECT identity, 'W' || coalesce(given ->> '$.width', '2') || 'D' || coalesce(given ->> '$.depth', '2')
            || coalesce(' ' || nullif(given ->> '$.variant', 'hybrid'), '') AS shape,
        coalesce((given ->> '$.inter_blocks')::INTEGER, 0) AS inter_blocks, check_logits
    FROM options
), steps AS (
    SELECT run_id, count(*) AS steps, count(certain) AS judged, max(drafted) AS most_drafts,
        count(*) FILTER (certain < 1) AS below_1, count(*) FILTER (certain < 2) AS below_2,
        count(*) FILTER (certain < 3) AS below_3, count(*) FILTER (certain < 4) AS below_4,
        count(*) FILTER (levels >= 1) AS offered_1, count(*) FILTER (levels >= 1 AND level >= 1) AS accepted_1,
        count(*) FILTER (levels >= 2 AND level >= 1) AS offered_2, count(*) FILTER (levels >= 2 AND level >= 2) AS accepted_2,
        sum(accepted) AS accepted, count(*) FILTER (drafted > 0) AS drafted_rounds,
        count(*) FILTER (ahead_drafted > 0 OR len(ahead_positions) > 0) AS ahead_steps,
        sum(coalesce(len(ahead_positions), 0)) AS ahead_filled
    FROM rounds GROUP BY run_id
), doubts AS (
    SELECT run_id, sum(doubtful) AS doubtful, sum(doubtful_covered[1]) AS top_1, sum(doubtful_covered[2]) AS top_2,
        sum(doubtful_covered[3]) AS top_3, sum(doubtful_covered[5]) AS top_5, sum(doubtful_covered[8]) AS top_8
    FROM blocks GROUP BY run_id
), totals AS (
    SELECT run_id, count(*) AS samples, sum(generated_tokens) AS tokens, sum(answer_tokens) AS answer_tokens, sum(nfe) AS nfe,
        sum(nfe_answer) AS nfe_answer, sum(wall_s) AS wall_s, sum(draft_s) AS draft_s, sum(forward_s) AS forward_s
    FROM samples GROUP BY run_id
), pairs AS (
    SELECT p.run_id, s.tokens <> c.tokens AS differs, greatest(len(s.tokens), len(c.tokens)) AS places,
        list_sum(list_transform(list_zip(s.tokens, c.tokens), lambda pair: (pair[1] IS DISTINCT FROM pair[2])::INTEGER)) AS wrong
    FROM paired AS p JOIN samples AS s ON s.run_id = p.run_id
    JOIN samples AS c ON c.run_id = p.control_run_id AND c.sample_id = s.sample_id
    WHERE s.tokens IS NOT NULL AND c.tokens IS NOT NULL AND p.verifier NOT IN ('rejection', 'pt-rejection')
), drifts AS (
    SELECT run_id, count(*) AS compared, count(*) FILTER (differs) AS differing, sum(places) AS places, sum(wrong) AS wrong
    FROM pairs GROUP BY run_id
), members AS (
    SELECT s.experiment AS owner, p.*, CASE WHEN p.drafter = 'trajectory' THEN h.shape END AS shape,
        CASE WHEN p.drafter = 'trajectory' THEN h.inter_blocks END AS inter_blocks, coalesce(h.check_logits, false) AS check_logits
    FROM selected AS s JOIN paired AS p USING (run_id) LEFT JOIN shapes AS h ON h.identity = p.identity
), pooled AS (
    SELECT owner AS experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule,
        cache, layout, stop, generation_length, block_length, device_class, split, sample_set,
        any_value(shape) AS shape, any_value(inter_blocks) AS inter_blocks, max(most_drafts) AS most_drafts, bool_or(check_logits) AS check_logits,
        count(DISTINCT seed) AS n_seeds, sum(t.samples)::BIGINT AS n_samples,
        bool_and(distribution_preserving) AS distribution_preserving,
        sum(t.nfe) / nullif(sum(t.samples), 0) AS steps, sum(c.nfe) / nullif(sum(c.samples), 0) AS control_steps,
        sum(t.tokens) / nullif(sum(t.nfe), 0) AS tokens_per_step,
        sum(c.tokens) / nullif(sum(c.nfe), 0) AS control_tokens_per_step,
        sum(t.answer_tokens) / nullif(sum(t.nfe_answer), 0) AS answer_tokens_per_step,
        sum(t.tokens) / nullif(sum(t.wall_s), 0) AS tok_s, sum(c.tokens) / nullif(sum(c.wall_s), 0) AS control_tok_s,
        sum(t.wall_s) / nullif(sum(t.samples), 0) AS latency_s, sum(c.wall_s) / nullif(sum(c.samples), 0) AS control_latency_s,
        1000 * sum(t.wall_s) / nullif(sum(t.nfe), 0) AS ms_per_step, sum(t.draft_s) / nullif(sum(t.wall_s), 0) AS draft_share,
        sum(t.draft_s) / nullif(sum(t.forward_s), 0) AS draft_overhead,
        avg(accuracy) AS accuracy, avg(accuracy_delta) AS accuracy_change,
        sum(differing) / nullif(sum(compared), 0) AS drifted_samples, sum(wrong) / nullif(sum(places), 0) AS drifted_tokens,
        sum(below_1) / nullif(sum(judged), 0) AS none_certain, sum(below_2) / nullif(sum(judged), 0) AS fewer_than_2,
        sum(below_3) / nullif(sum(judged), 0) AS fewer_than_3, sum(below_4) / nullif(sum(judged), 0) AS fewer_than_4,
        sum(doubtful)::BIGINT AS doubtful, sum(top_1) / nullif(sum(doubtful), 0) AS true_in_top_1,
        sum(top_2) / nullif(sum(doubtful), 0) AS true_in_top_2, sum(top_3) / nullif(sum(doubtful), 0) AS true_in_top_3,
        sum(top_5) / nullif(sum(doubtful), 0) AS true_in_top_5, sum(top_8) / nullif(sum(doubtful), 0) AS true_in_top_8,
        sum(accepted_1) / nullif(sum(offered_1), 0) AS alpha_1, sum(accepted_2) / nullif(sum(offered_2), 0) AS alpha_2,
        sum(accepted) / nullif(sum(drafted_rounds), 0) AS accepted_per_round,
        sum(ahead_steps) / nullif(sum(s.steps), 0) AS ahead_share, sum(ahead_filled) / nullif(sum(s.steps), 0) AS ahead_per_step
    FROM members AS m JOIN totals AS t USING (run_id) LEFT JOIN totals AS c ON c.run_id = m.control_run_id
    LEFT JOIN steps AS s USING (run_id) LEFT JOIN doubts USING (run_id) LEFT JOIN drifts USING (run_id)
    GROUP BY owner, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout,
        stop, generation_length, block_length, device_class, split, sample_digest, sample_set, target_digest
)
SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout,
    stop, generation_length, block_length, device_class, split, sample_set,
    CASE WHEN drafter <> 'none' THEN method
        WHEN cache = 'none' AND commit_rule = 'single' THEN 'vanilla'
        WHEN starts_with(commit_rule, 'top-k') THEN 'top-k, cache ' || cache
        WHEN starts_with(commit_rule, 'threshold') THEN 'fast-dllm, cache ' || cache
        WHEN starts_with(commit_rule, 'factor') THEN 'fast-dllm factor, cache ' || cache
        ELSE 'one per step, cache ' || cache END AS setting,
    shape, inter_blocks, most_drafts, check_logits, n_seeds, n_samples, distribution_preserving, steps,
    steps / nullif(control_steps, 0) - 1 AS step_change, tokens_per_step, control_tokens_per_step, answer_tokens_per_step, tok_s,
    tok_s / nullif(control_tok_s, 0) AS tps_ratio, latency_s, latency_s / nullif(control_latency_s, 0) - 1 AS latency_change,
    ms_per_step, draft_share, draft_overhead, accuracy, accuracy_change, drifted_samples, drifted_tokens, none_certain,
    fewer_than_2, fewer_than_3, fewer_than_4, doubtful, true_in_top_1, true_in_top_2, true_in_top_3, true_in_top_5,
    true_in_top_8, alpha_1, alpha_2, accepted_per_round, ahead_share, ahead_per_step
FROM pooled;
