-- unpaired: ok method runs that no control can be divided into, with the reason.
--   run_id         the run
--   experiment     the experiment
--   target, task, method, budget, temperature, seed, device_class, n_samples, limited   see runs
--   why            what stands in the way
CREATE OR REPLACE VIEW unpaired AS
SELECT p.run_id, p.experiment, p.target, p.task, p.method, p.budget, p.temperature, p.seed, p.device_class, p.n_samples,
    p.limited,
    CASE
        WHEN p.limited THEN 'the run was limited'
        WHEN NOT EXISTS (
            SELECT 1 FROM runs AS c WHERE c.drafter = 'none' AND c.target = p.target AND c.task = p.task
                AND c.temperature = p.temperature AND c.seed = p.seed
        ) THEN 'no control of this target, task, temperature and seed'
        WHEN NOT EXISTS (
            SELECT 1 FROM controls AS c WHERE c.target = p.target AND c.task = p.task AND c.temperature = p.temperature
                AND c.seed = p.seed
        ) THEN 'its controls failed, were archived, limited or interrupted'
        WHEN NOT EXISTS (
            SELECT 1 FROM controls AS c WHERE c.target = p.target AND c.task = p.task AND c.temperature = p.temperature
                AND c.seed = p.seed AND c.device_class IS NOT DISTINCT FROM p.device_class
        ) THEN 'its controls ran on another device class'
        WHEN NOT EXISTS (
            SELECT 1 FROM controls AS c WHERE c.target = p.target AND c.task = p.task AND c.temperature = p.temperature
                AND c.seed = p.seed AND c.device_class IS NOT DISTINCT FROM p.device_class
                AND c.sample_set = p.sample_set
                AND c.sample_digest IS NOT DISTINCT FROM p.sample_digest
        ) THEN 'its controls decoded other samples'
        ELSE 'its controls differ in length, cache, commit rule, stop rule or target weights'
    END AS why
FROM paired AS p WHERE NOT p.paired AND p.drafter <> 'none';
