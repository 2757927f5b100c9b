-- controls: the one active control of each control key. A control is a run of drafter none; active is the latest one
--   that is ok, not limited and was never interrupted. "Latest" goes by start of the node's newest attempt, then by
--   attempt.
--   run_id             the active control
--   experiment         the experiment that ran it first
--   identity           its identity
--   target, task, temperature, cache, commit_rule, stop   control key, with those below
--   generation_length, block_length   control key
--   sample_digest      control key: digest of the samples' contents
--   sample_set         control key: digest of the sample ids
--   target_digest      control key: digest of the target's weights, where stated
--   seed               control key: seed
--   device_class       control key: device class
--   attempt            its attempt
--   n_samples          samples decoded
--   accuracy           see runs
--   nfe                see runs
--   nfe_answer         see runs
--   tok_s              see runs
--   answer_tok_s       see runs
--   wall_s             see runs
--   started_at         see runs
CREATE OR REPLACE VIEW controls AS
WITH candidates AS (
    SELECT *, max(started_at) OVER (
        PARTITION BY target, task, temperature, generation_length, block_length, cache, commit_rule, stop,
            sample_digest, sample_set, target_digest, seed, device_class, identity
    ) AS identity_started_at
    FROM runs WHERE drafter = 'none' AND status = 'ok' AND NOT limited AND segments = 1
)
SELECT run_id, experiment, identity, target, task, temperature, generation_length, block_length, cache, commit_rule,
    stop, sample_digest, sample_set, target_digest, seed, device_class, attempt, n_samples, accuracy, nfe, nfe_answer,
    tok_s, answer_tok_s, wall_s, started_at
FROM candidates
QUALIFY row_number() OVER (
    PARTITION BY target, task, temperature, generation_length, block_length, cache, commit_rule, stop, sample_digest,
        sample_set, target_digest, seed, device_class
    ORDER BY identity_started_at DESC NULLS LAST, identity, attempt DESC, started_at DESC NULLS LAST, run_id
) = 1;
