-- drafters: what each evaluate node drafts with, as its plan says: options, and what its order model or graph was made of.
--   identity             the evaluate node; that of its runs
--   shape                spot: tree or chain
--   hedge                token hypotheses where the stale distribution is unsure; 1 = no hedge
--   tau                  spot: temperature of the order model
--   rank_by              spiffy: what ranks positions; NULL where it is the confidence
--   model                identity of the node that trained the order model or calibrated the graph, or the user's directory
--   training             settings of the training, JSON
--   layers, width        size of the order model
--   prompts              prompts that it was trained or calibrated on
--   made_on              target that it was trained or calibrated on; digest or identity where no run of that target is here
--   made_on_block_length   block length there
--   native               whether that is the target and block length that it drafts for; NULL where nothing was made
CREATE OR REPLACE VIEW drafters AS
WITH plans AS (
    SELECT identity, arg_max(kind, seq) AS kind, arg_max(params, seq)::JSON AS params FROM node_plans GROUP BY identity
), placed AS (
    SELECT identity, kind, params, coalesce(params ->> '$.target', params ->> '$.upstream.target') AS target_key,
        (params ->> '$.params.block_length')::INTEGER AS block_length,
        list_sum((params -> '$.params.pools[*].count')::BIGINT[])::BIGINT AS prompts
    FROM plans
), shards AS (
    SELECT identity, params -> '$.params' AS training, unnest((params -> '$.upstream.shards')::VARCHAR[]) AS shard
    FROM plans WHERE kind = 'train'
), made AS (
    SELECT s.identity, any_value(s.training) AS training, any_value(p.target_key) AS target_key,
        any_value(p.block_length) AS block_length, sum(p.prompts)::BIGINT AS prompts
    FROM shards AS s JOIN placed AS p ON p.identity = s.shard GROUP BY s.identity
    UNION ALL
    SELECT identity, NULL, target_key, block_length, prompts FROM placed WHERE kind = 'calibrate-spiffy'
), names AS (
    SELECT p.target_key, min(r.target) AS target FROM placed AS p JOIN run_records AS r USING (identity)
    WHERE p.kind = 'evaluate' GROUP BY p.target_key
), evaluations AS (
    SELECT identity, params -> '$.params.drafter_options' AS options, target_key, block_length,
        coalesce(params ->> '$.upstream.order_model', params ->> '$.upstream.spiffy',
            params ->> '$.given.order_model') AS model
    FROM placed WHERE kind = 'evaluate'
)
SELECT e.identity, e.options ->> '$.shape' AS shape, (e.options ->> '$.hedge')::INTEGER AS hedge,
    (e.options ->> '$.tau')::DOUBLE AS tau, e.options ->> '$.rank_by' AS rank_by, e.model, m.training::VARCHAR AS training,
    (m.training ->> '$.layers')::INTEGER AS layers, (m.training ->> '$.width')::INTEGER AS width, m.prompts,
    coalesce(n.target, m.target_key) AS made_on, m.block_length AS made_on_block_length,
    m.target_key = e.target_key AND m.block_length = e.block_length AS native
FROM evaluations AS e LEFT JOIN made AS m ON m.identity = e.model LEFT JOIN names AS n ON n.target_key = m.target_key;
