-- spot_figure_5b: SPOT, figure 5 right, first rejections of SPOT at T=0 and its largest budget, by block and (block
--   NULL) over all of them.
--   experiment     name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class   see runs
--   method, budget, padded, floor   cell
--   block          block of the sequence, NULL for all
--   n_seeds        seeds
--   rejections     drafted rounds
--   position_share, token_share, budget_share   why the accepted path ended, see first_rejections
--   order_rank, order_first_share   rank of the true position in the drafter's own order, and how often it came first
--   position_first_share, token_first_share   how often the true position, the true token came first under the stale
--       distribution
CREATE OR REPLACE VIEW spot_figure_5b AS
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    method, budget, padded, floor, block, n_seeds, rejections, position_share, token_share, budget_share,
    order_rank, order_first_share, position_first_share, token_first_share
FROM first_rejections
WHERE method = 'spot' AND temperature = 0 AND commit_rule = 'single'
QUALIFY budget = max(budget) OVER (PARTITION BY experiment, target, task, temperature, cache, layout, stop,
    generation_length, block_length, device_class, padded)
    AND padded = bool_or(padded) OVER (PARTITION BY experiment, target, task, temperature, cache, layout, stop,
        generation_length, block_length, device_class)
ORDER BY experiment, target, task, generation_length, block_length, padded, block NULLS FIRST;
