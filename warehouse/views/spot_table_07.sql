-- spot_table_07: SPOT, table 7, live-oracle grid: what the control's next positions, tokens, or both are worth at
--   most, at T=0. What an oracle looks ahead counts neither as forwards nor as time.
--   experiment             name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split    see runs
--   control_nfe, control_tok_s   the draft-free run
--   budget, method         cell; oracle-position, oracle-token or oracle-joint
--   n_samples, n_seeds     samples per seed, and seeds
--   nfe, nfe_std           target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction          control's NFE over this one's
--   ratio, ratio_std       throughput ratio over the control, mean and standard deviation over seeds
--   answer_reduction       the control's forwards up to the first stop id over this one's
--   answer_ratio           ratio of answer tokens per second
--   best_nfe, best_ratio   whether it is the lowest NFE, the highest ratio of the task
CREATE OR REPLACE VIEW spot_table_07 AS
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    control_nfe, tok_s / nullif(ratio, 0) AS control_tok_s, budget, method, n_samples, n_seeds, nfe, nfe_std,
        nfe_reduction, ratio, ratio_std, answer_reduction, answer_ratio,
    nfe = min(nfe) OVER place AS best_nfe, ratio = max(ratio) OVER place AS best_ratio
FROM method_cells
WHERE starts_with(drafter, 'oracle-') AND temperature = 0 AND commit_rule = 'single'
WINDOW place AS (
    PARTITION BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length,
        device_class, split,
        sample_set
)
ORDER BY experiment, target, block_length DESC, task, budget, method;
