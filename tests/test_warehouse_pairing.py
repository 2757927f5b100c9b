"""Control pairing on random sets of runs, against a plain reading of the rule."""

from __future__ import annotations

import itertools
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warehouse_for_tests import archive, make_run, make_samples, memory_warehouse, put_all, rows

KEY = ("temperature", "seed", "device_class", "stop", "sample_digest")
FRESH = itertools.count()

run_strategy = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["control", "control", "spot", "spiffy"]),
        "temperature": st.sampled_from([0.0, 1.0]),
        "seed": st.integers(0, 1),
        "device_class": st.sampled_from(["cpu", "gpu"]),
        "stop": st.sampled_from(["fill", "fill", "eos"]),
        "sample_digest": st.sampled_from(["few", "few", "many"]),
        "status": st.sampled_from(["ok", "ok", "ok", "failed", "archived"]),
        "limited": st.sampled_from([False, False, False, True]),
        "segments": st.sampled_from([1, 1, 1, 2]),
        "wall": st.floats(0.1, 10),
        "forwards": st.integers(1, 60),
        "tokens": st.lists(st.integers(0, 1), min_size=4, max_size=4),
    }
)


@pytest.fixture(scope="module")
def connection() -> Any:
    with memory_warehouse() as connection:
        yield connection


def insert_all(connection: duckdb.DuckDBPyConnection, drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Insert under a target of their own; attempts count up per identity. Returns the runs with run_id and attempt."""
    target = f"target-{next(FRESH)}"
    attempts: dict[str, int] = {}
    runs, tables = [], []
    for run in drawn:
        settings_of_run = {name: run[name] for name in (*KEY, "limited", "segments")}
        status = "failed" if run["status"] == "failed" else "ok"
        full = make_run(run["method"], target=target, status=status, **settings_of_run)
        attempt = attempts[full["identity"]] = attempts.get(full["identity"], -1) + 1
        full |= {"attempt": attempt, "run_id": f"{full['identity']}-{attempt}"}
        count = 2 if run["sample_digest"] == "few" else 4
        tokens = [[token] for token in run["tokens"][:count]]
        tables.append((full, make_samples([run["forwards"]] * count, [run["wall"]] * count, tokens)))
        runs.append(run | full | {"status": run["status"], "tokens": tokens})
    put_all(connection, tables)
    for run in runs:
        if run["status"] == "archived":
            archive(connection, run["run_id"], "outlier: test")
    return runs


def expected_control(run: dict[str, Any], runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    fit = [
        other
        for other in runs
        if other["drafter"] == "none"
        and other["status"] == "ok"
        and not other["limited"]
        and other["segments"] == 1
        and all(other[name] == run[name] for name in KEY)
    ]
    return max(fit, key=lambda other: other["attempt"], default=None) if not run["limited"] else None


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(run_strategy, min_size=1, max_size=10))
def test_every_ok_run_meets_the_active_control_of_its_key_and_counts_once(
    connection: Any, drawn: list[dict[str, Any]]
) -> None:
    runs = insert_all(connection, drawn)
    check_pairs(connection, runs)
    check_cells(connection, runs)


def check_pairs(connection: Any, runs: list[dict[str, Any]]) -> None:
    target = runs[0]["target"]
    listed = rows(connection, "SELECT * FROM paired WHERE target = ?", [target])
    paired = {row["run_id"]: row for row in listed}
    assert len(paired) == len(listed)
    assert paired.keys() == {run["run_id"] for run in runs if run["status"] == "ok"}
    unpaired = {row["run_id"] for row in rows(connection, "SELECT run_id FROM unpaired WHERE target = ?", [target])}
    for run in runs:
        if run["status"] != "ok":
            continue
        row, control = paired[run["run_id"]], expected_control(run, runs)
        assert row["paired"] == (control is not None)
        assert (run["run_id"] in unpaired) == (control is None and run["drafter"] != "none")
        if control is None:
            assert (row["control_run_id"], row["throughput_ratio"], row["tokens_match"]) == (None, None, None)
            continue
        assert row["control_run_id"] == control["run_id"]
        assert row["throughput_ratio"] == pytest.approx(control["wall"] / run["wall"])
        assert row["nfe_reduction"] == pytest.approx(control["forwards"] / run["forwards"])
        equal = [mine == theirs for mine, theirs in zip(run["tokens"], control["tokens"], strict=True)]
        assert row["tokens_match"] == pytest.approx(sum(equal) / len(equal))


def check_cells(connection: Any, runs: list[dict[str, Any]]) -> None:
    cell = ("method", "temperature", "device_class", "stop", "sample_digest")
    seeds: dict[tuple, set[int]] = {}
    for run in runs:
        if run["status"] == "ok" and not run["limited"]:
            seeds.setdefault(tuple(run[name] for name in cell), set()).add(run["seed"])
    found = rows(connection, "SELECT n_seeds FROM cells WHERE target = ?", [runs[0]["target"]])
    assert sorted(row["n_seeds"] for row in found) == sorted(len(members) for members in seeds.values())
