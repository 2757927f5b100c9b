-- runs: every run, with archiving applied. One row per cell, seed and attempt; rows are never changed, archiving a run
--   adds a row to archives.
--   run_id                      first 16 digits of the identity and the attempt
--   experiment                  the experiment that ran it first
--   identity                    hash of all that determines the run's output
--   target                      the model being decoded
--   task                        the benchmark
--   method                      display label: control, spot, spot-gamma, spiffy, chain, tree, ...
--   drafter                     what proposes the draft; none for controls
--   verifier                    what decides acceptance
--   budget                      most draft nodes per round
--   floor                       path-mass floor in use, NULL if it was never resolved to a number
--   padded                      whether drafted forwards are padded to the full budget
--   temperature                 sampling temperature
--   commit_rule                 what the target commits per forward
--   cache                       cache kind
--   layout                      batch or concat
--   stop                        fill or eos
--   generation_length           tokens to generate
--   block_length                tokens per block
--   seed                        seed of the noise
--   attempt                     0 for the first, counting up
--   status                      ok, archived or failed
--   reason                      why it was archived or failed
--   successor                   run that replaces an archived one
--   n_samples                   samples decoded
--   split                       split of the task
--   sample_digest               digest of the samples' contents, as the pipeline states it
--   sample_set                  digest of the set of sample ids actually decoded
--   target_digest               digest of the target's weights, where stated
--   floor_setting               the floor as the spec says it, for example calibrated
--   limited                     whether --limit cut it short: kept out of controls and tables
--   segments                    process segments it took, 1 = never interrupted
--   device_class                devices that may be compared by time
--   dtype                       number type of the target
--   distribution_preserving     whether the configuration keeps the target's distribution
--   accuracy                    share of samples scored correct, over those that are scored
--   nfe                         target forwards per sample, mean over samples
--   nfe_answer                  the part of nfe spent up to the first stop id, mean over samples
--   tok_s                       all generated tokens over summed net seconds (pooled)
--   answer_tok_s                answer tokens over summed net seconds (pooled)
--   wall_s                      summed net seconds of its samples, over all segments
--   warmup_s                    seconds of warm-up, not in wall_s
--   accepted_per_round_pooled   accepted drafts over drafted rounds of the run; this one ranks methods
--   accepted_per_round_mean     the same per sample, then averaged over samples
--   exact_tie_share             share of commits decided by an exact tie in confidence
--   near_tie_share              share of commits decided by a gap below 1e-6
--   stale_token_share           share of commits whose token was the stale argmax
--   stale_position_share        share of commits whose position was the stale top-confidence one
--   started_at                  start, UTC
--   git_commit                  commit of the code
--   versions                    package versions and environment, JSON
--   extra                       further figures of the stage, JSON
CREATE OR REPLACE VIEW runs AS
WITH archived AS (
    SELECT run_id, arg_max(reason, seq) AS reason, arg_max(successor, seq) AS successor FROM archives GROUP BY run_id
)
SELECT r.run_id, r.experiment, r.identity,
    r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature, r.commit_rule,
    r.cache, r.layout, r.stop, r.generation_length, r.block_length,
    r.seed, r.attempt, CASE WHEN a.run_id IS NULL THEN r.status ELSE 'archived' END AS status,
    coalesce(a.reason, r.reason) AS reason, a.successor, r.n_samples, r.split, r.sample_digest, r.sample_set,
    r.target_digest, r.floor_setting, r.limited, r.segments, r.device_class, r.dtype, r.distribution_preserving,
    r.accuracy, r.nfe, r.nfe_answer, r.tok_s, r.answer_tok_s, r.wall_s, r.warmup_s, r.accepted_per_round_pooled,
    r.accepted_per_round_mean, r.exact_tie_share, r.near_tie_share, r.stale_token_share, r.stale_position_share,
    r.started_at, r.git_commit, r.versions, r.extra
FROM run_records AS r LEFT JOIN archived AS a USING (run_id);
