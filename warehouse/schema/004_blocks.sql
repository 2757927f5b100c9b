-- samples: what recording the decoder took.
--   journal_s         seconds spent on the diagnostics of rounds and blocks, in neither wall_s nor draft_s nor forward_s
ALTER TABLE samples ADD COLUMN journal_s DOUBLE;

-- blocks: one row per decoded block, with counts that views turn into shares. "Stale" is the distribution known when the
--   forward was prepared, that of the state at which the previous round stopped; the first round of a block has none.
--   Lists are by number of steps K = 1 .. 8, or by bin of the drafter's mass: bin i holds masses from (i - 1) / 10 on,
--   below i / 10, the last one 1 included.
--   run_id              the run
--   sample_id           the sample
--   block               block of the sequence, 0 holds the first generated position
--   commits             positions filled
--   compared            of those, in rounds with a stale distribution
--   stale_token         commits of the stale argmax, out of compared
--   steps_compared      target transitions in rounds with a stale distribution; equal to compared under commit rule single
--   stale_position      of those, transitions that fill the masked position of largest stale confidence
--   roots_compared      rounds with a stale distribution
--   root_token          of those, rounds whose first commit is the stale argmax
--   root_position       rounds whose first commit is at the masked position of largest stale confidence
--   exact_ties          commits decided by an exact tie in confidence
--   near_ties           commits decided by a gap below 1e-6
--   argmax              commits of the most probable token of the distribution they were made from
--   probability         sum over commits of the untempered probability of the committed token
--   coverage_roots      rounds with a stale distribution and at least K commits of the block still to come
--   covered_1, covered_2, covered_4, covered_8   of those, rounds whose next K committed tokens are all among the 1, 2, 4 or
--                       8 most probable stale tokens of their positions
--   covered_positions   rounds whose next K commits fill the K masked positions of largest stale confidence, in any order
--   mass_drafted        drafted nodes by mass
--   mass_accepted       accepted nodes by mass
--   mass_sum            summed mass of the drafted nodes
CREATE TABLE blocks (
    run_id VARCHAR, sample_id VARCHAR, block INTEGER, commits INTEGER, compared INTEGER, stale_token INTEGER,
    stale_position INTEGER, exact_ties INTEGER, near_ties INTEGER, steps_compared INTEGER, roots_compared INTEGER,
    root_token INTEGER, root_position INTEGER, argmax INTEGER, probability DOUBLE, coverage_roots INTEGER[],
    covered_1 INTEGER[], covered_2 INTEGER[], covered_4 INTEGER[], covered_8 INTEGER[], covered_positions INTEGER[],
    mass_drafted INTEGER[], mass_accepted INTEGER[], mass_sum DOUBLE[]
);
