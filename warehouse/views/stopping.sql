-- stopping: how much of each method's gain is filler behind the answer. Under stop fill every block of the generation
--   length is decoded, as SPOT counts; what follows the first stop id is near certain and drafts well. Each cell that has
--   both stands once, its fill run and its eos run side by side; one that has only one of them has NULLs for the other.
--   experiment           name of the experiment
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout   cell
--   generation_length, block_length   cell
--   device_class         see runs
--   split                see runs
--   sample_set           see runs
--   nfe_reduction        fill: control's forwards over the method's
--   answer_reduction     fill: the same on forwards up to the first stop id alone
--   cut                  fill: forwards saved per sample
--   cut_filler           fill: of those, forwards behind the first stop id
--   filler_share         cut_filler / cut; NULL where nothing is saved
--   ratio                fill: throughput ratio, all tokens
--   answer_ratio         fill: ratio of answer tokens per second
--   eos_nfe_reduction    eos: control's forwards over the method's
--   eos_ratio            eos: throughput ratio
CREATE OR REPLACE VIEW stopping AS
WITH kept AS (
    SELECT *, control_nfe_mean - nfe_mean AS cut, control_nfe_answer_mean - nfe_answer_mean AS cut_answer,
        control_nfe_answer_mean / nullif(nfe_answer_mean, 0) AS answer_reduction
    FROM cells WHERE drafter <> 'none'
)
SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, layout,
    generation_length, block_length, device_class, split, sample_set,
    max(nfe_reduction_mean) FILTER (stop = 'fill') AS nfe_reduction,
    max(answer_reduction) FILTER (stop = 'fill') AS answer_reduction, max(cut) FILTER (stop = 'fill') AS cut,
    max(cut - cut_answer) FILTER (stop = 'fill') AS cut_filler,
    max((cut - cut_answer) / cut) FILTER (stop = 'fill' AND cut > 0) AS filler_share,
    max(ratio_mean) FILTER (stop = 'fill') AS ratio, max(answer_ratio_mean) FILTER (stop = 'fill') AS answer_ratio,
    max(nfe_reduction_mean) FILTER (stop = 'eos') AS eos_nfe_reduction, max(ratio_mean) FILTER (stop = 'eos') AS eos_ratio
FROM kept
GROUP BY experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache,
    layout, generation_length, block_length, device_class, split, sample_set
ORDER BY experiment, target, task, temperature, method, budget;
