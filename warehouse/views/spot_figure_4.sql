-- spot_figure_4: SPOT, figure 4, deep blocks at T=0, each method at its largest budget, padded where it was measured
--   both ways: stale order and stale tokens by block, and what is accepted of the drafts.
--   experiment           name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class         see runs
--   method, budget, verifier, padded, floor   cell
--   block                block of the sequence, 0 holds the first generated position
--   n_seeds              seeds
--   position_share       share of first commits of a round that fill the position of largest stale confidence
--   token_share          share of them that are the stale argmax
--   accepted_per_round   accepted drafts per drafted round
--   drafted_per_round    drafts per drafted round
CREATE OR REPLACE VIEW spot_figure_4 AS
SELECT a.experiment, a.target, a.task, a.temperature, a.cache, a.layout,
    a.stop, a.generation_length, a.block_length, a.device_class, a.method, a.budget, a.verifier, a.padded,
    a.floor, a.block, a.n_seeds, o.root_position_share AS position_share, o.root_token_share AS token_share,
    a.accepted_per_round, a.drafted_per_round
FROM acceptance_by_block AS a LEFT JOIN stale_order_by_block AS o
    ON o.experiment = a.experiment AND o.target = a.target AND o.task = a.task AND o.method = a.method
    AND o.verifier = a.verifier AND o.budget = a.budget AND o.padded = a.padded AND o.temperature = a.temperature
        AND o.cache = a.cache AND o.layout = a.layout
    AND o.stop = a.stop AND o.generation_length = a.generation_length AND o.block_length = a.block_length
        AND o.commit_rule = a.commit_rule AND o.block = a.block AND o.blocks = a.blocks
    AND o.floor IS NOT DISTINCT FROM a.floor AND o.device_class IS NOT DISTINCT FROM a.device_class
WHERE a.temperature = 0 AND a.commit_rule = 'single' AND a.method IN ('control', 'spot', 'spot-gamma', 'spiffy',
    'chain', 'tree')
QUALIFY a.budget = max(a.budget) OVER (
    PARTITION BY a.experiment, a.target, a.task, a.temperature, a.cache, a.layout, a.stop, a.generation_length,
        a.block_length, a.device_class, a.method
) AND a.padded = bool_or(a.padded) OVER (
    PARTITION BY a.experiment, a.target, a.task, a.temperature, a.cache, a.layout, a.stop, a.generation_length,
        a.block_length, a.device_class, a.method, a.budget
)
ORDER BY a.experiment, a.target, a.task, a.generation_length, a.method, a.padded, a.block;
