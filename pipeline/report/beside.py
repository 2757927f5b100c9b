"""Tables that stand beside those of the papers: the same rendering, no item of a paper."""

from __future__ import annotations

from pipeline.report.items import (
    ANSWER,
    BUDGET,
    CUT,
    FIGURES,
    FLOOR,
    METHOD,
    NFE,
    PADDED,
    RATIO,
    TASK,
    TEMPERATURE,
    VERIFIER,
    Column,
    Item,
    Lines,
)

BESIDE = (
    Item(
        "",
        (),
        "Scoreboard: what the papers publish and what was measured here",
        "Each published figure that has a counterpart here, with whether it is the same setting or only the same "
        "quantity on another target; published figures without one are left out.",
        "scoreboard",
        (
            Column("paper", "paper"),
            Column("item", "item"),
            Column("target", "target"),
            TASK,
            Column("method", "method"),
            BUDGET,
            TEMPERATURE,
            Column("generation_length", "length", "count"),
            Column("block_length", "block length", "count"),
            Column("against", "against"),
            VERIFIER,
            FLOOR,
            Column("part", "part"),
            Column("quantity", "quantity"),
        ),
        (
            Column("published", "published", "figure", low="published_low", high="published_high"),
            Column("ours", "ours", "figure", low="ours_low", high="ours_high"),
            Column("ours_target", "on"),
            Column("ours_generation_length", "length", "count"),
            Column("n_samples", "samples", "count"),
            Column("setting", "comparison"),
        ),
        where="ours IS NOT NULL",
    ),
    Item(
        "",
        (),
        "Filler: every block decoded or stopped after the answer",
        "The SPOT paper decodes every block (fill); what follows the first stop id is near certain and drafts well. "
        "The share of filler is the part of the saved forwards that lies there; the eos columns are runs that stop "
        "after the answer.",
        "stopping",
        (TASK, TEMPERATURE, METHOD, BUDGET, VERIFIER, PADDED, FLOOR),
        (
            CUT,
            ANSWER[0],
            Column("filler_share", "filler", "percent"),
            Column("ratio", "ratio", "times"),
            ANSWER[1],
            Column("eos_nfe_reduction", "eos: cut", "times"),
            Column("eos_ratio", "ratio", "times"),
        ),
    ),
    Item(
        "",
        (),
        "How sure the differences are, over samples",
        "Sample-paired bootstrap, 95 %: ratio and NFE against the control, both sides of a sample resampled "
        "together.",
        "ratio_intervals",
        (TASK, TEMPERATURE, METHOD, BUDGET, VERIFIER, PADDED, FLOOR),
        (
            Column("ratio", "ratio", "times"),
            Column("ratio_low", "from", "two"),
            Column("ratio_high", "to", "two"),
            Column("nfe_difference", "NFE less control", "signed"),
            Column("nfe_difference_low", "from", "signed"),
            Column("nfe_difference_high", "to", "signed"),
            Column("throughput_verdict", "throughput"),
            Column("nfe_verdict", "NFE"),
        ),
        where="other = 'control'",
    ),
    Item(
        "",
        (),
        "Rejection checks",
        "Before any run with a rejection verifier its draws are tested against the target's law on live states, with"
        " proposals that are wrong on purpose among them (SPOT, section B.4).",
        "rejection_checks",
        (Column("label", "node"), VERIFIER, TEMPERATURE, Column("check_name", "check"), Column("proposal", "proposal")),
        (
            Column("states", "states", "count"),
            Column("draws", "draws", "count"),
            Column("statistic", "statistic", "four"),
            Column("dof", "dof", "count"),
            Column("p_value", "p", "four"),
            Column("passed", "passed", "flag"),
        ),
    ),
    Item(
        "",
        (),
        "Control drift",
        "Controls are timed again around long stretches and when they stray; what moved between two timings moved "
        "the throughput ratios as well.",
        "control_drift",
        (TASK, TEMPERATURE, Column("seed", "seed", "count"), Column("timing", "timing", "count")),
        (
            Column("minutes", "minutes", "one"),
            Column("tok_s", "tok/s", "one"),
            Column("relative", "over the first", "percent"),
            Column("spread", "largest over smallest", "percent"),
            Column("status", "status"),
        ),
        where="n_timings > 1",
    ),
    Item(
        "",
        (),
        "Size of the order model",
        "The SPOT paper finds its order model limited by features, not by size (section F.10, offline); here with "
        "what the size is worth in decoding.",
        "capacity_probe",
        (
            TASK,
            BUDGET,
            METHOD,
            Column("layers", "layers", "count"),
            Column("width", "width", "count"),
            Column("parameters", "parameters", "count"),
            PADDED,
        ),
        (Column("accuracy", "held-out accuracy", "percent"), Column("baseline", "stale order", "percent"), *FIGURES),
    ),
    Item(
        "",
        (),
        "Spiffy that knows the noise",
        "The SPOT paper lets Spiffy rank positions by the stale probability of the token drawn there; at T = 2 that "
        "overtakes its own order model (section F.6).",
        "noise_aware_spiffy",
        (TASK, TEMPERATURE, BUDGET, METHOD, Column("rank_by", "ranked by"), PADDED),
        (NFE, Column("over_spiffy_percent", "NFE over spiffy, %", "signed"), CUT, RATIO, *ANSWER),
        plots=(Lines("forwards", "temperature", {"nfe": ""}, "temperature", "NFE per sample"),),
    ),
)
