-- measured_quantities: every figure of ours that a paper publishes a counterpart of, in one long table, under the names that
--   table published uses.
--   experiment           name of the experiment
--   target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache   cell; task and budget are NULL
--                        where a figure spans them
--   stop, generation_length, block_length   cell
--   device_class         see runs
--   n_seeds              seeds
--   n_samples            samples per seed, NULL where a figure spans cells
--   against              what method is compared with: another method, with its verifier where that differs
--   part                 block, number of steps, bin of mass or depth; see quantity
--   quantity             nfe, nfe_std, nfe_reduction, ratio, tok_s, accuracy, accuracy_delta, accepted_per_round,
--                        argmax_fraction, tokens_match and floor are those of cells. tokens_per_step, latency_s: generated
--                        tokens per forward and net seconds per sample. nfe_difference, nfe_percent, ratio_over,
--                        ratio_difference: method against the other (minus, percent, over, minus). position_cut_share: share of
--                        the position oracle's NFE cut at the same budget. joint_ratio_share: share of the joint oracle's best
--                        ratio over budgets. nfe_ahead, throughput_ahead: share of comparisons with spiffy, chain and tree
--                        that method leads. stale_position, stale_token (part = block): shares of first commits of a round
--                        that stale confidence, or the stale argmax, had right. accepted_last_block: accepted per drafted round in the
--                        last block. coverage_8 (part = steps): see stale_coverage. rejected_position, rejected_token,
--                        rejected_budget, rejected_budget_last_block: see first_rejections. acceptance_by_mass (part = bin): see
--                        acceptance_calibration. order_accuracy, stale_order_accuracy, order_accuracy_at_depth
--                        (part = depth): next commits predicted on held-out trajectories
--                        speedup, steps_over_vanilla, overhead: see trajectory_table_02 and, in percent, trajectory_table_05.
--                        step_s: net seconds per forward
--   value                the figure
CREATE OR REPLACE VIEW measured_quantities AS
WITH speeds AS (
    SELECT s.experiment, r.target, r.task, r.method, r.drafter, r.verifier, r.budget, r.floor, r.padded, r.temperature,
        r.commit_rule, r.cache, r.stop, r.generation_length, r.block_length, r.device_class, count(DISTINCT r.seed) AS n_seeds,
        max(r.n_samples) AS n_samples, avg(t.wall_s) AS latency_s,
        sum(t.generated_tokens) / nullif(sum(t.nfe), 0) AS tokens_per_step,
        sum(t.wall_s) / nullif(sum(t.nfe), 0) AS step_s
    FROM selected AS s JOIN runs AS r USING (run_id) JOIN samples AS t USING (run_id) GROUP BY ALL
), pairs AS (
    SELECT a.*, b.drafter AS other_drafter,
        CASE WHEN a.verifier = b.verifier THEN b.method ELSE b.method || ' ' || b.verifier END AS against,
        b.nfe_mean AS other_nfe, b.ratio_mean AS other_ratio,
        max(b.ratio_mean) OVER (
            PARTITION BY a.experiment, a.target, a.task, a.method, a.verifier, a.budget, a.floor, a.padded, a.temperature,
                a.commit_rule, a.cache, a.layout, a.stop, a.generation_length, a.block_length, a.device_class,
                a.sample_set, b.method
        ) AS best_ratio
    FROM cells AS a JOIN cells AS b ON a.experiment = b.experiment AND a.target = b.target AND a.task = b.task
        AND a.temperature = b.temperature AND a.commit_rule = b.commit_rule AND a.cache = b.cache AND a.stop = b.stop
        AND a.generation_length = b.generation_length AND a.block_length = b.block_length
        AND a.sample_set = b.sample_set AND a.device_class IS NOT DISTINCT FROM b.device_class
        AND (a.budget = b.budget OR b.drafter = 'oracle-joint')
        AND (a.method <> b.method OR a.verifier <> b.verifier)
    WHERE a.drafter <> 'none' AND b.drafter <> 'none'
    QUALIFY row_number() OVER (
        PARTITION BY a.experiment, a.target, a.task, a.method, a.verifier, a.budget, a.floor, a.padded, a.temperature,
            a.commit_rule, a.cache, a.layout, a.stop, a.generation_length, a.block_length, a.device_class, a.sample_set,
            b.method, b.verifier, b.budget
        ORDER BY a.padded <> b.padded, a.layout <> b.layout, b.floor
    ) = 1
), ahead AS (
    SELECT experiment, target, method, drafter, verifier, temperature, commit_rule, cache, stop, generation_length, block_length,
        device_class, min(n_seeds) AS n_seeds, avg((nfe_mean < other_nfe)::INTEGER) AS nfe_ahead,
        avg((ratio_mean > other_ratio)::INTEGER) AS throughput_ahead
    FROM pairs WHERE other_drafter IN ('spiffy', 'chain', 'tree') AND drafter = 'spot' GROUP BY ALL
), models AS (
    SELECT m.experiment, m.target, m.task, m.method, m.drafter, m.verifier, m.budget, m.floor, m.padded, m.temperature,
        m.commit_rule, m.cache, m.stop, m.generation_length, m.block_length, m.device_class, m.n_seeds,
        (n.summary ->> '$.accuracy')::DOUBLE AS accuracy, (n.summary ->> '$.baseline')::DOUBLE AS baseline,
        (n.summary -> '$.accuracy_by_depth')::DOUBLE[] AS by_depth
    FROM method_cells AS m JOIN nodes AS n ON n.experiment = m.experiment AND n.identity = m.model
    WHERE m.method = 'spot' AND n.kind = 'train' AND n.state = 'done'
), deepest AS (
    SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, stop,
        generation_length, block_length, device_class, max(n_seeds) AS n_seeds,
        arg_max(accepted_per_round, block) AS accepted
    FROM acceptance_by_block WHERE accepted_per_round IS NOT NULL GROUP BY ALL
), figures AS (
    SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, stop,
        generation_length, block_length, device_class, n_seeds, n_samples, NULL::VARCHAR AS against, NULL::INTEGER AS part,
        unnest([
            {'quantity': 'nfe', 'value': nfe_mean}, {'quantity': 'nfe_std', 'value': nfe_std},
            {'quantity': 'nfe_reduction', 'value': nfe_reduction_mean}, {'quantity': 'ratio', 'value': ratio_mean},
            {'quantity': 'tok_s', 'value': tok_s_mean}, {'quantity': 'accuracy', 'value': accuracy_mean},
            {'quantity': 'accuracy_delta', 'value': accuracy_delta_mean},
            {'quantity': 'accepted_per_round', 'value': accepted_per_round},
            {'quantity': 'argmax_fraction', 'value': argmax_fraction},
            {'quantity': 'tokens_match', 'value': tokens_match_min},
            {'quantity': 'floor', 'value': CASE WHEN method = 'spot-gamma' THEN floor END}
        ]) AS figure
    FROM cells
    UNION ALL BY NAME
    SELECT * EXCLUDE (latency_s, tokens_per_step, step_s), unnest([
            {'quantity': 'latency_s', 'value': latency_s}, {'quantity': 'tokens_per_step', 'value': tokens_per_step},
            {'quantity': 'step_s', 'value': step_s}
        ]) AS figure
    FROM speeds
    UNION ALL BY NAME
    SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache,
        stop, generation_length, block_length, device_class, n_seeds, unnest([
            {'quantity': 'speedup', 'value': tok_s / nullif(max(tok_s) FILTER (setting = 'vanilla') OVER shared, 0)},
            {'quantity': 'steps_over_vanilla',
                'value': max(steps) FILTER (setting = 'vanilla') OVER shared / nullif(steps, 0)},
            {'quantity': 'overhead', 'value': CASE WHEN drafter = 'trajectory' THEN 100 * draft_overhead END}
        ]) AS figure
    FROM trajectory_metrics WHERE drafter IN ('none', 'trajectory')
    WINDOW shared AS (
        PARTITION BY experiment, target, task, temperature, stop, generation_length, block_length, device_class, split,
            sample_set
    )
    UNION ALL BY NAME
    SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, stop,
        generation_length, block_length, device_class, n_seeds, n_samples, against, unnest([
            {'quantity': 'nfe_difference', 'value': nfe_mean - other_nfe},
            {'quantity': 'nfe_percent', 'value': 100 * (nfe_mean / nullif(other_nfe, 0) - 1)},
            {'quantity': 'ratio_over', 'value': ratio_mean / nullif(other_ratio, 0)},
            {'quantity': 'ratio_difference', 'value': ratio_mean - other_ratio}
        ]) AS figure
    FROM pairs WHERE other_drafter <> 'oracle-joint'
    UNION ALL BY NAME
    SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, stop,
        generation_length, block_length, device_class, n_seeds, n_samples, CASE
            WHEN other_drafter = 'oracle-position' THEN {'quantity': 'position_cut_share',
                'value': (control_nfe_mean - nfe_mean) / nullif(control_nfe_mean - other_nfe, 0)}
            ELSE {'quantity': 'joint_ratio_share', 'value': ratio_mean / nullif(best_ratio, 0)}
        END AS figure
    FROM pairs WHERE other_drafter IN ('oracle-position', 'oracle-joint') AND drafter NOT LIKE 'oracle-%'
    UNION ALL BY NAME
    SELECT * EXCLUDE (nfe_ahead, throughput_ahead), unnest([
            {'quantity': 'nfe_ahead', 'value': nfe_ahead}, {'quantity': 'throughput_ahead', 'value': throughput_ahead}
        ]) AS figure
    FROM ahead
    UNION ALL BY NAME
    SELECT * EXCLUDE (accuracy, baseline, by_depth), unnest([
            {'quantity': 'order_accuracy', 'value': accuracy}, {'quantity': 'stale_order_accuracy', 'value': baseline}
        ]) AS figure
    FROM models
    UNION ALL BY NAME
    SELECT * EXCLUDE (accuracy, baseline, by_depth), unnest(range(len(by_depth)))::INTEGER AS part,
        {'quantity': 'order_accuracy_at_depth', 'value': by_depth[part + 1]} AS figure
    FROM models
    UNION ALL BY NAME
    SELECT * EXCLUDE (accepted), {'quantity': 'accepted_last_block', 'value': accepted} AS figure FROM deepest
    UNION ALL BY NAME
    SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, stop,
        generation_length, block_length, device_class, n_seeds, block AS part, unnest([
            {'quantity': 'stale_position', 'value': root_position_share},
            {'quantity': 'stale_token', 'value': root_token_share}
        ]) AS figure
    FROM stale_order_by_block
    UNION ALL BY NAME
    SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, stop,
        generation_length, block_length, device_class, n_seeds, steps AS part,
        {'quantity': 'coverage_8', 'value': tokens_8} AS figure
    FROM stale_coverage
    UNION ALL BY NAME
    SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, stop,
        generation_length, block_length, device_class, n_seeds, bin AS part,
        {'quantity': 'acceptance_by_mass', 'value': acceptance} AS figure
    FROM acceptance_calibration
    UNION ALL BY NAME
    SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, stop,
        generation_length, block_length, device_class, n_seeds, unnest([
            {'quantity': 'rejected_position', 'value': position_share},
            {'quantity': 'rejected_token', 'value': token_share},
            {'quantity': 'rejected_budget', 'value': budget_share}
        ]) AS figure
    FROM first_rejections WHERE block IS NULL
    UNION ALL BY NAME
    SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, stop,
        generation_length, block_length, device_class, max(n_seeds) AS n_seeds,
        {'quantity': 'rejected_budget_last_block', 'value': arg_max(budget_share, block)} AS figure
    FROM first_rejections WHERE block IS NOT NULL GROUP BY ALL
)
SELECT experiment, target, task, method, drafter, verifier, budget, floor, padded, temperature, commit_rule, cache, stop,
    generation_length, block_length, device_class, n_seeds, n_samples, against, part, figure.quantity AS quantity,
    figure.value AS value
FROM figures WHERE figure.value IS NOT NULL;
