-- Warnings and errors noted while the experiment ran; the latest 50.
SELECT recorded_at, level, kind, message, run_id
FROM events WHERE experiment = $experiment AND level <> 'info'
ORDER BY seq DESC LIMIT 50;
