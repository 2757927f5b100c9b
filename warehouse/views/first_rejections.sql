-- first_rejections: why the accepted path of drafted rounds ended, by block and over all blocks, pooled over samples and
--   seeds (SPOT, figure 5 right and section F.9). Ranks are those of the commit that followed; 0 is first. Runs that were
--   recorded without the drafter's own order are left out.
--   experiment             name of the experiment
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout   cell
--   stop, generation_length, block_length   cell
--   device_class           see runs
--   block                  block of the sequence, NULL for all blocks together
--   n_seeds                seeds
--   rejections             drafted rounds
--   position_share         share that ended at a wrong position: no draft fills the one that committed, nor would the next
--   token_share            share that ended at a wrong token: a draft fills the position, with another token
--   budget_share           share that ended because the tree went no deeper, its drafter ranked the true position first
--   order_rank             mean rank of the true position in the drafter's own order, the order model's for spot
--   order_first_share      share whose true position comes first in it
--   position_rank          mean rank of the true position by stale confidence
--   position_first_share   share whose true position has the largest stale confidence
--   token_rank             mean rank of the true token at its position
--   token_first_share      share whose true token is the stale argmax
CREATE OR REPLACE VIEW first_rejections AS
SELECT s.experiment, r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature,
    r.commit_rule, r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, o.block,
    count(DISTINCT r.seed) AS n_seeds, count(*) AS rejections,
    avg((o.reject_cause = 'position')::INTEGER) AS position_share, avg((o.reject_cause = 'token')::INTEGER) AS token_share,
    avg((o.reject_cause = 'budget')::INTEGER) AS budget_share, avg(o.true_order_rank) AS order_rank,
    avg((o.true_order_rank = 0)::INTEGER) AS order_first_share, avg(o.true_position_rank) AS position_rank,
    avg((o.true_position_rank = 0)::INTEGER) AS position_first_share, avg(o.true_token_rank) AS token_rank,
    avg((o.true_token_rank = 0)::INTEGER) AS token_first_share
FROM selected AS s JOIN runs AS r USING (run_id) JOIN rounds AS o USING (run_id)
WHERE o.reject_cause IS NOT NULL AND o.true_order_rank IS NOT NULL
GROUP BY s.experiment, r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature,
    r.commit_rule, r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, r.split,
    r.sample_set, GROUPING SETS ((o.block), ())
ORDER BY s.experiment, r.target, r.task, r.temperature, r.method, r.budget, o.block NULLS FIRST;
