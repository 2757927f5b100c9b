"""The views of the trajectory paper against figures worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from warehouse_for_tests import make_run, make_samples, memory_warehouse, put, rows

from warehouse.columns import BLOCK_SCHEMA, ROUND_SCHEMA

IDS = ("tiny-math/test/0", "tiny-math/test/1")
FAST = {"commit_rule": "threshold:0.9", "cache": "dual", "temperature": 0.0}


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with memory_warehouse() as connection:
        yield connection


def steps(*given: dict[str, Any]) -> pa.Table:
    """Rounds of one sample; the first of a block has no drafts."""
    base = {"sample_id": IDS[0], "block": 0, "drafted": 3, "accepted": 0, "positions": [0], "forward_s": 0.012, "replicas": 4,
            "masked": 8, "certain": 0, "levels": 2, "level": 0}  # fmt: skip
    return pa.Table.from_pylist([{**base, "round": index, **step} for index, step in enumerate(given)], schema=ROUND_SCHEMA)


UNDRAFTED = {"drafted": 0, "replicas": 1, "levels": 0, "forward_s": 0.010}


def trajectory(**changes: Any) -> dict[str, Any]:
    options = {"verifier": "subset-top-1", "budget": 3, "distribution_preserving": False}
    return make_run("trajectory", **(FAST | options | changes))


def put_pair(connection: duckdb.DuckDBPyConnection) -> None:
    """The control takes 40 and 20 forwards, the method 20 and 10; of 4 tokens each, one differs in the first sample."""
    tokens = ([[1, 2, 3, 4], [5, 6, 7, 8]], [[1, 2, 9, 4], [5, 6, 7, 8]])
    control = make_samples(nfe=(40.0, 20.0), wall=(4.0, 2.0), tokens=tokens[0], ids=IDS)
    put(connection, make_run("control", **FAST), control, steps(UNDRAFTED, UNDRAFTED))
    method = make_samples(nfe=(20.0, 10.0), wall=(2.5, 2.5), tokens=tokens[1], ids=IDS, correct=[True, False])
    rounds = steps(
        UNDRAFTED | {"certain": 1},
        {"certain": 2, "level": 2, "accepted": 2},
        {"certain": 3, "level": 1, "accepted": 1},
        {"certain": 0, "levels": 1, "level": 1, "accepted": 1, "drafted": 1, "replicas": 2, "forward_s": 0.011},
        {"certain": 5, "ahead_drafted": 2, "ahead_accepted": 1, "ahead_positions": [32, 40, 35]},
    )
    blocks = pa.Table.from_pylist(
        [{"sample_id": IDS[0], "block": 0, "doubtful": 6, "doubtful_covered": [3, 4, 4, 5, 5, 5, 5, 6]},
         {"sample_id": IDS[0], "block": 1, "doubtful": 4, "doubtful_covered": [1, 1, 3, 3, 3, 3, 3, 3]}],
        schema=BLOCK_SCHEMA,
    )  # fmt: skip
    put(connection, trajectory(), method, rounds, blocks)


def metrics(connection: duckdb.DuckDBPyConnection) -> dict[str, dict[str, Any]]:
    return {row["setting"]: row for row in rows(connection, "SELECT * FROM trajectory_metrics")}


def test_steps_and_tokens_per_step_are_pooled(connection: duckdb.DuckDBPyConnection) -> None:
    put_pair(connection)
    found = metrics(connection)
    assert set(found) == {"fast-dllm, cache dual", "trajectory"}
    row, control = found["trajectory"], found["fast-dllm, cache dual"]
    assert (row["steps"], row["step_change"], control["steps"], control["step_change"]) == (15, -0.5, 30, 0)
    assert (row["tokens_per_step"], row["control_tokens_per_step"]) == (128 / 30, 128 / 60)
    assert row["answer_tokens_per_step"] == 64 / 15
    assert (row["tok_s"], row["tps_ratio"], row["latency_s"]) == (128 / 5, pytest.approx(6 / 5), 2.5)
    assert row["latency_change"] == pytest.approx(-1 / 6) and row["ms_per_step"] == pytest.approx(5000 / 30)
    assert (row["draft_share"], row["draft_overhead"]) == (pytest.approx(0.1), pytest.approx(0.2))


def test_drift_counts_samples_and_tokens(connection: duckdb.DuckDBPyConnection) -> None:
    put_pair(connection)
    row, control = metrics(connection)["trajectory"], metrics(connection)["fast-dllm, cache dual"]
    assert (row["drifted_samples"], row["drifted_tokens"], row["accuracy_change"]) == (0.5, 1 / 8, -0.5)
    assert (control["drifted_samples"], control["drifted_tokens"], control["accuracy_change"]) == (0, 0, 0)


def test_degeneration_doubt_and_acceptance_by_level(connection: duckdb.DuckDBPyConnection) -> None:
    put_pair(connection)
    row = metrics(connection)["trajectory"]
    assert [row[n] for n in ("none_certain", "fewer_than_2", "fewer_than_3", "fewer_than_4")] == [1 / 5, 2 / 5, 3 / 5, 4 / 5]
    assert row["doubtful"] == 10
    assert [row[f"true_in_top_{k}"] for k in (1, 2, 3, 5, 8)] == [0.4, 0.5, 0.7, 0.8, 0.9]
    # Four rounds offered a first level and three took it; of these, two offered a second and one took that.
    assert (row["alpha_1"], row["alpha_2"], row["accepted_per_round"]) == (3 / 4, 1 / 2, 1.0)
    assert (row["ahead_share"], row["ahead_per_step"]) == (1 / 5, 3 / 5)
    assert (row["most_drafts"], row["distribution_preserving"]) == (3, False)
    assert metrics(connection)["fast-dllm, cache dual"]["alpha_1"] is None


def test_speedup_is_over_vanilla_decoding_of_the_same_experiment(connection: duckdb.DuckDBPyConnection) -> None:
    put_pair(connection)
    vanilla = {"cache": "none", "commit_rule": "single", "temperature": 0.0}
    put(connection, make_run("control", identity="v", **vanilla), make_samples(nfe=(64.0, 64.0), wall=(8.0, 8.0), ids=IDS))
    put(connection, make_run("control", identity="o", experiment="other", **vanilla), make_samples(wall=(0.1, 0.1), ids=IDS))
    found = {r["setting"]: r for r in rows(connection, "SELECT * FROM trajectory_table_02 WHERE experiment = 'main'")}
    assert found["vanilla"]["speedup"] == 1
    assert (found["trajectory"]["speedup"], found["trajectory"]["step_speedup"]) == (pytest.approx(16 / 5), 64 / 15)
    assert found["fast-dllm, cache dual"]["speedup"] == pytest.approx(16 / 6)
    assert found["trajectory"]["speedup_over_control"] == pytest.approx(6 / 5)
    assert "vanilla" not in {r["setting"] for r in rows(connection, "SELECT setting FROM trajectory_table_04")}


def test_a_forward_costs_by_its_drafts(connection: duckdb.DuckDBPyConnection) -> None:
    """12 ms with three drafts and 11 with one, against 10 without; first forwards of blocks do not count."""
    put_pair(connection)
    found = {row["drafts"]: row for row in rows(connection, "SELECT * FROM trajectory_figure_5")}
    assert {drafts: row["rounds"] for drafts, row in found.items()} == {1: 1, 3: 3}
    assert (found[3]["forward_ms"], found[3]["overhead"]) == (pytest.approx(12), pytest.approx(0.2))
    assert (found[1]["overhead"], found[1]["step_change"]) == (pytest.approx(0.1), -0.5)


@pytest.mark.parametrize(
    ("options", "shape", "inter_blocks"),
    [({}, "W2D2", 0), ({"width": 3, "depth": 3}, "W3D3", 0), ({"variant": "full", "inter_blocks": 2}, "W2D2 full", 2)],
)
def test_the_shape_is_that_of_the_plan(connection, options, shape, inter_blocks) -> None:
    connection.execute(
        """INSERT INTO node_plans (seq, experiment, plan, identity, kind, label, params)
           VALUES (1, 'main', 1, 'x', 'evaluate', 'x', json_object('params', json_object('drafter_options', ?::JSON)))""",
        [str(options).replace("'", '"')],
    )
    put(connection, trajectory(identity="x"), make_samples(ids=IDS))
    (row,) = rows(connection, "SELECT * FROM trajectory_metrics")
    assert (row["shape"], row["inter_blocks"]) == (shape, inter_blocks)


def test_runs_that_check_logits_are_in_table_10_alone(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        """INSERT INTO node_plans (seq, experiment, plan, identity, kind, label, params) VALUES
           (1, 'main', 1, 'x', 'evaluate', 'x', '{"params": {"drafter_options": {}, "check_logits": true}}')"""
    )
    put(connection, trajectory(identity="x"), make_samples(ids=IDS), steps({}))
    for view, count in (("table_10", 1), ("table_02", 0), ("table_04", 0), ("table_05", 0), ("figure_5", 0)):
        assert len(rows(connection, f"SELECT * FROM trajectory_{view}")) == count


def test_exactness_is_of_samples_tokens_and_logits(connection: duckdb.DuckDBPyConnection) -> None:
    put_pair(connection)
    put(connection, trajectory(identity="e", verifier="greedy"), make_samples(tokens=[[1, 2, 3, 4], [5, 6, 7, 8]], ids=IDS),
        steps({"logit_error": 0.0}, {"logit_error": 0.25}, {"logit_error": 0.0}, {}))  # fmt: skip
    found = {row["verifier"]: row for row in rows(connection, "SELECT * FROM trajectory_table_10")}
    lossy, exact = found["subset-top-1"], found["greedy"]
    assert (lossy["token_match"], lossy["token_share"], lossy["exact"]) == (0.5, 7 / 8, False)
    assert (lossy["checked_rounds"], lossy["logit_error"]) == (0, None)
    assert (exact["token_match"], exact["exact"], exact["checked_rounds"]) == (1, True, 3)
    assert (exact["logit_error"], exact["logits_equal"]) == (0.25, 2 / 3)


def test_levels_are_fifths_of_the_samples_by_the_controls_forwards(connection: duckdb.DuckDBPyConnection) -> None:
    """Ten samples, hardest first; the method is wrong on the two hardest and halves the forwards of the two easiest."""
    ids, nfe = [f"s{index}" for index in range(10)], [float(100 - 10 * index) for index in range(10)]
    put(connection, make_run("control", **FAST), make_samples(nfe=nfe, wall=[1.0] * 10, ids=ids))
    half = [*nfe[:8], *(value / 2 for value in nfe[8:])]
    correct = [False, False, *[True] * 8]
    put(connection, trajectory(), make_samples(nfe=half, wall=[1.0] * 10, ids=ids, correct=correct))
    found = {row["level"]: row for row in rows(connection, "SELECT * FROM trajectory_table_11")}
    assert set(found) == {1, 2, 3, 4, 5, None} and found[None]["n_samples"] == 10 and found[5]["n_samples"] == 2
    assert [found[level]["accuracy"] for level in (1, 2, 3, 4, 5, None)] == [1, 1, 1, 1, 0, 0.8]
    assert (found[5]["accuracy_change"], found[1]["step_change"], found[5]["step_change"]) == (-1, -0.5, 0)
    assert (found[5]["control_steps"], found[5]["control_steps_per_token"]) == (95, 95 / 2 / 32)
