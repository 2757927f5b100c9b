"""The views against figures worked out by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import duckdb
import pytest
from scipy import stats
from warehouse_for_tests import archive, make_rounds, make_run, make_samples, memory_warehouse, put, rows

from warehouse import Store, tables
from warehouse.catalog import VIEWS
from warehouse.columns import CELL_COLUMNS, ROUND_SCHEMA, RUN_SCHEMA, SAMPLE_SCHEMA

CELL = set(CELL_COLUMNS)
CONTRACT = {
    "runs": CELL | set(
        "run_id experiment seed attempt status reason n_samples device_class distribution_preserving"
        " accuracy nfe tok_s wall_s started_at git_commit versions identity sample_digest limited segments".split()
    ),
    "samples": set(
        "run_id sample_id prompt_tokens generated_tokens answer_tokens nfe store_passes wall_s draft_s"
        " forward_s correct output finish nfe_answer tokens exact_ties near_ties".split()
    ),
    "rounds": set(
        "run_id sample_id block round drafted accepted positions draft_s forward_s reject_cause"
        " true_position_rank true_token_rank".split()
    ),
    "controls": {"run_id", "target", "task", "temperature", "seed", "device_class", "sample_digest"},
    "paired": CELL | set(
        "seed run_id control_run_id nfe nfe_reduction tok_s throughput_ratio accuracy accuracy_delta"
        " tokens_match paired".split()
    ),
    "cells": CELL | set(
        "n_seeds nfe_mean nfe_std ratio_mean ratio_std ratio_low ratio_high accuracy_mean accuracy_std"
        " tokens_match_min".split()
    ),
    "outliers": {"run_id", "reason", "successor"},
    "nodes": {"experiment", "identity", "kind", "label", "state", "actor", "message"},
    "experiments": {"name", "spec_text", "spec_identity", "command", "versions", "git_commit"},
    "artifacts": {"identity", "kind", "path", "bytes", "sha256"},
    "events": {"experiment", "level", "kind", "message", "run_id"},
    "main_table": {"task", "temperature", "method", "budget", "nfe", "ratio", "accuracy", "n_seeds", "nfe_answer"},
}  # fmt: skip


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with memory_warehouse() as connection:
        yield connection


def columns(connection: duckdb.DuckDBPyConnection, name: str) -> set[str]:
    return {row["column_name"] for row in rows(connection, f"DESCRIBE {name}")}


def test_views_are_the_files_in_the_folder() -> None:
    assert sorted(VIEWS) == sorted(
        entry.name.removesuffix(".sql") for entry in (files("warehouse") / "views").iterdir()
    )


@pytest.mark.parametrize("name", CONTRACT)
def test_the_sql_contract_holds(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    assert CONTRACT[name] - columns(connection, name) == set()


def test_every_column_is_documented_and_every_documented_column_exists(connection: duckdb.DuckDBPyConnection) -> None:
    for document in tables():
        assert document.summary
        if document.name != "run_records":  # its columns are those of runs
            assert set(document.columns) == columns(connection, document.name), document.name
            assert all(document.columns.values())
    in_file = rows(connection, "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal")
    assert {row["view_name"]: row["comment"] for row in in_file}.keys() == set(VIEWS)


def test_the_schema_and_the_columns_in_python_agree(connection: duckdb.DuckDBPyConnection) -> None:
    assert columns(connection, "run_records") == set(RUN_SCHEMA.names)
    assert columns(connection, "samples") == {"run_id", *SAMPLE_SCHEMA.names}
    assert columns(connection, "rounds") == {"run_id", *ROUND_SCHEMA.names}


def test_the_t_quantiles_are_right(connection: duckdb.DuckDBPyConnection) -> None:
    for row in rows(connection, "SELECT * FROM t_quantiles"):
        assert row["t"] == pytest.approx(stats.t.ppf(0.975, row["df"]), abs=1e-5)


def test_cells_by_hand(connection: duckdb.DuckDBPyConnection) -> None:
    # Controls: 128 tokens in 4 s = 32 tok/s. Methods: 64, 48 and 80 tok/s, so ratios 2, 1.5 and 2.5; NFE 10, 12 and 14.
    for seed, (wall, nfe, accepted) in enumerate([(2.0, 10.0, [4]), (8 / 3, 12.0, [2, 0]), (1.6, 14.0, [3, 3])]):
        put(connection, make_run("control", seed), make_samples(nfe=(40.0, 60.0), wall=(1.0, 3.0)))
        samples = make_samples(nfe=(nfe, nfe), wall=(wall / 4, wall * 3 / 4), correct=[True, seed != 0])
        put(connection, make_run("spot", seed), samples, make_rounds({"tiny-math/test/0": accepted}))
    (cell,) = rows(connection, "SELECT * FROM cells WHERE method = 'spot'")
    assert (cell["n_seeds"], cell["n_paired"], cell["n_samples"]) == (3, 3, 2)
    assert (cell["ratio_mean"], cell["ratio_std"]) == (pytest.approx(2.0), pytest.approx(0.5))
    half = 4.302653 * 0.5 / math.sqrt(3)
    assert (cell["ratio_low"], cell["ratio_high"]) == (
        pytest.approx(2 - half, abs=1e-5),
        pytest.approx(2 + half, abs=1e-5),
    )
    assert (cell["nfe_mean"], cell["nfe_std"]) == (pytest.approx(12.0), pytest.approx(2.0))
    assert cell["nfe_low"] == pytest.approx(12 - 4.302653 * 2 / math.sqrt(3), abs=1e-4)
    assert cell["nfe_reduction_mean"] == pytest.approx((50 / 10 + 50 / 12 + 50 / 14) / 3)
    assert (cell["accuracy_mean"], cell["accuracy_delta_mean"]) == (pytest.approx(2.5 / 3), pytest.approx(2.5 / 3 - 1))
    assert cell["accuracy_std"] == pytest.approx(math.sqrt(1 / 12))
    assert cell["tokens_match_min"] == 1.0
    assert cell["accepted_per_round"] == pytest.approx((4 + 2 + 0 + 3 + 3) / 5)
    (main,) = rows(connection, "SELECT * FROM main_table WHERE method = 'spot'")
    assert (main["nfe_answer"], main["nfe_after"], main["control_nfe_answer"], main["control_nfe_after"]) == (
        6,
        6,
        25,
        25,
    )
    assert (main["cut_answer"], main["cut_after"], main["cut_answer_share"]) == (19, 19, 0.5)


def test_one_seed_has_no_interval_and_nothing_is_nan(connection: duckdb.DuckDBPyConnection) -> None:
    put(connection, make_run("control"), make_samples())
    put(connection, make_run("spot"), make_samples(wall=(0.0, 0.0), nfe=(0.0, 0.0)))
    for name in VIEWS:
        for row in rows(connection, f"SELECT * FROM {name}"):
            assert all(math.isfinite(value) for value in row.values() if isinstance(value, float)), (name, row)
    (cell,) = rows(connection, "SELECT * FROM cells WHERE method = 'spot'")
    assert [cell[name] for name in ("nfe_std", "nfe_low", "ratio_mean", "ratio_low")] == [None] * 4


def test_three_seeds_of_a_prompt_stay_three_outputs(connection: duckdb.DuckDBPyConnection) -> None:
    for seed in range(3):
        put(
            connection,
            make_run("control", seed),
            make_samples(nfe=(10.0,), wall=(1.0,), output=[f"out {seed}"], tokens=[[seed]]),
        )
    assert len(rows(connection, "SELECT DISTINCT output FROM samples WHERE sample_id = 'tiny-math/test/0'")) == 3
    (cell,) = rows(connection, "SELECT n_seeds FROM cells")
    assert cell["n_seeds"] == 3


def test_tokens_match_counts_samples(connection: duckdb.DuckDBPyConnection) -> None:
    same, other = [1, 2, 3], [1, 2, 4]
    put(connection, make_run("control"), make_samples(nfe=[9.0] * 4, wall=[1.0] * 4, tokens=[same] * 4))
    drifted = put(
        connection, make_run("spot"), make_samples(nfe=[3.0] * 4, wall=[1.0] * 4, tokens=[same, other, same, same[:2]])
    )
    put(
        connection,
        make_run("chain", verifier="rejection"),
        make_samples(nfe=[3.0] * 4, wall=[1.0] * 4, tokens=[other] * 4),
    )
    put(
        connection,
        make_run("tree", verifier="greedy", distribution_preserving=False),
        make_samples([3.0] * 4, [1.0] * 4, [other] * 4),
    )
    match = {row["method"]: row["tokens_match"] for row in rows(connection, "SELECT * FROM paired")}
    assert match == {"control": 1.0, "spot": 0.5, "chain": None, "tree": 0.0}
    (found,) = rows(connection, "SELECT * FROM audit")
    assert (found["run_id"], found["failure"]) == (drifted, True)
    assert found["samples"] == ["tiny-math/test/1", "tiny-math/test/3"]


def test_exact_drafts_are_audited_on_top_of_a_lossy_rule(connection: duckdb.DuckDBPyConnection) -> None:
    lossy = {"commit_rule": "threshold:0.9", "cache": "dual", "distribution_preserving": False}
    put(connection, make_run("control", **lossy), make_samples(tokens=[[1], [2]]))
    exact = put(connection, make_run("exact", **lossy, drafts_exact=True), make_samples(tokens=[[1], [3]]))
    put(connection, make_run("subset", **lossy, drafts_exact=False), make_samples(tokens=[[1], [3]]))
    assert [row["run_id"] for row in rows(connection, "SELECT * FROM audit")] == [exact]


def test_a_mismatch_in_half_precision_is_a_figure_not_a_failure(connection: duckdb.DuckDBPyConnection) -> None:
    put(connection, make_run("control", dtype="bfloat16"), make_samples())
    put(connection, make_run("spot", dtype="bfloat16"), make_samples(tokens=[[9], [9]]))
    assert [row["failure"] for row in rows(connection, "SELECT * FROM audit")] == [False]


def test_archiving_a_control_moves_its_pairs_to_the_successor(connection: duckdb.DuckDBPyConnection) -> None:
    slow = put(connection, make_run("control"), make_samples(wall=(2.0, 2.0)))
    put(connection, make_run("spot"), make_samples(wall=(1.0, 1.0)))
    assert rows(connection, "SELECT throughput_ratio AS r FROM paired WHERE method = 'spot'") == [{"r": 2.0}]
    good = put(connection, make_run("control", attempt=1), make_samples(wall=(1.5, 1.5)))
    archive(connection, slow, "outlier: slow", good)
    (pair,) = rows(connection, "SELECT * FROM paired WHERE method = 'spot'")
    assert (pair["control_run_id"], pair["throughput_ratio"]) == (good, 1.5)
    (outlier,) = rows(connection, "SELECT * FROM outliers")
    assert (outlier["run_id"], outlier["reason"], outlier["successor"]) == (slow, "outlier: slow", good)
    assert outlier["relative"] == pytest.approx(-0.25)
    assert rows(connection, "SELECT * FROM drift") == []
    assert rows(connection, "SELECT n_seeds FROM cells WHERE method = 'control'") == [{"n_seeds": 1}]


def test_a_retimed_control_shows_the_drift_of_the_machine(connection: duckdb.DuckDBPyConnection) -> None:
    early = put(connection, make_run("control"), make_samples(wall=(1.0, 1.0)))
    late = put(
        connection, make_run("control", attempt=1, started_at="2026-01-01T01:00:00"), make_samples(wall=(1.25, 1.25))
    )
    archive(connection, early, "re-timed after 3600 s", late)
    (drift,) = rows(connection, "SELECT * FROM drift")
    assert (drift["run_id"], drift["active_run_id"], drift["drift"]) == (early, late, pytest.approx(-0.2))


def test_the_newest_ok_control_is_the_active_one(connection: duckdb.DuckDBPyConnection) -> None:
    put(connection, make_run("control"), make_samples())
    put(
        connection, make_run("control", attempt=2, started_at="2025-01-01T00:00:00"), make_samples()
    )  # a clock set back
    newest = make_run("control", attempt=3, status="failed")
    put(connection, newest, make_samples())
    (control,) = rows(connection, "SELECT * FROM controls")
    assert control["attempt"] == 2
    changed = put(connection, make_run("control", identity="other", started_at="2026-02-01T00:00:00"), make_samples())
    assert rows(connection, "SELECT run_id FROM controls") == [{"run_id": changed}]


@pytest.mark.parametrize(
    ("control", "why"),
    [
        ({"segments": 2}, "failed, were archived, limited or interrupted"),
        ({"status": "failed"}, "failed, were archived, limited or interrupted"),
        ({"limited": True}, "failed, were archived, limited or interrupted"),
        ({"device_class": "gpu"}, "another device class"),
        ({"sample_digest": "other"}, "other samples"),
        ({"seed": 1}, "no control of this target"),
        ({"generation_length": 128}, "differ in length"),
        ({"target_digest": "other weights"}, "differ in length.*target weights"),
    ],
)
def test_a_method_that_cannot_be_paired_stays_and_says_why(
    connection: duckdb.DuckDBPyConnection, control: dict, why: str
) -> None:
    put(connection, make_run("control") | control, make_samples())
    method = put(connection, make_run("spot"), make_samples())
    (pair,) = rows(connection, "SELECT * FROM paired WHERE method = 'spot'")
    assert [
        pair[name] for name in ("paired", "control_run_id", "throughput_ratio", "nfe_reduction", "tokens_match")
    ] == [False, *[None] * 4]
    (unpaired,) = rows(connection, "SELECT * FROM unpaired")
    assert unpaired["run_id"] == method
    assert re.search(why, unpaired["why"])
    assert rows(connection, "SELECT n_seeds, n_paired, ratio_mean FROM cells WHERE method = 'spot'") == [
        {"n_seeds": 1, "n_paired": 0, "ratio_mean": None}
    ]


def test_other_sample_ids_are_not_paired_whatever_the_digest_says(connection: duckdb.DuckDBPyConnection) -> None:
    put(connection, make_run("control"), make_samples(ids=["a", "b"]))
    put(connection, make_run("spot"), make_samples(ids=["a", "c"]))
    assert rows(connection, "SELECT paired FROM paired WHERE method = 'spot'") == [{"paired": False}]


def test_limited_runs_stay_out_of_the_tables(connection: duckdb.DuckDBPyConnection) -> None:
    put(connection, make_run("control", limited=True), make_samples())
    put(connection, make_run("spot", limited=True), make_samples())
    assert len(rows(connection, "SELECT * FROM paired WHERE limited AND NOT paired")) == 2
    assert [
        rows(connection, f"SELECT * FROM {name}") for name in ("controls", "cells", "main_table", "comparisons")
    ] == [[]] * 4
    put(connection, make_run("control", attempt=1), make_samples())
    assert rows(connection, "SELECT method FROM paired WHERE paired") == [{"method": "control"}]
    assert rows(connection, "SELECT why FROM unpaired") == [{"why": "the run was limited"}]


def test_pooled_and_mean_acceptance_are_told_apart(connection: duckdb.DuckDBPyConnection) -> None:
    # A long weak sample and a short strong one: 14 over 10 rounds pooled, (6/8 + 4) / 2 per sample.
    rounds = make_rounds({"tiny-math/test/0": [1, 0, 1, 1, 1, 0, 1, 1], "tiny-math/test/1": [4, 4]})
    run_id = put(connection, make_run("spot"), make_samples(), rounds)
    (run,) = rows(connection, "SELECT * FROM runs WHERE run_id = ?", [run_id])
    assert run["accepted_per_round_pooled"] == pytest.approx(14 / 10)
    assert run["accepted_per_round_mean"] == pytest.approx((6 / 8 + 4) / 2)
    (main,) = rows(connection, "SELECT * FROM main_table")
    assert main["accepted_per_round"] == pytest.approx(14 / 10)


def test_speed_is_pooled_over_samples(connection: duckdb.DuckDBPyConnection) -> None:
    put(
        connection,
        make_run("control"),
        make_samples(wall=(1.0, 7.0), generated_tokens=[64, 64], answer_tokens=[10, 30]),
    )
    (run,) = rows(connection, "SELECT * FROM runs")
    assert (run["tok_s"], run["answer_tok_s"], run["wall_s"]) == (16.0, 5.0, 8.0)  # the mean of both would be 36.6


def test_comparisons_follow_the_rule(connection: duckdb.DuckDBPyConnection) -> None:
    figures = {
        "spot": (80.0, 82.0, 78.0),
        "spiffy": (100.0, 100.0, 100.0),
        "chain": (97.0, 97.1, 96.9),
        "tree": (60.0, 100.0, 110.0),
    }
    for seed in range(3):
        put(connection, make_run("control", seed), make_samples())
        for method, nfe in figures.items():
            put(
                connection,
                make_run(method, seed),
                make_samples(nfe=(nfe[seed],), wall=(nfe[seed] / 100,), ids=["tiny-math/test/0"]),
            )
    found = {(row["method"], row["other"]): row for row in rows(connection, "SELECT * FROM comparisons")}
    assert len(found) == 12
    spot = found["spot", "spiffy"]
    half = 4.302653 * 2 / math.sqrt(3)
    assert (spot["nfe_percent"], spot["nfe_low"], spot["nfe_high"]) == pytest.approx(
        (-20, -20 - half, -20 + half), abs=1e-4
    )
    assert (spot["nfe_verdict"], found["spiffy", "spot"]["nfe_verdict"]) == ("win", "loss")
    assert found["chain", "spiffy"]["nfe_verdict"] == "tie"  # certain, but 3 % only
    assert found["tree", "spiffy"]["nfe_verdict"] == "tie"  # 10 % on average, but the interval holds zero
    assert spot["throughput_verdict"] == "tie"  # other samples than the control's: no ratio, no verdict


def test_comparison_of_one_seed_is_a_tie(connection: duckdb.DuckDBPyConnection) -> None:
    put(connection, make_run("spot"), make_samples(nfe=(1.0, 1.0)))
    put(connection, make_run("spiffy"), make_samples(nfe=(9.0, 9.0)))
    verdicts = rows(connection, "SELECT nfe_verdict, n_seeds FROM comparisons")
    assert verdicts == [{"nfe_verdict": "tie", "n_seeds": 1}] * 2


def test_acceptance_and_rejects_by_block(connection: duckdb.DuckDBPyConnection) -> None:
    first, second = (make_rounds({"tiny-math/test/0": counts}) for counts in ([3, 1], [5]))
    put(connection, make_run("spot", 0), make_samples(), first)
    put(connection, make_run("spot", 1), make_samples(), second)
    (block,) = rows(connection, "SELECT * FROM acceptance_by_block")
    assert (block["n_seeds"], block["blocks"], block["drafted_rounds"]) == (2, 2, 3)
    assert (block["rounds_per_block"], block["accepted_per_round"], block["position_rejects"]) == (2.5, 3.0, 1.0)


def test_time_is_split_into_draft_forward_and_rest(connection: duckdb.DuckDBPyConnection) -> None:
    put(
        connection,
        make_run("spot"),
        make_samples(nfe=(10.0, 10.0), wall=(1.0, 3.0), draft_s=[0.1, 0.7], forward_s=[0.5, 1.5]),
    )
    (split,) = rows(connection, "SELECT * FROM timing_split")
    shares = [split[name] for name in ("draft_share", "forward_share", "other_share")]
    assert shares == pytest.approx([0.2, 0.5, 0.3])
    assert split["ms_per_round"] == pytest.approx(200)


def test_experiments_that_share_runs_each_have_their_table(tmp_path: Path) -> None:
    def submit(name: str, *runs: dict) -> None:
        store.add_experiment(name, "", "", "", {}, None)
        store.plan_nodes(
            name, [{"identity": run["identity"], "kind": "evaluate", "label": run["method"]} for run in runs]
        )
        for run in runs:
            store.add_run(run | {"experiment": name}, make_samples(nfe=(run.get("forwards", 50.0),), wall=(1.0,)), None)

    def table(name: str) -> dict[str, float]:
        return {
            row["method"]: row["nfe"]
            for row in store.query("SELECT * FROM main_table WHERE experiment = ?", [name]).to_pylist()
        }

    control = make_run("control")
    with Store(tmp_path) as store:
        submit("short", control, make_run("spot", identity="spot-5-epochs", forwards=20.0))
        submit("long", control, make_run("spot", identity="spot-10-epochs", forwards=10.0))
        assert table("short") == {"control": 50.0, "spot": 20.0}
        assert table("long") == {"control": 50.0, "spot": 10.0}
        submit("short", control, make_run("spot", identity="spot-2-epochs", forwards=30.0))
        assert table("short") == {"control": 50.0, "spot": 30.0}  # the plan as it stands, not a mixture
        submit("short", make_run("spot", identity="try", forwards=1.0, limited=True))
        assert table("short") == {"control": 50.0, "spot": 30.0}
