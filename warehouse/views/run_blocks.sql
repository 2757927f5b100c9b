-- run_blocks: blocks summed per run.
--   run_id                  the run
--   blocks                  blocks decoded
--   commits                 positions filled
--   argmax_fraction         share of commits of the most probable token of the distribution they were made from
--   committed_probability   mean untempered probability of the committed tokens
CREATE OR REPLACE VIEW run_blocks AS
SELECT run_id, count(*) AS blocks, sum(commits)::BIGINT AS commits, sum(argmax) / nullif(sum(commits), 0) AS argmax_fraction,
    sum(probability) / nullif(sum(commits), 0) AS committed_probability
FROM blocks GROUP BY run_id;
