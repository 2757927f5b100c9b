-- selected: which run stands for each experiment, cell, sample set, device class and seed in the tables: ok, not
--   limited, the latest. An experiment owns the runs of its latest plan that has results, whoever ran them first; runs
--   of experiments that were never planned belong to the experiment they name.
--   experiment   name of the experiment
--   run_id       the run
CREATE OR REPLACE VIEW selected AS
WITH usable AS (
    SELECT * FROM runs WHERE status = 'ok' AND NOT limited
), shown AS (
    SELECT p.experiment, max(p.plan) AS plan FROM node_plans AS p JOIN usable AS u USING (identity)
    GROUP BY p.experiment
), members AS (
    SELECT DISTINCT p.experiment, p.identity FROM node_plans AS p JOIN shown USING (experiment, plan)
    UNION
    SELECT u.experiment, u.identity FROM usable AS u
    WHERE NOT EXISTS (SELECT 1 FROM node_plans AS p WHERE p.experiment = u.experiment)
)
SELECT m.experiment, u.run_id
FROM members AS m JOIN usable AS u ON u.identity = m.identity
QUALIFY row_number() OVER (
    PARTITION BY m.experiment, u.target, u.task, u.method, u.drafter, u.verifier, u.budget, u.floor, u.padded,
        u.temperature, u.commit_rule, u.cache, u.layout, u.stop, u.generation_length, u.block_length, u.split,
        u.sample_digest, u.sample_set, u.target_digest, u.device_class, u.seed
    ORDER BY u.started_at DESC NULLS LAST, u.attempt DESC, u.run_id
) = 1;
