"""The tables and figures of the SPOT paper (arXiv 2610.22543), with what it reports in each."""

from __future__ import annotations

from pipeline.report.items import (
    ANSWER,
    BLOCK,
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
    Bars,
    Column,
    Item,
    Lines,
    numbered,
)

SPOT = (
    Item(
        "SPOT",
        ("Table 1",),
        "Temperature sweep at D8",
        "The paper shows what the target itself does at each temperature, what SPOT gets accepted under three "
        "equality verifiers, and how far greedy match drifts from the target: it is not exact above T = 0.",
        "spot_table_01",
        (TASK, METHOD, TEMPERATURE, BUDGET, PADDED, FLOOR),
        (
            Column("target_accuracy", "target: accuracy", "percent"),
            Column("target_argmax", "argmax", "percent"),
            Column("target_probability", "probability", "three"),
            Column("target_nfe", "NFE", "one"),
            Column("coupled_nfe", "coupled: NFE", "one", std="coupled_nfe_std"),
            Column("coupled_ratio", "ratio", "times"),
            Column("coupled_answer_ratio", "answer ratio", "times"),
            Column("uncoupled_nfe", "uncoupled: NFE", "one"),
            Column("greedy_nfe", "greedy †: NFE", "one"),
            Column("greedy_accuracy", "accuracy", "percent"),
            Column("greedy_argmax", "argmax", "percent"),
            Column("greedy_probability", "probability", "three"),
        ),
    ),
    Item(
        "SPOT",
        numbered("Table", 2, *range(8, 14), 18, 19),
        "Main comparison",
        "The paper reports NFE and throughput ratio of every drafter on four targets, at T = 0 and at T = 1, where "
        "all go by coupled noise and the free chain by rejection sampling as well; SPOT needs the fewest forwards in"
        " all of them.",
        "spot_table_02",
        (BUDGET, METHOD, VERIFIER, PADDED, FLOOR),
        FIGURES,
        across="task",
    ),
    Item(
        "SPOT",
        numbered("Table", 3, 14),
        "Transfer",
        "The paper points order models at targets they were not trained on, without retraining: they cost 0.4 to 11 "
        "% more forwards than the native one.",
        "spot_table_03",
        (
            METHOD,
            Column("made_on", "made on"),
            Column("made_on_block_length", "at block length", "count"),
            Column("native", "native", "flag"),
            BUDGET,
            PADDED,
            FLOOR,
        ),
        (NFE, CUT, RATIO, Column("over_native_percent", "NFE over native, %", "signed")),
        across="task",
    ),
    Item(
        "SPOT",
        ("Table 4",),
        "Calibration of the mass floor",
        "The paper reports the mean ratio over D8, D12 and D20 by floor on 50 held-out MBPP samples; it chooses 0.1 "
        "on SDAR-8B.",
        "spot_table_04",
        (
            Column("label", "node"),
            Column("floor", "γ", "short"),
            Column("budgets", "budgets", "list"),
            Column("judged", "judged by"),
            Column("tie_band", "tie band", "short"),
        ),
        (
            Column("mean_ratio", "mean ratio", "times", best="chosen"),
            Column("chosen", "chosen", "flag"),
        ),
    ),
    Item(
        "SPOT",
        ("Table 5",),
        "Beside the speedups that MRP reports",
        "The paper sets SPOT at D8 beside the published speedups of MRP, which it does not run either: two "
        "implementations, so only the relative gains can be compared.",
        "spot_table_05",
        (TASK, BLOCK, METHOD, BUDGET, PADDED),
        (
            *FIGURES,
            Column("mrp_low", "MRP reports: from", "times"),
            Column("mrp_high", "to", "times"),
            Column("mrp_targets", "on"),
        ),
    ),
    Item(
        "SPOT",
        ("Table 6",),
        "What the drafters are",
        "The paper compares published methods in words; runs can show whether drafts hold several commits, and "
        "whether what claims to be exact was.",
        "spot_table_06",
        (METHOD, VERIFIER, Column("above_zero", "T > 0", "flag")),
        (
            Column("learns_order", "learns order", "flag"),
            Column("multi_step", "several commits a draft", "flag"),
            Column("claim", "claims exactness", "flag"),
            Column("n_cells", "cells", "count"),
            Column("tokens_match_min", "samples equal, least", "percent"),
            Column("checks_passed", "law checks passed", "count"),
            Column("checks_made", "of", "count"),
        ),
    ),
    Item(
        "SPOT",
        ("Table 7",),
        "Live oracles",
        "The paper's ceilings at T = 0: NFE falls with the budget for every oracle, knowing positions is worth more "
        "than knowing tokens, and honest throughput (look-ahead not charged) peaks inside the grid at block length "
        "32.",
        "spot_table_07",
        (BLOCK, TASK, Column("control_nfe", "control NFE", "one"), BUDGET),
        (
            Column("nfe", "NFE", "one", std="nfe_std", best="best_nfe"),
            CUT,
            Column("ratio", "ratio", "times", std="ratio_std", best="best_ratio"),
        ),
        across="method",
    ),
    Item(
        "SPOT",
        numbered("Table", 15, 13),
        "One recipe or a drafter tuned for each setting",
        "The paper finds the one recipe at or ahead of tuned drafters in NFE in all four settings; positive "
        "differences mean that it is ahead of the best of them.",
        "spot_table_15",
        (BLOCK, TEMPERATURE, BUDGET, METHOD, PADDED),
        (
            *FIGURES,
            Column("nfe_saved", "NFE saved", "signed"),
            Column("ratio_gained", "ratio gained", "signed_two"),
        ),
        across="task",
    ),
    Item(
        "SPOT",
        ("Table 16",),
        "Generation length",
        "The paper's gains grow with the length: SPOT's ratio at D8 is 1.56 at 64 tokens, 2.45 at 256 and 2.79 at "
        "512, and at 64 tokens padded D20 is slower than no drafts at all.",
        "spot_table_16",
        (TASK, BUDGET, METHOD, VERIFIER, PADDED, FLOOR),
        (NFE, CUT, RATIO, ANSWER[1], Column("over_spiffy_percent", "NFE over spiffy, %", "signed")),
        across="generation_length",
    ),
    Item(
        "SPOT",
        ("Table 17",),
        "Ablations",
        "In the paper a chain instead of the tree costs most (7.3 forwards at D8, 11.9 at D20), hedge and corpus "
        "less than one each, padding next to nothing, and the floor trades forwards for time.",
        "spot_table_17",
        (
            TASK,
            BUDGET,
            Column("component", "what differs"),
            METHOD,
            Column("hedge", "hedge", "count"),
            Column("tau", "τ", "short"),
            Column("prompts", "prompts", "count"),
            PADDED,
            FLOOR,
        ),
        (
            NFE,
            Column("nfe_added", "over SPOT", "signed"),
            RATIO,
            Column("ratio_added", "over SPOT", "signed_two"),
            *ANSWER,
        ),
    ),
    Item(
        "SPOT",
        ("Table 20",),
        "Budget response of SPOT",
        "In the paper NFE falls up to D20 everywhere, while the ratio peaks at D6 on SDAR-8B and on a plateau from "
        "D12 on LLaDA2.0-mini: where the optimum lies is a matter of what a forward costs.",
        "spot_table_20",
        (BUDGET, PADDED),
        (NFE, CUT, Column("ratio", "ratio", "times", std="ratio_std", best="optimum"), *ANSWER),
        across="task",
    ),
    Item(
        "SPOT",
        ("Table 21",),
        "Complete temperature sweep",
        "The paper's whole grid: five temperatures, three drafters, three verifiers, D8 and D20. Coupling keeps "
        "acceptance alive where samples leave the argmax; greedy match († not exact) emits other text than the "
        "target.",
        "spot_table_21",
        (TASK, METHOD, BUDGET, TEMPERATURE, PADDED, FLOOR),
        (
            Column("target_accuracy", "target: accuracy", "percent"),
            Column("target_nfe", "NFE", "one"),
            Column("coupled_nfe", "coupled: NFE", "one", std="coupled_nfe_std"),
            Column("coupled_ratio", "ratio", "times"),
            Column("uncoupled_nfe", "uncoupled: NFE", "one"),
            Column("uncoupled_ratio", "ratio", "times"),
            Column("greedy_nfe", "greedy †: NFE", "one"),
            Column("greedy_ratio", "ratio", "times"),
            Column("greedy_accuracy", "accuracy", "percent"),
            Column("greedy_match", "samples equal", "percent"),
        ),
        plots=(
            Lines("coupled", "temperature", {"coupled_nfe": ""}, "temperature", "NFE per sample", panels=("budget",)),
            Lines(
                "uncoupled", "temperature", {"uncoupled_nfe": ""}, "temperature", "NFE per sample", panels=("budget",)
            ),
        ),
    ),
    Item(
        "SPOT",
        ("Table 22",),
        "Verifier and structure",
        "In the paper the tree is worth 12 to 17 forwards over the same drafter's chain, and on chains rejection "
        "sampling and coupled noise are within 3 forwards of each other.",
        "spot_table_22",
        (TASK, TEMPERATURE, BUDGET, Column("shape", "shape"), VERIFIER, METHOD, PADDED),
        (
            *FIGURES,
            Column("over_tree", "NFE over tree", "signed"),
            Column("over_coupled", "over coupled", "signed"),
            Column("ratio_over_coupled", "ratio over coupled", "signed_two"),
        ),
    ),
    Item(
        "SPOT",
        ("Figure 2a",),
        "Ceilings of the oracles",
        "The paper's peak ratios on SDAR-8B: positions are worth more than tokens, and both together reach 3.8 to "
        "4.6; SPOT recovers 70 to 85 % of the position oracle's cut in NFE.",
        "spot_figure_2a",
        (BLOCK, TASK, METHOD),
        (
            Column("ratio", "ratio", "times"),
            Column("budget", "at D", "count"),
            CUT,
            ANSWER[1],
            Column("spot_ratio", "SPOT: ratio", "times"),
            Column("spot_nfe_reduction", "cut", "times"),
        ),
        plots=(Bars("peak throughput ratio", "method", "ratio", "throughput ratio"),),
    ),
    Item(
        "SPOT",
        ("Figure 2b",),
        "Stale coverage",
        "In the paper eight stale candidates a position cover 89 % of whole runs of eight commits: what will be "
        "written is known, the order is not (the line of positions).",
        "spot_figure_2b",
        (BLOCK, TASK, Column("steps", "next K commits", "count")),
        (
            Column("roots", "states", "count"),
            Column("tokens_1", "top 1", "percent"),
            Column("tokens_2", "top 2", "percent"),
            Column("tokens_4", "top 4", "percent"),
            Column("tokens_8", "top 8", "percent"),
            Column("positions", "positions", "percent"),
        ),
        plots=(
            Lines(
                "covered by the best t stale tokens",
                "steps",
                {f"tokens_{t}": f"t = {t}" for t in (1, 2, 4, 8)} | {"positions": "positions"},
                "next K commits",
                "share covered",
            ),
        ),
    ),
    Item(
        "SPOT",
        ("Figure 3",),
        "Budget curves",
        "In the paper SPOT's NFE falls up to D20, below every baseline, and its throughput peaks at D6.",
        "spot_figure_3",
        (TASK, METHOD, BUDGET, PADDED, FLOOR, VERIFIER),
        FIGURES,
        plots=(
            Lines("forwards", "budget", {"nfe": ""}, "budget D", "NFE per sample"),
            Lines("throughput", "budget", {"ratio": ""}, "budget D", "throughput ratio", reference=1.0),
        ),
    ),
    Item(
        "SPOT",
        ("Figure 4",),
        "Deep blocks",
        "In the paper the stale order decays from 0.74 to 0.03 over blocks 0 to 8 while the stale tokens stay right,"
        " and the order model alone keeps getting more accepted, up to 14.5 drafts a round.",
        "spot_figure_4",
        (TASK, METHOD, BUDGET, PADDED, FLOOR, VERIFIER, Column("block", "block", "count")),
        (
            Column("position_share", "stale order holds", "percent"),
            Column("token_share", "stale token right", "percent"),
            Column("accepted_per_round", "accepted", "two"),
            Column("drafted_per_round", "drafted", "two"),
        ),
        plots=(
            Lines(
                "stale knowledge, without drafts",
                "block",
                {"position_share": "order", "token_share": "token"},
                "block",
                "share still right",
                method="control",
            ),
            Lines("accepted per drafted round", "block", {"accepted_per_round": ""}, "block", "drafts accepted"),
        ),
    ),
    Item(
        "SPOT",
        ("Figure 5a",),
        "Calibration of SPOT's own score",
        "In the paper 96 % of the nodes in the top bin of prefix mass are accepted and 3 % in the lowest; on the "
        "diagonal the score is the probability of acceptance.",
        "spot_figure_5a",
        (TASK, METHOD, BUDGET, PADDED, FLOOR, Column("mass_low", "mass from", "one"), Column("mass_high", "to", "one")),
        (
            Column("drafted", "drafted", "count"),
            Column("accepted", "accepted", "count"),
            Column("mass", "mean mass", "three"),
            Column("acceptance", "acceptance", "three"),
        ),
        plots=(
            Lines(
                "acceptance by mass",
                "mass",
                {"acceptance": "SPOT"},
                "mean prefix mass",
                "share accepted",
                method="spot",
                diagonal=True,
            ),
        ),
    ),
    Item(
        "SPOT",
        ("Figure 5b",),
        "First rejections",
        "In the paper 62 to 81 % of first rejections miss the position and 3 to 6 % the token; at D20 a growing "
        "share, 90 % in the last block, only ran out of nodes.",
        "spot_figure_5b",
        (TASK, METHOD, BUDGET, PADDED, FLOOR, Column("block", "block (– = all)", "count")),
        (
            Column("rejections", "rounds", "count"),
            Column("position_share", "position", "percent"),
            Column("token_share", "token", "percent"),
            Column("budget_share", "budget", "percent"),
            Column("order_rank", "rank of the true position", "two"),
            Column("position_first_share", "first by stale confidence", "percent"),
            Column("token_first_share", "true token first", "percent"),
        ),
        plots=(
            Lines(
                "why the path ended",
                "block",
                {"position_share": "position", "token_share": "token", "budget_share": "budget"},
                "block",
                "share of rounds",
                method="spot",
            ),
        ),
    ),
)
