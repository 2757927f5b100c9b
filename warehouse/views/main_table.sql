-- main_table: the counterpart of Table 2 of the SPOT paper (arXiv 2610.22543): one row per task, temperature, method
--   and budget (and per experiment, target, device class and the other cell columns, where a home holds several).
--   experiment               name of the experiment
--   target, task, temperature, method, budget   see runs
--   nfe                      target forwards per sample, mean over seeds
--   nfe_std                  standard deviation over seeds
--   nfe_reduction            control's NFE over this one's
--   ratio                    throughput ratio over the control, mean over seeds
--   ratio_std                standard deviation over seeds
--   ratio_low, ratio_high    95 % interval of ratio
--   accuracy                 share correct
--   accuracy_delta           minus the control's
--   tokens_match_min         smallest share of samples equal to the control, over seeds
--   n_seeds                  seeds
--   n_samples                samples per seed
--   accepted_per_round       accepted drafts per drafted round, pooled
--   nfe_answer               forwards up to the first stop id
--   nfe_after                forwards after it: nfe - nfe_answer
--   control_nfe_answer       the control's forwards up to the first stop id
--   control_nfe_after        the control's after it
--   cut_answer               forwards saved up to the first stop id: control_nfe_answer - nfe_answer
--   cut_after                forwards saved after it
--   cut_answer_share         share of the saving that falls before the first stop id; NULL where nothing is saved
--   answer_ratio             ratio of answer tokens per second
--   tok_s                    tokens per second
--   drafter, verifier, floor, padded, stop, layout, cache, commit_rule   rest of the cell
--   generation_length, block_length   rest of the cell
--   device_class             see runs
--   split                    see runs
--   distribution_preserving  see runs
CREATE OR REPLACE VIEW main_table AS
SELECT experiment, target, task, temperature, method, budget, nfe_mean AS nfe, nfe_std,
    nfe_reduction_mean AS nfe_reduction, ratio_mean AS ratio, ratio_std, ratio_low, ratio_high,
    accuracy_mean AS accuracy, accuracy_delta_mean AS accuracy_delta, tokens_match_min, n_seeds, n_samples,
    accepted_per_round, nfe_answer_mean AS nfe_answer, nfe_mean - nfe_answer_mean AS nfe_after,
    control_nfe_answer_mean AS control_nfe_answer, control_nfe_mean - control_nfe_answer_mean AS control_nfe_after,
    control_nfe_answer_mean - nfe_answer_mean AS cut_answer,
    (control_nfe_mean - control_nfe_answer_mean) - (nfe_mean - nfe_answer_mean) AS cut_after,
    (control_nfe_answer_mean - nfe_answer_mean)
        / CASE WHEN control_nfe_mean > nfe_mean THEN control_nfe_mean - nfe_mean END AS cut_answer_share,
    answer_ratio_mean AS answer_ratio, tok_s_mean AS tok_s, drafter, verifier, floor, padded, stop, layout, cache,
    commit_rule, generation_length, block_length, device_class, split, distribution_preserving
FROM cells
ORDER BY experiment, target, task, temperature, (method <> 'control'), budget, nfe_mean;
