-- published: what the papers report, as data: the files warehouse/published/*.csv, read anew whenever they change. NULL where
--   a paper leaves a column open or a figure spans it ("over the four tasks"); such figures are ranges.
--   paper               SPOT (arXiv 2610.22543) or Trajectory (trajectory-level speculative decoding, BlockSpec)
--   item                table, figure or section that the figure belongs to
--   target, task        as named here: sdar-8b, gsm8k, ...
--   method              as named in this project's specs: control, spot, spot-gamma, spiffy, chain, tree, oracle-joint,
--                       w2d2-inter, ...
--   against             what the figure compares with, if it does: another method, with its verifier where that differs
--   verifier            greedy, uncoupled, coupled, rejection or subset-top-1
--   budget              most drafts per round
--   floor               mass floor, where the figure is one of a grid of floors
--   part                block, number of steps, bin of mass, depth, level or sequence length, depending on quantity
--   temperature         sampling temperature
--   commit_rule         what the target commits per forward
--   cache               cache kind, where the paper compares several
--   generation_length   tokens to generate
--   block_length        tokens per block
--   quantity            what is reported; view measured_quantities has ours under the same names
--   value               the figure, NULL where only a range or a bound is given
--   value_low, value_high   the range
--   unit                its unit
--   provenance          where in the paper it stands, and its conditions
CREATE OR REPLACE TABLE published (
    paper VARCHAR, item VARCHAR, target VARCHAR, task VARCHAR, method VARCHAR, against VARCHAR, verifier VARCHAR,
    budget INTEGER, floor DOUBLE, part INTEGER, temperature DOUBLE, commit_rule VARCHAR, cache VARCHAR, generation_length INTEGER,
    block_length INTEGER, quantity VARCHAR, value DOUBLE, value_low DOUBLE, value_high DOUBLE, unit VARCHAR,
    provenance VARCHAR
);
