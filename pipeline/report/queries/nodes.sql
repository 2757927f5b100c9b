-- Every node of the latest plan with its state.
SELECT identity, kind, label, state, actor, message, attempts, started_at, updated_at
FROM nodes WHERE experiment = $experiment ORDER BY planned_at, kind, label;
