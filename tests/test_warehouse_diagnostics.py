"""The views over blocks, rejections, stopping and time against figures worked out by hand, and intervals against SciPy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from warehouse_for_tests import archive, make_run, make_samples, memory_warehouse, put, rows

from warehouse import Store, rebuild
from warehouse.columns import BLOCK_SCHEMA


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with memory_warehouse() as connection:
        yield connection


def by_steps(*values: int) -> list[int]:
    return [*values, *[0] * (8 - len(values))]


def by_bin(**values: float) -> list[float]:
    return [values.get(f"b{bin}", 0) for bin in range(1, 11)]


def make_blocks(*changes: dict[str, Any]) -> pa.Table:
    block: dict[str, Any] = {
        "sample_id": "tiny-math/test/0", "block": 0, "commits": 10, "compared": 8, "stale_token": 8, "stale_position": 8,
        "exact_ties": 0, "near_ties": 0, "steps_compared": 8, "roots_compared": 4, "root_token": 4, "root_position": 4,
        "argmax": 10, "probability": 10.0, "mass_drafted": by_bin(), "mass_accepted": by_bin(), "mass_sum": by_bin(),
        **{name: by_steps() for name in ("coverage_roots", "covered_1", "covered_2", "covered_4", "covered_8")},
        "covered_positions": by_steps(),
    }  # fmt: skip
    return pa.Table.from_pylist([block | change for change in changes], schema=BLOCK_SCHEMA)


def test_stale_order_is_pooled_over_samples_and_seeds_by_block(connection: duckdb.DuckDBPyConnection) -> None:
    first = make_blocks(
        {"compared": 10, "stale_token": 9, "steps_compared": 5, "stale_position": 4, "exact_ties": 3, "near_ties": 5},
        {"block": 1, "roots_compared": 8, "root_token": 6, "root_position": 2},
    )
    second = make_blocks({"compared": 20, "stale_token": 12, "steps_compared": 20, "stale_position": 1})
    put(connection, make_run("spot", 0), make_samples(), blocks=first)
    put(connection, make_run("spot", 1), make_samples(), blocks=second)
    found = rows(connection, "SELECT * FROM stale_order_by_block ORDER BY block")
    assert [(row["block"], row["n_seeds"], row["blocks"], row["compared"]) for row in found] == [(0, 2, 2, 30), (1, 1, 1, 8)]
    assert (found[0]["token_share"], found[0]["position_share"]) == (21 / 30, 5 / 25)
    assert (found[0]["exact_tie_share"], found[0]["near_tie_share"]) == (3 / 20, 5 / 20)
    assert (found[1]["root_token_share"], found[1]["root_position_share"]) == (6 / 8, 2 / 8)


def test_stale_coverage_by_steps(connection: duckdb.DuckDBPyConnection) -> None:
    blocks = make_blocks(
        {"coverage_roots": by_steps(3, 2), "covered_1": by_steps(2, 1), "covered_8": by_steps(3, 2)},
        {"block": 1, "coverage_roots": by_steps(5, 2), "covered_2": by_steps(4), "covered_positions": by_steps(1, 2)},
    )
    put(connection, make_run("control"), make_samples(), blocks=blocks)
    found = rows(connection, "SELECT * FROM stale_coverage ORDER BY steps")
    assert [(row["steps"], row["roots"]) for row in found] == [(1, 8), (2, 4)]
    shares = [[row[f"tokens_{t}"] for t in (1, 2, 4, 8)] + [row["positions"]] for row in found]
    assert shares == [[2 / 8, 4 / 8, 0, 3 / 8, 1 / 8], [1 / 4, 0, 0, 2 / 4, 2 / 4]]


def test_first_rejections_by_block_and_in_all(connection: duckdb.DuckDBPyConnection) -> None:
    causes = [(0, None, None, None), (0, "position", 3, 0), (0, "position", 1, 0), (0, "token", 0, 2), (1, "budget", 0, 0)]
    causes += [(2, "budget", 4, 0)]  # recorded before drafters said how they rank positions
    rounds = pa.table(
        {
            "sample_id": ["tiny-math/test/0"] * 6,
            "block": [block for block, *_ in causes],
            "round": [0, 1, 2, 3, 1, 1],
            "drafted": [0 if cause is None else 8 for _, cause, *_ in causes],
            "reject_cause": pa.array([cause for _, cause, *_ in causes], pa.string()),
            "true_position_rank": pa.array([rank for *_, rank, _ in causes], pa.int32()),
            "true_order_rank": pa.array([None, 5, 2, 0, 0, None], pa.int32()),
            "true_token_rank": pa.array([rank for *_, rank in causes], pa.int32()),
        }
    )
    put(connection, make_run("spot"), make_samples(), rounds)
    found = {row["block"]: row for row in rows(connection, "SELECT * FROM first_rejections")}
    shares = {b: [row[f"{c}_share"] for c in ("position", "token", "budget")] for b, row in found.items()}
    assert shares == {None: [0.5, 0.25, 0.25], 0: [2 / 3, 1 / 3, 0], 1: [0, 0, 1]}
    assert (found[None]["rejections"], found[None]["position_rank"], found[None]["token_rank"]) == (4, 1.0, 0.5)
    assert (found[0]["order_rank"], found[None]["order_first_share"]) == (7 / 3, 0.5)
    assert (found[None]["position_first_share"], found[0]["token_first_share"]) == (0.5, 2 / 3)


def test_acceptance_by_bin_of_mass(connection: duckdb.DuckDBPyConnection) -> None:
    masses = {"mass_drafted": by_bin(b1=10, b10=4), "mass_accepted": by_bin(b10=3), "mass_sum": by_bin(b1=0.5, b10=3.9)}
    more = {"block": 1, "mass_drafted": by_bin(b1=10), "mass_accepted": by_bin(b1=1), "mass_sum": by_bin(b1=0.1)}
    put(connection, make_run("spot"), make_samples(), blocks=make_blocks(masses, more))
    low, high = rows(connection, "SELECT * FROM acceptance_calibration ORDER BY bin")
    assert (low["bin"], low["mass_low"], low["mass_high"], low["drafted"], low["accepted"]) == (1, 0.0, 0.1, 20, 1)
    assert (low["mass"], low["acceptance"]) == (pytest.approx(0.03), 0.05)
    assert (high["bin"], high["mass"], high["acceptance"]) == (10, pytest.approx(0.975), 0.75)


def test_a_lossy_method_drifts_from_its_control(connection: duckdb.DuckDBPyConnection) -> None:
    for seed in (0, 1):
        control = make_blocks({"commits": 20, "argmax": 15 + seed, "probability": 12.0})
        greedy = make_blocks({"commits": 10, "argmax": 10, "probability": 9.0}, {"commits": 10, "argmax": 9, "block": 1})
        put(connection, make_run("control", seed), make_samples(correct=[True, False]), blocks=control)
        run = make_run("spot", seed, verifier="greedy", distribution_preserving=False)
        put(connection, run, make_samples(), blocks=greedy)
    control, greedy = rows(connection, "SELECT * FROM temperature_sweep")
    assert (control["method"], control["argmax_fraction"], control["argmax_drift"]) == ("control", 15.5 / 20, 0)
    assert (greedy["argmax_fraction"], greedy["committed_probability"]) == (19 / 20, 19 / 20)
    assert (greedy["argmax_drift"], greedy["probability_drift"]) == (pytest.approx(3.5 / 20), pytest.approx(7 / 20))
    assert (greedy["accuracy_drift"], greedy["distribution_preserving"]) == (0.5, False)


def test_how_much_of_a_gain_is_filler(connection: duckdb.DuckDBPyConnection) -> None:
    """fill: 100 forwards become 40, of which 60 become 30 before the stop id; eos: 60 become 30."""
    for stop, control, method in (("fill", (100.0, 60.0), (40.0, 30.0)), ("eos", (60.0, 60.0), (30.0, 30.0))):
        for name, (nfe, answer), wall in (("control", control, 2.0), ("spot", method, 1.0 if stop == "fill" else 1.6)):
            run = make_run(name, stop=stop, identity=f"{name}-{stop}")
            put(connection, run, make_samples(nfe=(nfe,), wall=(wall,), nfe_answer=[answer]))
    (row,) = rows(connection, "SELECT * FROM stopping")
    assert (row["nfe_reduction"], row["answer_reduction"], row["eos_nfe_reduction"]) == (2.5, 2.0, 2.0)
    assert (row["cut"], row["cut_filler"], row["filler_share"]) == (60, 30, 0.5)
    assert (row["ratio"], row["eos_ratio"]) == (2.0, 1.25)


def test_control_drift_follows_the_timings_of_one_key(connection: duckdb.DuckDBPyConnection) -> None:
    for attempt, (hour, wall) in enumerate([(0, 1.0), (1, 1.25), (3, 0.8)]):
        run = make_run("control", 0, attempt, started_at=f"2026-01-01T0{hour}:00:00")
        put(connection, run, make_samples(nfe=(9.0,), wall=(wall,)))
        if attempt < 2:
            archive(connection, run["run_id"], "re-timed")
    put(connection, make_run("control", 1), make_samples(nfe=(9.0,), wall=(4.0,)))
    found = rows(connection, "SELECT * FROM control_drift WHERE seed = 0 ORDER BY timing")
    assert [(row["timing"], row["n_timings"], row["minutes"]) for row in found] == [(1, 3, 0), (2, 3, 60), (3, 3, 180)]
    assert [row["relative"] for row in found] == pytest.approx([0, -0.2, 0.25])
    assert [row["spread"] for row in found] == pytest.approx([1.25 / 0.8 - 1] * 3)
    assert [row["status"] for row in found] == ["archived", "archived", "ok"]


def test_intervals_agree_with_scipys_paired_bootstrap(connection: duckdb.DuckDBPyConnection) -> None:
    """Seconds and forwards of each sample, summed over two seeds; tokens are the same on both sides."""
    random, n = np.random.default_rng(0), 40
    seconds = {name: np.zeros(n) for name in ("control", "spot", "tree")}
    forwards = {name: np.zeros(n) for name in seconds}
    for seed in (0, 1):
        hard = random.uniform(1, 3, n)
        for name, factor in (("control", 2.0), ("spot", 1.0), ("tree", 1.1)):
            wall, nfe = hard * factor * random.uniform(0.7, 1.3, n), np.round(hard * factor * random.uniform(8, 12, n))
            ids = [f"tiny-math/test/{i:03}" for i in range(n)]
            put(connection, make_run(name, seed), make_samples(nfe=list(nfe), wall=list(wall), ids=ids))
            seconds[name] += wall
            forwards[name] += nfe
    found = {(row["method"], row["other"]): row for row in rows(connection, "SELECT * FROM ratio_intervals")}
    assert set(found) == {("spot", "control"), ("tree", "control"), ("spot", "tree"), ("tree", "spot")}

    def low_high(own: np.ndarray, other: np.ndarray, statistic: Any) -> Any:
        options = {"paired": True, "method": "percentile", "n_resamples": 20_000, "vectorized": True}
        return stats.bootstrap((own, other), statistic, rng=np.random.default_rng(1), **options).confidence_interval

    for (method, other), row in found.items():
        interval = low_high(seconds[other], seconds[method], lambda a, b, axis: a.sum(axis) / b.sum(axis))
        assert row["ratio"] == pytest.approx(seconds[other].sum() / seconds[method].sum())
        assert (row["ratio_low"], row["ratio_high"]) == pytest.approx(tuple(interval), abs=0.1 * np.ptp(interval))
        interval = low_high(forwards[method], forwards[other], lambda a, b, axis: (a - b).mean(axis) / 2)
        assert row["nfe_difference"] == pytest.approx((forwards[method] - forwards[other]).mean() / 2)
        assert (row["nfe_difference_low"], row["nfe_difference_high"]) == pytest.approx(
            tuple(interval), abs=0.1 * np.ptp(interval)
        )
        assert row["nfe_reduction_low"] < row["nfe_reduction"] < row["nfe_reduction_high"]
    spot = found["spot", "control"]
    assert (spot["n_seeds"], spot["n_samples"], spot["throughput_verdict"], spot["nfe_verdict"]) == (2, 40, "win", "win")


def test_intervals_repeat_and_a_small_margin_is_a_tie(connection: duckdb.DuckDBPyConnection) -> None:
    """Every sample is 4 % faster and needs 4 % fewer forwards: certain, but below the margin."""
    for name, factor in (("control", 1.0), ("spot", 0.96), ("tree", 1.2)):
        put(connection, make_run(name), make_samples(nfe=[50 * factor, 100 * factor], wall=[factor, 2 * factor]))
    query = "SELECT * FROM ratio_intervals WHERE other = 'control' ORDER BY method"
    spot, tree = rows(connection, query)
    assert rows(connection, query) == [spot, tree]
    assert spot["ratio_low"] == pytest.approx(1 / 0.96) and spot["nfe_difference_high"] < 0
    assert (spot["throughput_verdict"], spot["nfe_verdict"]) == ("tie", "tie")
    assert (tree["throughput_verdict"], tree["nfe_verdict"]) == ("loss", "loss")


def test_blocks_survive_a_rebuild_and_older_records_have_none(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add_run(make_run("control"), make_samples(), None)
        store.add_run(make_run("spot"), make_samples(), None, make_blocks({"argmax": 7}, {"block": 1}))
        before = store.query("SELECT * FROM blocks ORDER BY block").to_pylist()
    old = next(tmp_path.glob("records/control*.parquet"))
    table = pq.read_table(old)
    counts = {key: value for key, value in table.schema.metadata.items() if key != b"n_blocks"}
    pq.write_table(table.drop_columns(["blocks"]).replace_schema_metadata(counts), old)
    assert rebuild(tmp_path)["blocks"] == 2
    with Store(tmp_path) as store:
        assert store.query("SELECT * FROM blocks ORDER BY block").to_pylist() == before
        assert not store.findings.restored and not store.findings.rewritten
        assert len(store.query("SELECT * FROM runs")) == 2
