"""The views of the SPOT paper's tables and figures on hand-made runs, against figures worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from warehouse_for_tests import TABLES, make_run, make_samples, memory_warehouse, put, rows

OPTIONS = {"shape": "tree", "hedge": 2, "tau": 1.0}
TRAINING = {"layers": 2, "width": 64, "d_max": 16}


@pytest.fixture(scope="module")
def warehouse() -> Iterator[duckdb.DuckDBPyConnection]:
    with memory_warehouse() as connection:
        yield connection


@pytest.fixture
def connection(warehouse: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty warehouse; it is emptied again, as making all views takes longer than any test."""
    yield warehouse
    for table in TABLES:
        warehouse.execute(f"DELETE FROM {table}")


def plan(
    connection: duckdb.DuckDBPyConnection, identity: str, kind: str, summary: dict | None = None, **told: Any
) -> str:
    """A node of the experiment `main` with what its identity was made of; `done` where it has a summary."""
    connection.execute(
        "INSERT INTO node_plans SELECT coalesce(max(seq), 0) + 1, now()::TIMESTAMP, 'main', 1, ?, ?, ?, [], ? "
        "FROM node_plans",
        [identity, kind, f"{kind}/{identity}", json.dumps(told)],
    )
    if summary is not None:
        connection.execute(
            "INSERT INTO node_states SELECT coalesce(max(seq), 0) + 1, now()::TIMESTAMP, 'main', ?, 'done', NULL, NULL, "
            "? FROM node_states",
            [identity, json.dumps(summary)],
        )
    return identity


def model(
    connection: duckdb.DuckDBPyConnection, name: str, prompts: int = 400, block: int = 32, **training: Any
) -> str:
    """An order model trained on trajectories of the target `key` at this block length."""
    pools = [{"count": prompts - 1}, {"count": 1}]
    shard = plan(connection, f"{name}-shard", "collect", target="key", params={"block_length": block, "pools": pools})
    summary = {"parameters": 1000, "accuracy": 0.75, "baseline": 0.25}
    return plan(connection, name, "train", summary, params=TRAINING | training, upstream={"shards": [shard]})


def decode(
    connection: duckdb.DuckDBPyConnection,
    method: str = "spot",
    nfe: float = 20.0,
    wall: float = 1.0,
    *,
    made: str | None = None,
    options: dict[str, Any] | None = None,
    **cell: Any,
) -> None:
    """A run of one sample of 64 tokens at T=0, and its node; `made` is the model behind it."""
    settings = {"drafter": "none" if method == "control" else "spot", "temperature": 0.0, "sample_digest": "d", **cell}
    if method != "control":
        settings = {"verifier": "greedy" if settings["temperature"] == 0 else "coupled", **settings}
    identity = f"{method}-{'-'.join(map(str, settings.values()))}-{nfe}"
    run = make_run(method, identity=identity, **settings)
    role = "spiffy" if run["drafter"] == "spiffy" else "order_model"
    plan(
        connection,
        identity,
        "evaluate",
        target="key",
        params={"drafter_options": OPTIONS | (options or {}), "block_length": run["block_length"]},
        upstream={role: made} if made else {},
    )
    put(connection, run, make_samples(nfe=(nfe,), wall=(wall,)))


def found(connection: duckdb.DuckDBPyConnection, view: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows(connection, f"SELECT * FROM {view}")]


def test_what_a_method_drafts_with(connection: duckdb.DuckDBPyConnection) -> None:
    decode(connection, made=model(connection, "m"))
    decode(connection, "other", made=model(connection, "n", prompts=100, block=16), options={"hedge": 4})
    names = ("method", "shape", "hedge", "layers", "prompts", "made_on", "made_on_block_length", "native")
    assert sorted(found(connection, "method_cells", *names)) == [
        ("other", "tree", 4, 2, 100, "tiny", 16, False),
        ("spot", "tree", 2, 2, 400, "tiny", 32, True),
    ]


def test_main_comparison_leaves_out_variants_and_other_temperatures(connection: duckdb.DuckDBPyConnection) -> None:
    m = model(connection, "m")
    decode(connection, "control", 60)
    decode(connection, nfe=20, wall=0.5, made=m)
    decode(connection, "spot-chain", made=m, options={"shape": "chain"})
    decode(connection, temperature=0.5, made=m)
    decode(connection, temperature=1.0, verifier="uncoupled", made=m)
    decode(connection, "chain", temperature=1.0, drafter="chain", verifier="rejection")
    names = ("method", "temperature", "nfe", "nfe_reduction", "ratio", "answer_reduction")
    assert found(connection, "spot_table_02", *names) == [
        ("control", 0.0, 60.0, 1.0, 1.0, 1.0),
        ("spot", 0.0, 20.0, 3.0, 2.0, 3.0),
        ("chain", 1.0, 20.0, None, None, None),
    ]


def test_temperature_sweep_puts_the_verifiers_side_by_side(connection: duckdb.DuckDBPyConnection) -> None:
    m = model(connection, "m")
    for temperature, coupled in ((0.5, 10.0), (2.0, 40.0)):
        decode(connection, "control", 80, temperature=temperature)
        for verifier, more in (("coupled", 0), ("uncoupled", 5), ("greedy", -2)):
            decode(connection, nfe=coupled + more, temperature=temperature, verifier=verifier, made=m)
        decode(connection, "tree", coupled, drafter="tree", temperature=temperature)
    decode(connection, nfe=7, temperature=1.0, budget=20, made=m)
    names = ("method", "temperature", "target_nfe", "coupled_nfe", "uncoupled_nfe", "greedy_nfe", "coupled_ratio")
    spot = [("spot", 0.5, 80.0, 10.0, 15.0, 8.0, 1.0), ("spot", 2.0, 80.0, 40.0, 45.0, 38.0, 1.0)]
    tree = [("tree", 0.5, 80.0, 10.0, None, None, 1.0), ("tree", 2.0, 80.0, 40.0, None, None, 1.0)]
    assert sorted(found(connection, "spot_table_21", *names)) == spot + tree
    assert found(connection, "spot_table_01", *names) == spot


def test_transfer_compares_with_the_native_drafter(connection: duckdb.DuckDBPyConnection) -> None:
    decode(connection, nfe=20, made=model(connection, "m"))
    decode(connection, task="tiny-code", made="m")
    assert found(connection, "spot_table_03", "method") == []
    decode(connection, "from-b16", 25, made=model(connection, "n", block=16))
    names = ("method", "made_on_block_length", "native", "over_native_percent")
    assert found(connection, "spot_table_03", *names) == [("spot", 32, True, 0.0), ("from-b16", 16, False, 25.0)]


def test_floor_grid_is_read_from_the_calibration(connection: duckdb.DuckDBPyConnection) -> None:
    summary = {"floor": 0.1, "mean_ratio": {"0.0": 1.5, "0.1": 2.5}, "tie_band": 0.03, "samples": 50}
    summary["cost"] = "measured"
    plan(connection, "f", "calibrate-floor", summary, params={"block_length": 32, "budgets": [8, 20]})
    names = ("floor", "mean_ratio", "chosen", "tie_band", "budgets", "n_samples", "judged")
    assert found(connection, "spot_table_04", *names) == [
        (0.0, 1.5, False, 0.03, [8, 20], 50, "clock"),
        (0.1, 2.5, True, 0.03, [8, 20], 50, "clock"),
    ]


def test_published_speedups_stand_beside_spot_at_d8(connection: duckdb.DuckDBPyConnection) -> None:
    m = model(connection, "m")
    decode(connection, "control", 60)
    for budget, padded in ((8, True), (8, False), (20, True)):
        decode(connection, nfe=20, wall=0.25, budget=budget, padded=padded, made=m)
    names = ("budget", "padded", "ratio", "mrp_low", "mrp_high")
    assert found(connection, "spot_table_05", *names) == [(8, True, 4.0, 1.17, 1.4)]


def test_properties_of_drafters(connection: duckdb.DuckDBPyConnection) -> None:
    check = {"check": "acceptance", "proposal": "stale", "states": 1, "draws": 2, "statistic": 0.0, "passed": True}
    checks = [check, check | {"passed": False}]
    plan(connection, "c", "check-rejection", {"verifier": "rejection", "temperature": 1.0, "checks": checks})
    decode(connection, "control", 60)
    decode(connection, made=model(connection, "m"))
    decode(connection, "chain", drafter="chain", temperature=1.0, verifier="rejection")
    names = ("method", "learns_order", "above_zero", "tokens_match_min", "checks_passed", "checks_made")
    assert found(connection, "spot_table_06", *names) == [
        ("chain", False, True, None, 1, 2),
        ("spot", True, False, 1.0, None, None),
    ]


def test_oracle_grid_and_its_peaks(connection: duckdb.DuckDBPyConnection) -> None:
    decode(connection, "control", 60)
    decode(connection, nfe=30, wall=0.8, made=model(connection, "m"))
    for budget, nfe, wall in ((8, 10, 0.25), (20, 6, 0.5)):
        decode(connection, "oracle-joint", nfe, wall, drafter="oracle-joint", budget=budget)
    names = ("budget", "control_nfe", "control_tok_s", "nfe", "ratio", "best_nfe", "best_ratio")
    assert found(connection, "spot_table_07", *names) == [
        (8, 60.0, 64.0, 10.0, 4.0, False, True),
        (20, 60.0, 64.0, 6.0, 2.0, True, False),
    ]
    names = ("method", "ratio", "budget", "nfe_reduction", "spot_ratio", "spot_nfe_reduction")
    assert found(connection, "spot_figure_2a", *names) == [("oracle-joint", 4.0, 8, 10.0, 1.25, 2.0)]


def test_tuned_drafters_are_told_by_their_training(connection: duckdb.DuckDBPyConnection) -> None:
    decode(connection, nfe=20, made=model(connection, "m"))
    decode(connection, "tuned", 23, made=model(connection, "n", d_max=24))
    decode(connection, "larger", 10, made=model(connection, "o", layers=3))
    decode(connection, "fewer", 10, made=model(connection, "p", prompts=10, d_max=24))
    assert found(connection, "spot_table_15", "method", "tuned", "nfe_saved") == [
        ("spot", False, 3.0),
        ("tuned", True, None),
    ]


def test_generation_lengths_stand_beside_spiffy(connection: duckdb.DuckDBPyConnection) -> None:
    m = model(connection, "m")
    for length, nfe in ((64, 9.0), (256, 30.0)):
        decode(connection, nfe=nfe, temperature=1.0, generation_length=length, made=m)
        decode(connection, "spiffy", nfe + 3, drafter="spiffy", temperature=1.0, generation_length=length)
    decode(connection, nfe=5, temperature=1.0, budget=20, made=m)
    names = ("method", "generation_length", "over_spiffy_percent")
    assert found(connection, "spot_table_16", *names) == [
        ("spiffy", 64, 0.0),
        ("spiffy", 256, 0.0),
        ("spot", 64, -25.0),
        ("spot", 256, pytest.approx(-100 / 11)),
    ]


def test_ablations_name_what_differs_from_spot(connection: duckdb.DuckDBPyConnection) -> None:
    m = model(connection, "m")
    decode(connection, nfe=20, padded=True, made=m)
    decode(connection, nfe=21, padded=False, made=m)
    decode(connection, "spot-chain", 27, padded=True, made=m, options={"shape": "chain"})
    decode(connection, "both", 29, padded=True, made=m, options={"hedge": 1, "tau": 2.0})
    decode(connection, "spot-gamma", 24, padded=False, floor=0.1, made=m)
    decode(connection, "small", 22, padded=True, made=model(connection, "n", prompts=100))
    decode(connection, "larger", 10, padded=True, made=model(connection, "o", layers=3))
    decode(connection, nfe=15, budget=20, padded=True, made=m)
    assert sorted(found(connection, "spot_table_17", "component", "method", "nfe_added")) == [
        ("chain", "spot-chain", 7.0),
        ("corpus", "small", 2.0),
        ("floor", "spot-gamma", 3.0),
        ("hedge, tau", "both", 9.0),
        ("padding", "spot", 1.0),
        ("recipe", "spot", 0.0),
    ]


def test_budget_response_marks_its_optimum(connection: duckdb.DuckDBPyConnection) -> None:
    m = model(connection, "m")
    decode(connection, "control", 60)
    for budget, nfe, wall in ((2, 40, 0.5), (8, 20, 0.4), (20, 15, 0.9)):
        decode(connection, nfe=nfe, wall=wall, budget=budget, padded=True, made=m)
    decode(connection, nfe=21, wall=0.3, budget=8, made=m)
    decode(connection, "chain", 30, drafter="chain")
    expected = [(2, 40.0, False), (8, 20.0, True), (20, 15.0, False)]
    assert found(connection, "spot_table_20", "budget", "nfe", "optimum") == expected
    curves = [("chain", 8, False), ("spot", 2, True), ("spot", 8, True), ("spot", 20, True)]
    assert found(connection, "spot_figure_3", "method", "budget", "padded") == curves


def test_verifier_and_structure(connection: duckdb.DuckDBPyConnection) -> None:
    m = model(connection, "m")
    decode(connection, nfe=20, temperature=1.0, made=m)
    assert found(connection, "spot_table_22", "shape") == []
    for verifier, nfe in (("coupled", 32.0), ("rejection", 29.0)):
        decode(connection, "spot-chain", nfe, temperature=1.0, verifier=verifier, made=m, options={"shape": "chain"})
    assert found(connection, "spot_table_22", "shape", "verifier", "over_tree", "over_coupled") == [
        ("tree", "coupled", 0.0, 0.0),
        ("chain", "coupled", 12.0, 0.0),
        ("chain", "rejection", None, -3.0),
    ]


def test_sizes_of_order_models(connection: duckdb.DuckDBPyConnection) -> None:
    decode(connection, nfe=20, made=model(connection, "m"))
    decode(connection, "larger", 19, made=model(connection, "o", layers=3))
    decode(connection, "tuned", 10, made=model(connection, "n", d_max=24))
    decode(connection, "hedged", 10, made="m", options={"hedge": 4})
    names = ("method", "layers", "parameters", "accuracy", "nfe")
    assert sorted(found(connection, "capacity_probe", *names)) == [
        ("larger", 3, 1000, 0.75, 19.0),
        ("spot", 2, 1000, 0.75, 20.0),
    ]


def test_spiffy_that_knows_the_noise(connection: duckdb.DuckDBPyConnection) -> None:
    params = {"block_length": 32, "pools": [{"count": 5}]}
    graph = plan(connection, "g", "calibrate-spiffy", target="key", params=params)
    decode(connection, "spiffy", 40, drafter="spiffy", temperature=2.0, made=graph)
    assert found(connection, "noise_aware_spiffy", "method") == []
    decode(connection, "spiffy-draw", 30, drafter="spiffy", temperature=2.0, made=graph, options={"rank_by": "draw"})
    names = ("method", "rank_by", "over_spiffy_percent")
    assert found(connection, "noise_aware_spiffy", *names) == [
        ("spiffy", "confidence", 0.0),
        ("spiffy-draw", "draw", -25.0),
    ]


def test_blocks_masses_and_rejections_are_those_of_the_largest_budget(connection: duckdb.DuckDBPyConnection) -> None:
    for budget, accepted in ((8, 1), (20, 3)):
        run = make_run("spot", temperature=0.0, verifier="greedy", budget=budget)
        sample = {"sample_id": "tiny-math/test/0", "block": 0}
        ranked = sample | {"true_order_rank": 0}
        rounds = [
            ranked | {"round": 0, "drafted": 0, "accepted": 0, "positions": [1], "reject_cause": None},
            ranked | {"round": 1, "drafted": 4, "accepted": accepted, "positions": [2], "reject_cause": "budget"},
        ]
        blocks = [
            sample
            | {"commits": 4, "compared": 4, "steps_compared": 4}
            | {"roots_compared": 4, "root_token": 4, "root_position": 2}
            | {"mass_drafted": [4] + [0] * 9, "mass_accepted": [accepted] + [0] * 9, "mass_sum": [0.2] + [0.0] * 9}
        ]
        samples = make_samples(nfe=(2.0,), wall=(1.0,))
        put(connection, run, samples, pa.Table.from_pylist(rounds), pa.Table.from_pylist(blocks))
    names = ("budget", "block", "position_share", "token_share", "accepted_per_round")
    assert found(connection, "spot_figure_4", *names) == [(20, 0, 0.5, 1.0, 3.0)]
    names = ("budget", "bin", "drafted", "mass", "acceptance")
    assert found(connection, "spot_figure_5a", *names) == [(20, 1, 4, 0.05, 0.75)]
    assert found(connection, "spot_figure_5b", "budget", "block", "budget_share") == [(20, None, 1.0), (20, 0, 1.0)]


def test_stale_coverage_is_that_of_the_control_at_zero(connection: duckdb.DuckDBPyConnection) -> None:
    lists = {name: [4] + [0] * 7 for name in ("coverage_roots", "covered_2", "covered_4", "covered_8")}
    lists |= {"covered_1": [3] + [0] * 7, "covered_positions": [1] + [0] * 7}
    blocks = pa.Table.from_pylist([{"sample_id": "tiny-math/test/0", "block": 0, **lists}])
    for method, temperature in (("control", 0.0), ("control", 1.0), ("spot", 0.0)):
        samples = make_samples(nfe=(2.0,), wall=(1.0,))
        put(connection, make_run(method, temperature=temperature), samples, blocks=blocks)
    names = ("temperature", "steps", "roots", "tokens_1", "tokens_8", "positions")
    assert found(connection, "spot_figure_2b", *names) == [(0.0, 1, 4, 0.75, 1.0, 0.25)]
