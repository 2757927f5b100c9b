-- control_drift: every timing of every control, in order of time: how far the machine moved inside a submit. A control is
--   timed again around long stretches of methods and when it strays; archived timings stand here beside the active one.
--   experiment         the experiment that ran it
--   run_id             the timing
--   status             ok is the active one, archived an earlier one
--   reason             why it was archived
--   target, task, temperature, commit_rule, cache, stop, generation_length, block_length, sample_set, seed   control key
--   device_class       control key
--   timing             number of the timing within experiment and key, from 1
--   n_timings          timings of the key in this experiment
--   tok_s              pooled tokens per second
--   relative           tok_s over that of the first timing, minus 1
--   spread             largest over smallest tok_s of the key in this experiment, minus 1
--   minutes            minutes since the first timing
--   started_at         start, UTC
CREATE OR REPLACE VIEW control_drift AS
WITH timings AS (
    SELECT * FROM runs WHERE drafter = 'none' AND status IN ('ok', 'archived') AND NOT limited AND segments = 1
        AND tok_s > 0
)
SELECT experiment, run_id, status, reason, target, task, temperature, commit_rule, cache, stop, generation_length,
    block_length, sample_set, seed, device_class, row_number() OVER timed AS timing, count(*) OVER keyed AS n_timings, tok_s,
    tok_s / first_value(tok_s) OVER timed - 1 AS relative, max(tok_s) OVER keyed / min(tok_s) OVER keyed - 1 AS spread,
    date_diff('millisecond', first_value(started_at) OVER timed, started_at) / 60000 AS minutes, started_at
FROM timings
WINDOW keyed AS (
    PARTITION BY experiment, target, task, temperature, commit_rule, cache, stop, generation_length, block_length,
        sample_digest, sample_set, target_digest, seed, device_class
), timed AS (keyed ORDER BY started_at, run_id)
ORDER BY experiment, target, task, temperature, commit_rule, cache, stop, generation_length, block_length, seed, timing;
