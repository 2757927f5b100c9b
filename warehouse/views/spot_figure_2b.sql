-- spot_figure_2b: SPOT, figure 2b, stale coverage: how often all tokens of the next K commits are among the best
--   stale candidates, on draft-free runs at T=0.
--   experiment     name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class   see runs
--   steps          K
--   n_seeds        seeds
--   roots          states looked at
--   tokens_1, tokens_2, tokens_4, tokens_8   share covered by that many candidates, see stale_coverage
--   positions      share whose positions are the K of largest stale confidence
CREATE OR REPLACE VIEW spot_figure_2b AS
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    steps, n_seeds, roots, tokens_1, tokens_2, tokens_4, tokens_8, positions
FROM stale_coverage WHERE method = 'control' AND temperature = 0 AND commit_rule = 'single'
ORDER BY experiment, target, task, block_length, steps;
