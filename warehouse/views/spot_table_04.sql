-- spot_table_04: SPOT, table 4, calibration of the mass floor of SPOT-gamma: mean throughput ratio over the budgets,
--   by floor, on held-out samples. One row per floor; the ratio by budget is in floor.json of the node.
--   experiment     name of the experiment
--   identity       the calibrate-floor node
--   label          its readable name
--   block_length   tokens per block
--   floor          mass floor
--   mean_ratio     throughput ratio over a draft-free decoder, mean over the budgets
--   chosen         whether this floor was chosen
--   tie_band       floors this close to the best mean count as equal, and the smallest wins
--   budgets        budgets of the mean
--   n_samples      held-out samples
--   judged         by the clock, or by a declared cost of replicas and levels
CREATE OR REPLACE VIEW spot_table_04 AS
WITH floors AS (
    SELECT experiment, identity, label, params, summary,
        unnest(map_entries(from_json(summary -> '$.mean_ratio', '"MAP(DOUBLE, DOUBLE)"'))) AS entry
    FROM nodes WHERE kind = 'calibrate-floor' AND state = 'done'
)
SELECT experiment, identity, label, (params ->> '$.params.block_length')::INTEGER AS block_length, entry.key AS floor,
    entry.value AS mean_ratio, entry.key = (summary ->> '$.floor')::DOUBLE AS chosen,
    (summary ->> '$.tie_band')::DOUBLE AS tie_band, (params -> '$.params.budgets')::INTEGER[] AS budgets,
    (summary ->> '$.samples')::INTEGER AS n_samples,
    CASE WHEN summary ->> '$.cost' = 'measured' THEN 'clock' ELSE 'declared cost' END AS judged
FROM floors
ORDER BY experiment, label, floor;
