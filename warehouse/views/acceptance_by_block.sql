-- acceptance_by_block: how well drafts are accepted in each block, pooled over samples and seeds.
--   experiment           name of the experiment
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout   cell
--   stop, generation_length, block_length   cell
--   device_class         see runs
--   block                block of the sequence, 0 holds the first generated position
--   n_seeds              seeds
--   blocks               blocks decoded with this index
--   rounds_per_block     target forwards per block
--   drafted_rounds       forwards that verified at least one draft
--   drafted_per_round    draft nodes per drafted round
--   accepted_per_round   accepted drafts per drafted round
--   position_rejects     share of drafted rounds whose path ended at a wrong position
--   token_rejects        share that ended at a wrong token
--   budget_rejects       share that ended because the tree went no deeper
CREATE OR REPLACE VIEW acceptance_by_block AS
SELECT s.experiment, r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature,
    r.commit_rule, r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, o.block,
    count(DISTINCT r.seed) AS n_seeds, count(DISTINCT (o.run_id, o.sample_id)) AS blocks,
    count(*) / count(DISTINCT (o.run_id, o.sample_id)) AS rounds_per_block,
    count(*) FILTER (o.drafted > 0) AS drafted_rounds,
    avg(o.drafted) FILTER (o.drafted > 0) AS drafted_per_round,
    avg(o.accepted) FILTER (o.drafted > 0) AS accepted_per_round,
    avg(CASE WHEN o.reject_cause = 'position' THEN 1 ELSE 0 END) FILTER (o.drafted > 0) AS position_rejects,
    avg(CASE WHEN o.reject_cause = 'token' THEN 1 ELSE 0 END) FILTER (o.drafted > 0) AS token_rejects,
    avg(CASE WHEN o.reject_cause = 'budget' THEN 1 ELSE 0 END) FILTER (o.drafted > 0) AS budget_rejects
FROM selected AS s JOIN runs AS r USING (run_id) JOIN rounds AS o USING (run_id)
GROUP BY s.experiment, r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature,
    r.commit_rule, r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, r.split,
    r.sample_set, o.block
ORDER BY s.experiment, r.target, r.task, r.temperature, r.method, r.budget, o.block;
