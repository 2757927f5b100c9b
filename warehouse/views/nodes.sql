-- nodes: the latest state of every node of each experiment's latest plan.
--   experiment    name of the experiment
--   identity      the node's identity
--   kind          stage
--   label         readable name
--   state         planned, running, done, failed, blocked or cancelled
--   actor         where it ran last
--   message       note of the latest state, such as the failure
--   summary       figures of the stage, JSON
--   attempts      how often it was started
--   planned_at    when it was planned
--   started_at    when it was last started
--   updated_at    when the latest state began
--   upstream      identities of the nodes it reads
--   params        settings, JSON
--   plan          experiments.seq of the plan
CREATE OR REPLACE VIEW nodes AS
WITH latest_plan AS (
    SELECT experiment, max(plan) AS plan FROM node_plans GROUP BY experiment
), planned AS (
    SELECT experiment, plan, identity, arg_max(kind, seq) AS kind, arg_max(label, seq) AS label,
        arg_max(upstream, seq) AS upstream, arg_max(params, seq) AS params, min(recorded_at) AS planned_at,
        min(seq) AS first_seq
    FROM node_plans JOIN latest_plan USING (experiment, plan) GROUP BY experiment, plan, identity
), latest AS (
    SELECT experiment, identity, max_by(struct_pack(state, actor, message, recorded_at), seq) AS now,
        arg_max(actor, seq) AS actor, arg_max(summary, seq) AS summary,
        count(*) FILTER (state = 'running') AS attempts, max(recorded_at) FILTER (state = 'running') AS started_at
    FROM node_states GROUP BY experiment, identity
)
SELECT p.experiment, p.identity, p.kind, p.label, coalesce(l.now.state, 'planned') AS state, l.actor,
    l.now.message AS message, l.summary, coalesce(l.attempts, 0) AS attempts, p.planned_at, l.started_at,
    coalesce(l.now.recorded_at, p.planned_at) AS updated_at, p.upstream, p.params, p.plan
FROM planned AS p LEFT JOIN latest AS l USING (experiment, identity)
ORDER BY p.experiment, p.first_seq;
