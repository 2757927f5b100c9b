-- Controls timed more than once: how far the machine moved between the timings (view drift).
SELECT d.*
FROM drift AS d JOIN runs AS r USING (run_id)
WHERE r.experiment = $experiment OR r.identity IN (SELECT identity FROM nodes WHERE experiment = $experiment)
ORDER BY d.started_at, d.run_id;
