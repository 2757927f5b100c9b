-- timing_split: where the net time of each ok run went.
--   run_id          the run
--   experiment      the experiment
--   target, task, method, budget, temperature, seed, device_class   see runs
--   wall_s          summed net seconds of its samples
--   draft_share     share of it in the drafter
--   forward_share   share in the target forward
--   other_share     the rest: verification, commits, bookkeeping
--   ms_per_round    milliseconds per target forward, all included
CREATE OR REPLACE VIEW timing_split AS
WITH times AS (
    SELECT run_id, sum(wall_s) AS wall_s, sum(draft_s) AS draft_s, sum(forward_s) AS forward_s, sum(nfe) AS nfe
    FROM samples GROUP BY run_id
)
SELECT r.run_id, r.experiment, r.target, r.task, r.method, r.budget, r.temperature, r.seed, r.device_class, t.wall_s,
    t.draft_s / nullif(t.wall_s, 0) AS draft_share, t.forward_s / nullif(t.wall_s, 0) AS forward_share,
    (t.wall_s - coalesce(t.draft_s, 0) - t.forward_s) / nullif(t.wall_s, 0) AS other_share,
    1000 * t.wall_s / nullif(t.nfe, 0) AS ms_per_round
FROM runs AS r JOIN times AS t USING (run_id) WHERE r.status = 'ok';
