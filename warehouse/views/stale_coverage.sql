-- stale_coverage: how often all of the next K commits were already in the distribution before the forward, pooled over
--   rounds, blocks, samples and seeds (SPOT, figure 2b: "probability that all committed tokens over the next K steps lie
--   within the stale top-t candidates"). Runs without drafts look at every state of the trajectory, drafted ones at the
--   roots of their rounds.
--   experiment             name of the experiment
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout   cell
--   stop, generation_length, block_length   cell
--   device_class           see runs
--   steps                  K, 1 to 8
--   n_seeds                seeds
--   roots                  rounds with a stale distribution and at least K commits of their block still to come
--   tokens_1, tokens_2, tokens_4, tokens_8   share of them whose next K tokens are all among the 1, 2, 4 or 8 most probable
--                          stale tokens of their positions
--   positions              share whose next K commits fill the K masked positions of largest stale confidence
CREATE OR REPLACE VIEW stale_coverage AS
WITH steps AS (SELECT unnest(range(1, 9))::INTEGER AS steps)
SELECT s.experiment, r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature,
    r.commit_rule, r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, k.steps,
    count(DISTINCT r.seed) AS n_seeds, sum(b.coverage_roots[k.steps])::BIGINT AS roots,
    sum(b.covered_1[k.steps]) / nullif(sum(b.coverage_roots[k.steps]), 0) AS tokens_1,
    sum(b.covered_2[k.steps]) / nullif(sum(b.coverage_roots[k.steps]), 0) AS tokens_2,
    sum(b.covered_4[k.steps]) / nullif(sum(b.coverage_roots[k.steps]), 0) AS tokens_4,
    sum(b.covered_8[k.steps]) / nullif(sum(b.coverage_roots[k.steps]), 0) AS tokens_8,
    sum(b.covered_positions[k.steps]) / nullif(sum(b.coverage_roots[k.steps]), 0) AS positions
FROM selected AS s JOIN runs AS r USING (run_id) JOIN blocks AS b USING (run_id) CROSS JOIN steps AS k
GROUP BY s.experiment, r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature,
    r.commit_rule, r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, r.split,
    r.sample_set, k.steps
HAVING roots > 0
ORDER BY s.experiment, r.target, r.task, r.temperature, r.method, r.budget, k.steps;
