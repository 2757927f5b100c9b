"""Runs, samples and rounds for the tests of the warehouse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from warehouse import Store
from warehouse.catalog import VIEWS
from warehouse.columns import BLOCK_SCHEMA, ROUND_SCHEMA, RUN_SCHEMA, SAMPLE_SCHEMA, conform, run_row
from warehouse.database import insert
from warehouse.figures import figures
from warehouse.migrations import migrate
from warehouse.reconcile import insert_record
from warehouse.records import Record

TABLES = ("experiments", "node_plans", "node_states", "artifacts", "archives", "run_records", "samples", "rounds", "blocks")


def make_run(method: str = "spot", seed: int = 0, attempt: int = 0, **changes: Any) -> dict[str, Any]:
    """A complete run; its identity follows from everything but the attempt."""
    control = method == "control"
    run: dict[str, Any] = {
        "experiment": "main",
        "target": "tiny",
        "task": "tiny-math",
        "method": method,
        "drafter": "none" if control else method,
        "verifier": "none" if control else "coupled",
        "budget": 0 if control else 8,
        "floor": 0.0,
        "padded": False,
        "temperature": 1.0,
        "commit_rule": "single",
        "cache": "prefix",
        "layout": "batch",
        "stop": "fill",
        "generation_length": 64,
        "block_length": 32,
        "seed": seed,
        "sample_digest": "digest",
        "device_class": "cpu",
        "dtype": "float32",
        "distribution_preserving": True,
        "started_at": "2026-01-01T00:00:00",
        "git_commit": "abc",
        "versions": {"torch": "2"},
    }
    run |= changes
    determining = (
        "method",
        "budget",
        "verifier",
        "floor",
        "target",
        "task",
        "temperature",
        "seed",
        "device_class",
        "sample_digest",
    )
    run.setdefault("identity", "-".join(str(run[name]) for name in determining))
    run["attempt"] = attempt
    run.setdefault("run_id", f"{run['identity']}-{attempt}".replace("/", "_"))
    return run


def make_samples(
    nfe: Sequence[float] = (10.0, 20.0),
    wall: Sequence[float] = (1.0, 2.0),
    tokens: Sequence[Sequence[int]] | None = None,
    ids: Sequence[str] | None = None,
    **columns: Sequence[Any],
) -> pa.Table:
    """One row per entry of `nfe`, 64 generated tokens each."""
    count = len(nfe)
    rows: dict[str, Any] = {
        "sample_id": list(ids or [f"tiny-math/test/{index}" for index in range(count)]),
        "generated_tokens": [64] * count,
        "answer_tokens": [32] * count,
        "nfe": list(nfe),
        "nfe_answer": [value / 2 for value in nfe],
        "wall_s": list(wall),
        "draft_s": [value / 10 for value in wall],
        "forward_s": [value / 2 for value in wall],
        "correct": [True] * count,
        "output": ["text"] * count,
        "finish": ["length"] * count,
        "tokens": [list(row) for row in (tokens or [[1, 2, 3]] * count)],
    }
    return pa.table(rows | columns)


def make_rounds(accepted: dict[str, Sequence[int]]) -> pa.Table:
    """Rounds of one block per sample: an undrafted first one, then one with 8 drafts per entry."""
    rows = []
    for sample, counts in accepted.items():
        rows.append({"sample_id": sample, "block": 0, "round": 0, "drafted": 0, "accepted": 0, "positions": [5]})
        for index, count in enumerate(counts):
            positions = list(range(count + 1))
            row = {
                "sample_id": sample,
                "block": 0,
                "round": index + 1,
                "drafted": 8,
                "accepted": count,
                "positions": positions,
            }
            rows.append(row | {"reject_cause": "position"})
    return (
        pa.Table.from_pylist(rows, schema=pa.schema([ROUND_SCHEMA.field(name) for name in rows[-1]])) if rows else None
    )


def memory_warehouse() -> duckdb.DuckDBPyConnection:
    """A warehouse without files, for tests of the views."""
    connection = duckdb.connect()
    migrate(connection)
    return connection


def put(
    connection: duckdb.DuckDBPyConnection,
    run: dict[str, Any],
    samples: pa.Table,
    rounds: pa.Table | None = None,
    blocks: pa.Table | None = None,
) -> str:
    """Insert a run as Store.add_run does; returns its id."""
    samples, rounds = conform(samples, SAMPLE_SCHEMA, "samples"), conform(rounds, ROUND_SCHEMA, "rounds")
    row = run_row(run, samples, figures(samples, rounds))
    insert_record(connection, Record(row, samples, rounds, conform(blocks, BLOCK_SCHEMA, "blocks")))
    return row["run_id"]


def put_all(connection: duckdb.DuckDBPyConnection, runs: Sequence[tuple[dict[str, Any], pa.Table]]) -> None:
    """Insert many runs without rounds, in three statements."""
    rounds = ROUND_SCHEMA.empty_table()
    conformed = [(run, conform(samples, SAMPLE_SCHEMA, "samples")) for run, samples in runs]
    run_rows = [run_row(run, samples, figures(samples, rounds)) for run, samples in conformed]
    all_samples = [
        samples.append_column("run_id", pa.array([run["run_id"]] * samples.num_rows)) for run, samples in conformed
    ]
    insert(connection, "run_records", pa.Table.from_pylist(run_rows, schema=RUN_SCHEMA))
    insert(connection, "samples", pa.concat_tables(all_samples))


def archive(connection: duckdb.DuckDBPyConnection, run_id: str, reason: str, successor: str | None = None) -> None:
    connection.execute(
        "INSERT INTO archives SELECT coalesce(max(seq), 0) + 1, now()::TIMESTAMP, ?, ?, ? FROM archives",
        [run_id, reason, successor],
    )


def rows(connection: duckdb.DuckDBPyConnection, sql: str, params: Sequence[Any] | None = None) -> list[dict[str, Any]]:
    return connection.sql(sql, params=list(params) if params else None).to_arrow_table().to_pylist()


def fill(store: Store) -> None:
    """Two methods and a control over two seeds, an archived control, a failed run, a plan, states, an artifact."""
    store.add_experiment("main", "name: main", "spec-1", "submit specs/main.yaml", {"torch": "2"}, "abc")
    runs = [make_run(method, seed) for method in ("control", "spot", "spiffy") for seed in (0, 1)]
    plan = [
        {
            "identity": run["identity"],
            "kind": "evaluate",
            "label": run["run_id"],
            "upstream": ["train"],
            "params": {"seed": run["seed"]},
        }
        for run in runs
    ]
    store.plan_nodes(
        "main", [*plan, {"identity": "train", "kind": "train", "label": "train", "upstream": [], "params": {}}]
    )
    store.node_state("main", "train", "running", actor="worker-0")
    store.node_state("main", "train", "done", summary={"loss": 0.5})
    store.add_artifact("train", "train", "artifacts/train", 10, "sha", {"loss": 0.5})
    for index, run in enumerate(runs):
        samples = make_samples(nfe=(10.0 + index, 20.0), wall=(1.0, 2.0 + index / 10))
        rounds = (
            None
            if run["method"] == "control"
            else make_rounds({"tiny-math/test/0": [2, 3], "tiny-math/test/1": [index]})
        )
        store.add_run(run, samples, rounds)
    slow = runs[0]
    again = make_run("control", 0, attempt=1)
    store.add_run(again, make_samples(), None)
    store.archive_run(slow["run_id"], "outlier: slow", again["run_id"])
    store.add_run(make_run("chain", 0, status="failed", reason="killed"), None, None)
    store.publish()


def contents(store: Store) -> dict[str, list[str]]:
    """Every table and view, rows in a canonical order, but for events and times of recording."""
    dump = {}
    for name in (*TABLES, *VIEWS):
        table = store.query(f"SELECT * FROM {name}").to_pylist()
        dump[name] = sorted(repr(_rounded(row)) for row in table)
    return dump


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: float(f"{value:.12g}") if isinstance(value, float) else value for name, value in row.items()}


def damaged(path: Path, offset: int) -> None:
    """Flip every bit of one byte."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0xFF]))
