-- stale_order_by_block: what the distribution before a forward knew about the commits it led to, by block, pooled over
--   samples and seeds (SPOT, figure 4 left and section F.8). Drafted rounds compare their whole accepted path with the
--   one distribution it was drafted from; the root shares look at the first commit of each round alone, which is all
--   there is in runs without drafts.
--   experiment             name of the experiment
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout   cell
--   stop, generation_length, block_length   cell
--   device_class           see runs
--   block                  block of the sequence, 0 holds the first generated position
--   n_seeds                seeds
--   blocks                 blocks decoded with this index
--   compared               commits compared
--   position_share         share of target transitions that fill the masked position of largest stale confidence
--   token_share            share of commits of the stale argmax
--   root_position_share    share of rounds whose first commit is at the position of largest stale confidence
--   root_token_share       share of rounds whose first commit is the stale argmax
--   exact_tie_share        share of commits decided by an exact tie in confidence, where rounding decides the order
--   near_tie_share         share decided by a gap below 1e-6
CREATE OR REPLACE VIEW stale_order_by_block AS
SELECT s.experiment, r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature,
    r.commit_rule, r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, b.block,
    count(DISTINCT r.seed) AS n_seeds, count(*) AS blocks, sum(b.compared)::BIGINT AS compared,
    sum(b.stale_position) / nullif(sum(b.steps_compared), 0) AS position_share,
    sum(b.stale_token) / nullif(sum(b.compared), 0) AS token_share,
    sum(b.root_position) / nullif(sum(b.roots_compared), 0) AS root_position_share,
    sum(b.root_token) / nullif(sum(b.roots_compared), 0) AS root_token_share,
    sum(b.exact_ties) / nullif(sum(b.commits), 0) AS exact_tie_share,
    sum(b.near_ties) / nullif(sum(b.commits), 0) AS near_tie_share
FROM selected AS s JOIN runs AS r USING (run_id) JOIN blocks AS b USING (run_id)
GROUP BY s.experiment, r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature,
    r.commit_rule, r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, r.split,
    r.sample_set, b.block
ORDER BY s.experiment, r.target, r.task, r.temperature, r.method, r.budget, b.block;
