-- spot_table_21: SPOT, table 21, complete temperature sweep: each drafter under the three equality verifiers beside
--   the target itself, where an experiment has several temperatures above 0. Greedy match does not preserve the
--   distribution there.
--   experiment             name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split    see runs
--   method, budget, padded, floor   cell
--   n_samples, n_seeds     samples per seed, and seeds
--   target_accuracy        the control's share correct
--   target_argmax          the control's share of commits of the most probable token
--   target_probability     the control's mean untempered probability of the committed tokens
--   target_nfe             the control's NFE
--   coupled_nfe, uncoupled_nfe, greedy_nfe   target forwards per sample by verifier
--   coupled_nfe_std        standard deviation over seeds
--   coupled_ratio, uncoupled_ratio, greedy_ratio   throughput ratio over the control of this temperature
--   coupled_answer_ratio   the same on answer tokens
--   greedy_accuracy, greedy_argmax, greedy_probability   what greedy match emits, beside target_accuracy,
--       target_argmax and target_probability
--   greedy_match           smallest share of its samples equal to the control's
CREATE OR REPLACE VIEW spot_table_21 AS
SELECT experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    method, budget, padded, floor, max(n_samples) AS n_samples, max(n_seeds) AS n_seeds,
    max(accuracy - accuracy_drift) AS target_accuracy, max(control_argmax_fraction) AS target_argmax,
    max(control_committed_probability) AS target_probability, max(control_nfe) AS target_nfe,
    max(nfe) FILTER (verifier = 'coupled') AS coupled_nfe, max(nfe) FILTER (verifier = 'uncoupled') AS uncoupled_nfe,
    max(nfe) FILTER (verifier = 'greedy') AS greedy_nfe,
        max(nfe_std) FILTER (verifier = 'coupled') AS coupled_nfe_std,
    max(ratio) FILTER (verifier = 'coupled') AS coupled_ratio,
        max(ratio) FILTER (verifier = 'uncoupled') AS uncoupled_ratio,
    max(ratio) FILTER (verifier = 'greedy') AS greedy_ratio,
    max(answer_ratio) FILTER (verifier = 'coupled') AS coupled_answer_ratio,
    max(accuracy) FILTER (verifier = 'greedy') AS greedy_accuracy,
    max(argmax_fraction) FILTER (verifier = 'greedy') AS greedy_argmax,
    max(committed_probability) FILTER (verifier = 'greedy') AS greedy_probability,
    max(tokens_match_min) FILTER (verifier = 'greedy') AS greedy_match
FROM method_cells
WHERE method IN ('spot', 'spot-gamma', 'spiffy', 'chain', 'tree') AND temperature > 0 AND commit_rule = 'single'
    AND verifier IN ('coupled', 'uncoupled', 'greedy')
GROUP BY experiment, target, task, temperature, cache, layout, stop, generation_length, block_length, device_class,
    split,
    sample_set, method, budget, padded, floor
QUALIFY count(DISTINCT temperature) OVER (
    PARTITION BY experiment, target, task, cache, layout, stop, generation_length, block_length, device_class, split,
        sample_set,
        method, budget, padded, floor
) > 1
ORDER BY experiment, target, task, temperature, method, budget;
