-- method_cells: cells with the options of their drafters and with their figures on answer tokens alone; what the views of
--   the tables of the SPOT paper choose from.
--   experiment             name of the experiment
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout   cell
--   stop, generation_length, block_length   cell
--   device_class, split, sample_set   see cells
--   n_samples, n_seeds     see cells
--   distribution_preserving   see cells
--   accuracy               share correct
--   accuracy_drift         minus the control's
--   tokens_match_min       smallest share of samples equal to the control, over seeds
--   nfe, nfe_std           target forwards per sample, mean and standard deviation over seeds
--   nfe_reduction          control's NFE over this one's
--   ratio, ratio_std       throughput ratio over the control, mean and standard deviation over seeds
--   answer_nfe             forwards up to the first stop id
--   answer_reduction       the control's of these over this one's
--   answer_ratio           ratio of answer tokens per second
--   tok_s                  tokens per second
--   accepted_per_round     accepted drafts per drafted round, pooled
--   control_nfe            the control's NFE
--   argmax_fraction, committed_probability   see cells
--   control_argmax_fraction, control_committed_probability   see cells
--   shape, hedge, tau, rank_by, model, training, layers, width, prompts   see drafters
--   made_on, made_on_block_length, native   see drafters
CREATE OR REPLACE VIEW method_cells AS
WITH options AS (
    SELECT s.experiment, r.target, r.task, r.method, r.verifier, r.budget, r.floor, r.padded, r.temperature, r.commit_rule,
        r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, r.split, r.sample_set,
        arg_max(d, r.started_at) AS d
    FROM selected AS s JOIN runs AS r USING (run_id) JOIN drafters AS d ON d.identity = r.identity
    WHERE r.drafter <> 'none'
    GROUP BY s.experiment, r.target, r.task, r.method, r.verifier, r.budget, r.floor, r.padded, r.temperature,
        r.commit_rule, r.cache, r.layout, r.stop, r.generation_length, r.block_length, r.device_class, r.split, r.sample_set
)
SELECT c.experiment, c.target, c.task, c.method, c.drafter, c.verifier, c.budget, c.floor, c.padded, c.temperature,
    c.commit_rule, c.cache, c.layout, c.stop, c.generation_length, c.block_length, c.device_class, c.split, c.sample_set,
    c.n_samples, c.n_seeds, c.distribution_preserving, c.accuracy_mean AS accuracy, c.accuracy_delta_mean AS accuracy_drift,
    c.tokens_match_min, c.nfe_mean AS nfe, c.nfe_std, c.nfe_reduction_mean AS nfe_reduction, c.ratio_mean AS ratio,
    c.ratio_std, c.nfe_answer_mean AS answer_nfe, c.control_nfe_answer_mean / nullif(c.nfe_answer_mean, 0) AS answer_reduction,
    c.answer_ratio_mean AS answer_ratio, c.tok_s_mean AS tok_s, c.accepted_per_round, c.control_nfe_mean AS control_nfe,
    c.argmax_fraction, c.committed_probability, c.control_argmax_fraction, c.control_committed_probability,
    o.d.shape, o.d.hedge, o.d.tau, o.d.rank_by, o.d.model, o.d.training, o.d.layers, o.d.width, o.d.prompts, o.d.made_on,
    o.d.made_on_block_length, o.d.native
FROM cells AS c LEFT JOIN options AS o
    ON o.experiment = c.experiment AND o.target = c.target AND o.task = c.task AND o.method = c.method
    AND o.verifier = c.verifier AND o.budget = c.budget AND o.floor IS NOT DISTINCT FROM c.floor AND o.padded = c.padded
    AND o.temperature = c.temperature AND o.commit_rule = c.commit_rule AND o.cache = c.cache AND o.layout = c.layout
    AND o.stop = c.stop AND o.generation_length = c.generation_length AND o.block_length = c.block_length
    AND o.device_class IS NOT DISTINCT FROM c.device_class AND o.split IS NOT DISTINCT FROM c.split
    AND o.sample_set IS NOT DISTINCT FROM c.sample_set;
