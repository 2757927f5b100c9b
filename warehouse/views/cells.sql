-- cells: each cell over its seeds. Only ok, unlimited runs count, one per seed. Intervals are two-sided 95 % Student t
--   intervals of the mean over seeds, NULL below two seeds; std is the sample standard deviation, NULL below two
--   seeds.
--   experiment               name of the experiment
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout   cell
--   stop, generation_length, block_length   cell
--   device_class             see runs
--   split                    see runs
--   sample_set               see runs
--   n_samples                samples per seed
--   n_seeds                  seeds
--   n_paired                 seeds that have a control
--   nfe_mean                 target forwards per sample
--   nfe_std                  their standard deviation over seeds
--   nfe_low, nfe_high        interval of nfe_mean
--   nfe_reduction_mean       control's NFE over the run's, mean over seeds
--   ratio_mean               throughput ratio, mean over seeds
--   ratio_std                its standard deviation
--   ratio_low, ratio_high    interval of ratio_mean
--   answer_ratio_mean        ratio of answer tokens per second
--   tok_s_mean               pooled tokens per second of a run, mean over seeds
--   accuracy_mean            share correct
--   accuracy_std             its standard deviation
--   accuracy_delta_mean      accuracy minus the control's
--   tokens_match_min         smallest share of samples equal to the control over the seeds
--   accepted_per_round       accepted drafts over drafted rounds, pooled over samples and seeds; NULL without drafts
--   accepted_per_round_mean  per sample, averaged over samples, then over seeds
--   argmax_fraction          share of commits of the most probable token, mean over seeds
--   control_argmax_fraction  the controls'
--   committed_probability    mean untempered probability of the committed tokens, mean over seeds
--   control_committed_probability   the controls'
--   nfe_answer_mean          forwards up to the first stop id
--   control_nfe_mean         the controls' forwards
--   control_nfe_answer_mean  the controls' forwards up to the first stop id
--   distribution_preserving  whether all its runs are
CREATE OR REPLACE VIEW cells AS
WITH members AS (
    SELECT s.experiment AS owner, p.*, rr.accepted AS run_accepted, rr.drafted_rounds AS run_drafted_rounds,
        r.accepted_per_round_mean AS run_accepted_mean, b.argmax_fraction, b.committed_probability,
        cb.argmax_fraction AS control_argmax_fraction, cb.committed_probability AS control_committed_probability
    FROM selected AS s
    JOIN paired AS p ON p.run_id = s.run_id
    JOIN runs AS r ON r.run_id = s.run_id
    LEFT JOIN run_rounds AS rr ON rr.run_id = s.run_id
    LEFT JOIN run_blocks AS b ON b.run_id = s.run_id
    LEFT JOIN run_blocks AS cb ON cb.run_id = p.control_run_id
), grouped AS (
    SELECT owner AS experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature,
        commit_rule, cache, layout, stop, generation_length, block_length, device_class, split, sample_set,
        max(n_samples) AS n_samples, count(*) AS n_seeds, count(*) FILTER (paired) AS n_paired,
        avg(nfe) AS nfe_mean, stddev_samp(nfe) AS nfe_std, count(nfe) AS n_nfe,
        avg(nfe_reduction) AS nfe_reduction_mean, avg(throughput_ratio) AS ratio_mean,
        stddev_samp(throughput_ratio) AS ratio_std, count(throughput_ratio) AS n_ratio,
        avg(answer_throughput_ratio) AS answer_ratio_mean, avg(tok_s) AS tok_s_mean, avg(accuracy) AS accuracy_mean,
        stddev_samp(accuracy) AS accuracy_std, avg(accuracy_delta) AS accuracy_delta_mean,
        min(tokens_match) AS tokens_match_min,
        sum(run_accepted) / nullif(sum(run_drafted_rounds), 0) AS accepted_per_round,
        avg(run_accepted_mean) AS accepted_per_round_mean, avg(nfe_answer) AS nfe_answer_mean,
        avg(control_nfe) AS control_nfe_mean, avg(control_nfe_answer) AS control_nfe_answer_mean,
        avg(argmax_fraction) AS argmax_fraction, avg(control_argmax_fraction) AS control_argmax_fraction,
        avg(committed_probability) AS committed_probability,
        avg(control_committed_probability) AS control_committed_probability,
        bool_and(distribution_preserving) AS distribution_preserving
    FROM members
    GROUP BY owner, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache,
        layout, stop, generation_length, block_length, device_class, split, sample_digest, sample_set, target_digest
)
SELECT g.experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache,
    layout, stop, generation_length, block_length, device_class, split, sample_set, n_samples, n_seeds, n_paired,
    nfe_mean, nfe_std, nfe_mean - tn.t * nfe_std / sqrt(n_nfe) AS nfe_low,
    nfe_mean + tn.t * nfe_std / sqrt(n_nfe) AS nfe_high, nfe_reduction_mean, ratio_mean, ratio_std,
    ratio_mean - tr.t * ratio_std / sqrt(n_ratio) AS ratio_low,
    ratio_mean + tr.t * ratio_std / sqrt(n_ratio) AS ratio_high, answer_ratio_mean, tok_s_mean, accuracy_mean,
    accuracy_std, accuracy_delta_mean, tokens_match_min, accepted_per_round, accepted_per_round_mean,
    argmax_fraction, control_argmax_fraction, committed_probability, control_committed_probability, nfe_answer_mean,
    control_nfe_mean, control_nfe_answer_mean, distribution_preserving
FROM grouped AS g
LEFT JOIN t_quantiles AS tn ON tn.df = least(n_nfe - 1, 200)
LEFT JOIN t_quantiles AS tr ON tr.df = least(n_ratio - 1, 200);
