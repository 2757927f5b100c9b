"""The tables and figures of the trajectory paper, with what it reports in each."""

from __future__ import annotations

from pipeline.report.items import METHOD, TASK, TEMPERATURE, VERIFIER, Column, Item, Lines, numbered

SETTING = Column("setting", "setting")
SHAPE = Column("shape", "shape")
COMMIT = Column("commit_rule", "commit rule")
CACHE = Column("cache", "cache")
INTER = Column("inter_blocks", "next blocks", "count")
LENGTH = Column("generation_length", "length", "count")
STEPS = Column("steps", "steps", "one")
PER_STEP = Column("tokens_per_step", "tokens per step", "two")
ACCURACY = Column("accuracy", "accuracy", "percent")
DRIFT = (
    Column("accuracy_change", "accuracy over control", "points"),
    Column("drifted_tokens", "tokens drifted", "percent"),
)
# Draft-free runs alone are no results of this paper.
DRAFTED = "experiment IN (SELECT experiment FROM trajectory_metrics WHERE drafter = 'trajectory')"

TRAJECTORY = (
    Item(
        "Trajectory",
        numbered("Table", 2, 3, 9, 13),
        "Throughput, steps and accuracy",
        "The paper reports 5.1 to 11.9 times vanilla decoding for Fast-dLLM with a dual cache on LLaDA and 6.8 to "
        "13.6 with trajectory drafts, at about the same accuracy; drift is against the control of the same commit "
        "rule and cache.",
        "trajectory_table_02",
        (TASK, LENGTH, SETTING, SHAPE, INTER, COMMIT, CACHE, VERIFIER),
        (
            Column("tok_s", "tok/s", "one"),
            STEPS,
            PER_STEP,
            ACCURACY,
            Column("speedup", "over vanilla", "times"),
            Column("speedup_over_control", "over control", "times"),
            Column("step_change", "steps over control", "percent"),
            *DRIFT,
        ),
        where=DRAFTED,
    ),
    Item(
        "Trajectory",
        numbered("Table", 4, 7, 8, 12),
        "Tree shapes, expansion, next blocks and lengths",
        "In the paper wider and deeper trees save steps but cost time in each; three drafts of width 2 and depth 2 "
        "are best by the clock, and drafts of the next block take another 12 to 17 % of the steps.",
        "trajectory_table_04",
        (TASK, LENGTH, SETTING, SHAPE, INTER, COMMIT, CACHE, VERIFIER),
        (
            Column("most_drafts", "drafts", "count"),
            PER_STEP,
            STEPS,
            Column("step_change", "over control", "percent"),
            Column("ms_per_step", "ms per step", "one"),
            Column("latency_s", "s per sample", "two"),
            Column("latency_change", "over control", "percent"),
            Column("alpha_1", "level 1 accepted", "percent"),
            Column("alpha_2", "level 2", "percent"),
            ACCURACY,
            *DRIFT,
        ),
        where=DRAFTED,
    ),
    Item(
        "Trajectory",
        ("Table 5",),
        "What drafting costs",
        "In the paper building the drafts takes 1 to 8 % of the time of the forwards, less the longer the sequence.",
        "trajectory_table_05",
        (TASK, TEMPERATURE, METHOD, SHAPE, COMMIT, CACHE, VERIFIER),
        (Column("draft_overhead", "over forwards", "percent"), Column("draft_share", "of all time", "percent")),
        across="generation_length",
    ),
    Item(
        "Trajectory",
        ("Table 10",),
        "Is the output left alone",
        "The paper proves (theorem 1) and finds equal tokens and logits in top-1 mode with cached keys and values and "
        "without drafts of the next block. Logits are those that decided a step, against a forward without drafts.",
        "trajectory_table_10",
        (TASK, METHOD, SHAPE, COMMIT, CACHE, VERIFIER),
        (
            Column("token_match", "samples equal", "percent"),
            Column("token_share", "tokens equal", "percent"),
            Column("checked_rounds", "forwards checked", "count"),
            Column("logits_equal", "logits equal", "percent"),
            Column("logit_error", "largest difference", "figure"),
        ),
        where="inter_blocks = 0",
    ),
    Item(
        "Trajectory",
        ("Table 11",),
        "Accuracy by difficulty",
        "The paper loses accuracy on level 4 of MATH alone. Here samples fall into fifths by the forwards that each token "
        "of the answer costs the control, the first the easiest.",
        "trajectory_table_11",
        (TASK, METHOD, COMMIT, CACHE, VERIFIER, Column("level", "fifth (– = all)", "count")),
        (
            Column("n_samples", "samples", "count"),
            Column("control_steps_per_token", "control's forwards a token", "two"),
            Column("control_accuracy", "its accuracy", "percent"),
            ACCURACY,
            Column("accuracy_change", "change", "points"),
            Column("step_change", "steps over control", "percent"),
            Column("drifted_samples", "samples drifted", "percent"),
        ),
    ),
    Item(
        "Trajectory",
        ("Figure 5", "Table 6"),
        "What a forward costs by its number of drafts",
        "In the paper a forward costs the same up to some 200 to 300 concurrent tokens, where the device stops "
        "waiting for memory.",
        "trajectory_figure_5",
        (TASK, METHOD, SHAPE, COMMIT, CACHE, VERIFIER, Column("drafts", "drafts", "count")),
        (
            Column("rounds", "forwards", "count"),
            Column("forward_ms", "ms a forward", "two"),
            Column("overhead", "over control", "percent"),
            Column("step_change", "steps over control", "percent"),
        ),
        plots=(Lines("forward", "drafts", {"forward_ms": ""}, "drafts in the forward", "ms a forward"),),
    ),
)
