-- How often one method beats another over all tasks, temperatures and budgets both were measured at (view comparisons).
SELECT method, other, count(*) AS settings, max(n_seeds) AS n_seeds,
    count(*) FILTER (nfe_verdict = 'win') AS nfe_wins, count(*) FILTER (nfe_verdict = 'tie') AS nfe_ties,
    count(*) FILTER (nfe_verdict = 'loss') AS nfe_losses, min(nfe_percent) AS nfe_least, max(nfe_percent) AS nfe_most,
    count(*) FILTER (throughput_verdict = 'win') AS throughput_wins,
    count(*) FILTER (throughput_verdict = 'tie') AS throughput_ties,
    count(*) FILTER (throughput_verdict = 'loss') AS throughput_losses, min(throughput_percent) AS throughput_least,
    max(throughput_percent) AS throughput_most
FROM comparisons WHERE experiment = $experiment
GROUP BY method, other ORDER BY method, other;
