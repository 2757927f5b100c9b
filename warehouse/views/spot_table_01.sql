-- spot_table_01: SPOT, table 1, temperature sweep: the part of table 21 at D8 for SPOT and Spiffy.
--   experiment            name of the experiment
--   target, task, temperature, cache, layout, stop   cell
--   generation_length, block_length   cell
--   device_class, split   see runs
--   method, budget, padded, floor   cell
--   n_samples, n_seeds    samples per seed, and seeds
--   target_accuracy, target_argmax, target_probability, target_nfe   see spot_table_21
--   coupled_nfe, coupled_nfe_std, uncoupled_nfe, greedy_nfe   see spot_table_21
--   coupled_ratio, uncoupled_ratio, greedy_ratio, coupled_answer_ratio   see spot_table_21
--   greedy_accuracy, greedy_argmax, greedy_probability, greedy_match   see spot_table_21
CREATE OR REPLACE VIEW spot_table_01 AS
SELECT * FROM spot_table_21 WHERE budget = 8 AND method IN ('spot', 'spiffy');
