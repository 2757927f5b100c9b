-- temperature_sweep: what a temperature does to the target and to each method (SPOT, tables 1 and 21): one row per cell,
--   controls included. The drift of a method that keeps the target's distribution is sampling noise; that of greedy
--   match above temperature 0 is not.
--   experiment                name of the experiment
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout   cell
--   stop, generation_length, block_length   cell
--   device_class              see runs
--   n_seeds                   seeds
--   n_samples                 samples per seed
--   distribution_preserving   whether the configuration keeps the target's distribution
--   nfe                       target forwards per sample, mean over seeds
--   nfe_std                   standard deviation over seeds
--   nfe_reduction             control's NFE over this one's
--   ratio                     throughput ratio over the control of the same temperature
--   ratio_std                 standard deviation over seeds
--   accuracy                  share correct
--   accuracy_drift            minus the control's
--   argmax_fraction           share of commits of the most probable token
--   argmax_drift              minus the control's
--   committed_probability     mean untempered probability of the committed tokens
--   probability_drift         minus the control's
--   tokens_match_min          smallest share of samples equal to the control, over seeds
CREATE OR REPLACE VIEW temperature_sweep AS
SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout,
    stop, generation_length, block_length, device_class, n_seeds, n_samples, distribution_preserving, nfe_mean AS nfe,
    nfe_std, nfe_reduction_mean AS nfe_reduction, ratio_mean AS ratio, ratio_std, accuracy_mean AS accuracy,
    accuracy_delta_mean AS accuracy_drift, argmax_fraction, argmax_fraction - control_argmax_fraction AS argmax_drift,
    committed_probability, committed_probability - control_committed_probability AS probability_drift, tokens_match_min
FROM cells
ORDER BY experiment, target, task, temperature, (method <> 'control'), method, verifier, budget;
