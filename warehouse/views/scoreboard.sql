-- scoreboard: every published figure beside ours, for each experiment. A figure of ours answers a published one if quantity,
--   temperature, commit rule, block length and part agree, and method, against, verifier, budget, floor and cache wherever the paper
--   states them; stop is fill, as the papers count. It is "same setting" if target, task and generation length agree as
--   well. Otherwise it is the "same quantity, another target": the task must be of the same kind (tiny-code stands beside mbpp
--   and humaneval; tiny-math beside gsm8k, math500 and math), and the generation length nearest to the published one is taken,
--   at most 4 times shorter or longer. Where the same setting was measured, other targets are left out. Of padded and
--   unpadded cells the padded one is taken, but for grids of floors and spot-gamma, which are unpadded. A figure that spans tasks
--   or budgets is answered by the range of all of ours, and `ours` is their mean. spot-transferred is answered by methods
--   from-*, spot-tuned by spot-tuned-*, spot-no-hedge by spot-hedge-1, spot-small-corpus by spot-corpus-*, and a floor of a grid
--   by any spot drafter with that floor.
--   experiment             name of the experiment, NULL in a home without any
--   paper, item            see published
--   target, task, method, against, verifier, budget, floor, part, temperature, commit_rule, cache   published setting
--   generation_length, block_length   published setting
--   quantity, unit         see published
--   published              the published figure
--   published_low, published_high   its range
--   ours                   our figure, the mean where it spans several cells
--   ours_low, ours_high    smallest and largest of these cells
--   ours_target            target that it was measured on
--   ours_tasks             tasks
--   ours_generation_length   tokens generated, the largest where several
--   n_cells                cells it spans
--   n_seeds                seeds, the fewest of these cells
--   n_samples              samples per seed, the fewest; NULL for pooled figures
--   device_class           devices
--   setting                same setting; same quantity, another target; or not measured
--   provenance             see published
CREATE OR REPLACE VIEW scoreboard AS
WITH numbered AS MATERIALIZED (
    SELECT row_number() OVER (
            ORDER BY paper, regexp_extract(item, '^\D*'), TRY_CAST(regexp_extract(item, '\d+') AS INTEGER), item, target, task,
                method, against, verifier, budget, floor, part, temperature, commit_rule, cache,
                generation_length, block_length, quantity, value, value_low, value_high, provenance
        ) AS number, *
    FROM published
), kinds(task, kind) AS (
    VALUES ('mbpp', 'code'), ('humaneval', 'code'), ('tiny-code', 'code'), ('gsm8k', 'math'), ('math500', 'math'),
        ('math', 'math'), ('tiny-math', 'math'), ('ifeval', 'instructions')
), aliases(method, pattern) AS (
    VALUES ('spot-transferred', 'from-%'), ('spot-tuned', 'spot-tuned-%'), ('spot-no-hedge', 'spot-hedge-1'),
        ('spot-small-corpus', 'spot-corpus-%')
), ours AS MATERIALIZED (
    SELECT m.*, k.kind FROM measured_quantities AS m LEFT JOIN kinds AS k USING (task) WHERE m.stop = 'fill'
), wanted AS (
    SELECT p.*, k.kind, coalesce(a.pattern, p.method) AS pattern, coalesce(o.pattern, p.against) AS against_pattern,
        p.floor IS NULL AND p.method <> 'spot-gamma' AS padded
    FROM numbered AS p LEFT JOIN kinds AS k USING (task) LEFT JOIN aliases AS a ON a.method = p.method
    LEFT JOIN aliases AS o ON o.method = p.against
), matched AS (
    SELECT w.number, m.*, w.target = m.target AND coalesce(w.task = m.task, w.task IS NULL)
            AND coalesce(w.generation_length = m.generation_length, w.generation_length IS NULL) AS same
    FROM wanted AS w JOIN ours AS m
        ON m.quantity = w.quantity AND m.temperature = w.temperature AND m.commit_rule = w.commit_rule
        AND m.block_length = w.block_length AND m.part IS NOT DISTINCT FROM w.part
        AND (w.cache IS NULL OR m.cache = w.cache) AND (w.budget IS NULL OR m.budget = w.budget) AND (w.verifier IS NULL OR m.verifier = w.verifier)
        AND (
            CASE WHEN w.floor IS NULL THEN m.method LIKE w.pattern
            ELSE m.drafter = 'spot' AND abs(m.floor - w.floor) < 1e-9 AND NOT m.padded END
        )
        AND (m.against IS NULL AND w.against IS NULL OR m.against LIKE w.against_pattern)
        AND (w.task IS NULL OR m.task = w.task OR m.kind = w.kind)
        AND (
            w.generation_length IS NULL
            OR m.generation_length BETWEEN w.generation_length / 4 AND w.generation_length * 4
        )
    QUALIFY row_number() OVER (
        PARTITION BY w.number, m.experiment, m.target, m.task, m.budget, m.device_class
        ORDER BY abs(ln(m.generation_length / coalesce(w.generation_length, m.generation_length))), m.padded <> w.padded,
            m.verifier, m.method, m.floor, m.against, m.value
    ) = 1
), settled AS (
    SELECT * FROM matched
    QUALIFY same OR NOT bool_or(same) OVER (PARTITION BY number, experiment)
), answers AS (
    SELECT number, experiment, target AS ours_target, device_class, avg(value) AS ours, min(value) AS ours_low,
        max(value) AS ours_high, string_agg(DISTINCT task, ', ' ORDER BY task) AS ours_tasks,
        max(generation_length) AS ours_generation_length, count(*) AS n_cells, min(n_seeds) AS n_seeds,
        min(n_samples) AS n_samples, bool_and(same) AS same
    FROM settled GROUP BY number, experiment, target, device_class
), experiments_here AS (
    SELECT DISTINCT experiment FROM selected
    UNION ALL
    SELECT NULL WHERE NOT EXISTS (SELECT 1 FROM selected)
)
SELECT e.experiment, p.paper, p.item, p.target, p.task, p.method, p.against, p.verifier, p.budget, p.floor, p.part,
    p.temperature, p.commit_rule, p.cache, p.generation_length, p.block_length, p.quantity, p.unit, p.value AS published,
    p.value_low AS published_low, p.value_high AS published_high, a.ours, a.ours_low, a.ours_high, a.ours_target,
    a.ours_tasks, a.ours_generation_length, a.n_cells, a.n_seeds, a.n_samples, a.device_class,
    CASE WHEN a.same THEN 'same setting' WHEN a.same IS NULL THEN 'not measured' ELSE 'same quantity, another target'
    END AS setting, p.provenance
FROM experiments_here AS e CROSS JOIN numbered AS p
LEFT JOIN answers AS a ON a.number = p.number AND a.experiment = e.experiment
ORDER BY e.experiment, p.number, a.ours_target;
