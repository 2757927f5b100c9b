"""The one writer of a home."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from warehouse.columns import BLOCK_SCHEMA, ROUND_SCHEMA, SAMPLE_SCHEMA, conform, run_row
from warehouse.database import open_database
from warehouse.errors import WarehouseError
from warehouse.figures import figures
from warehouse.layout import Home, quarantine, stamp
from warehouse.ledger import Ledger
from warehouse.lock import WriterLock
from warehouse.reconcile import insert_ledger_rows, insert_record, reconcile
from warehouse.records import Record, write_record
from warehouse.snapshot import copy_to_snapshot

STATES = ("planned", "running", "done", "failed", "blocked", "cancelled")
LEVELS = ("info", "warning", "error")


class Store:
    """Opens (or creates) the warehouse under `home` for writing; a context manager, safe to call from several threads.

    What is written lands first in durable files under records/ and then in the database, so opening after any crash
    only has to compare the two; see `reconcile`. Raises WarehouseError where the home cannot be written, another
    process writes to it, or a newer version wrote it.
    """

    def __init__(self, home: Path | str) -> None:
        self.home = Home(Path(home).absolute())
        self._mutex = threading.RLock()
        try:
            self.home.records.mkdir(parents=True, exist_ok=True)
            self._lock = WriterLock(self.home.lock)
        except OSError as error:
            raise WarehouseError(f"cannot write to {self.home.root}: {error.strerror}; name another home") from None
        try:
            self._open()
        except OSError as error:
            self._lock.release()
            raise WarehouseError(f"cannot write to {self.home.root}: {error.strerror}; name another home") from None
        except BaseException:
            self._lock.release()
            raise

    def _open(self) -> None:
        for leftover in self.home.records.glob(".*.tmp"):
            leftover.unlink()
        self._ledger = Ledger(self.home.records)
        existed = self.home.database.exists()
        self._connection, notes, kept_wal = open_database(self.home)
        fresh = bool(notes) or not existed
        # Opened once and held: see copy_to_snapshot.
        self._file = os.open(self.home.database, os.O_RDONLY)
        self.findings = reconcile(self._connection, self.home, self._ledger)
        self._release_interrupted_nodes()
        self._checkpoint()
        if self._lock.taken_over:
            self.event(None, "info", "lock", f"took over from dead process {self._lock.taken_over.get('pid')}")
        for note in notes:
            self.event(None, "error", "quarantine", note)
        for level, message in self.findings.messages(rebuilt=fresh):
            self.event(None, level, "reconcile", message)
        if kept_wal is not None and self.findings.restored:
            message = f"write-ahead log did not replay in full, kept as {kept_wal.name}"
            self.event(None, "warning", "quarantine", message)
        elif kept_wal is not None:
            kept_wal.unlink()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database and give the home back; a second call does nothing."""
        with self._mutex:
            if self._file < 0:
                return
            self._connection.close()
            os.close(self._file)
            self._file = -1
            self._lock.release()

    def add_experiment(
        self,
        name: str,
        spec_text: str,
        spec_identity: str,
        command: str,
        versions: Mapping[str, Any],
        git_commit: str | None,
    ) -> None:
        """Record one submit; the nodes planned next belong to it."""
        row = {"name": name, "spec_identity": spec_identity, "spec_text": spec_text, "command": command}
        self._append("experiments", [{**row, "versions": _json(versions), "git_commit": git_commit}])

    def plan_nodes(self, experiment: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record the whole graph of the latest submit: rows of {identity, kind, label, upstream: [identity], params}.

        Nodes this submit has planned already are skipped.
        """
        with self._mutex:
            plan = self._scalar("SELECT coalesce(max(seq), 0) FROM experiments WHERE name = ?", [experiment])
            known = self._connection.execute(
                "SELECT identity FROM node_plans WHERE experiment = ? AND plan = ?", [experiment, plan]
            ).fetchall()
            seen = {identity for (identity,) in known}
            new = [
                {
                    "experiment": experiment,
                    "plan": plan,
                    "identity": row["identity"],
                    "kind": row["kind"],
                    "label": row["label"],
                    "upstream": list(row.get("upstream") or []),
                    "params": _json(row.get("params")),
                }
                for row in rows
                if row["identity"] not in seen
            ]
            self._append("node_plans", new)

    def node_state(
        self,
        experiment: str,
        identity: str,
        state: str,
        actor: str | None = None,
        message: str | None = None,
        summary: Mapping[str, Any] | None = None,
    ) -> None:
        """Append a state of a node, one of STATES; `blocked` = something it reads failed."""
        if state not in STATES:
            raise WarehouseError(f"node {identity[:16]}: state {state!r} is not one of {', '.join(STATES)}")
        row = {"experiment": experiment, "identity": identity, "state": state, "actor": actor, "message": message}
        self._append("node_states", [{**row, "summary": _json(summary)}])

    def add_run(
        self,
        run: Mapping[str, Any],
        samples: pa.Table | None,
        rounds: pa.Table | None,
        blocks: pa.Table | None = None,
    ) -> bool:
        """Record one finished or failed run; False if its run_id is recorded already (nothing is changed then).

        `run` has the columns of view `runs`; the figures it leaves out are computed from the samples. First the Parquet
        record, then one transaction, then a checkpoint. Raises WarehouseError.
        """
        samples = conform(samples, SAMPLE_SCHEMA, f"samples of run {run.get('run_id')}")
        rounds = conform(rounds, ROUND_SCHEMA, f"rounds of run {run.get('run_id')}")
        blocks = conform(blocks, BLOCK_SCHEMA, f"blocks of run {run.get('run_id')}")
        computed = figures(samples, rounds)
        row = run_row(run, samples, computed)
        record = Record(row, samples, rounds, blocks)
        run_id = row["run_id"]
        with self._mutex:
            if self._scalar("SELECT count(*) FROM run_records WHERE run_id = ?", [run_id]):
                return False
            try:
                write_record(self.home.record(run_id), record)
                insert_record(self._connection, record)
                self._checkpoint()
            except (OSError, duckdb.Error) as error:
                raise WarehouseError(f"cannot record run {run_id} in {self.home.root}: {error}") from error
            for name in ("nfe", "tok_s", "accuracy"):
                if _differ(row[name], computed[name]) and row["status"] == "ok":
                    message = f"{name} of run {run_id} is {row[name]:.6g}, its samples say {computed[name]:.6g}"
                    self.event(row["experiment"], "warning", "figures", message, run_id)
        return True

    def archive_run(self, run_id: str, reason: str, successor: str | None = None) -> None:
        """Take a run out of the tables and controls; it stays in `runs` as archived and in `outliers`."""
        with self._mutex:
            if not self._scalar("SELECT count(*) FROM run_records WHERE run_id = ?", [run_id]):
                raise WarehouseError(f"cannot archive run {run_id}: no such run")
            same = "SELECT count(*) FROM archives WHERE run_id = ? AND reason = ? AND successor IS NOT DISTINCT FROM ?"
            if not self._scalar(same, [run_id, reason, successor]):
                self._append("archives", [{"run_id": run_id, "reason": reason, "successor": successor}])

    def add_artifact(
        self, identity: str, kind: str, path: Path | str, bytes: int, sha256: str, summary: Mapping[str, Any] | None
    ) -> None:
        """Record an artifact directory, `path` relative to the home; the same contents are recorded once."""
        with self._mutex:
            same = "SELECT count(*) FROM artifacts WHERE identity = ? AND sha256 = ?"
            if not self._scalar(same, [identity, sha256]):
                row = {"identity": identity, "kind": kind, "path": str(path), "bytes": int(bytes), "sha256": sha256}
                self._append("artifacts", [{**row, "summary": _json(summary)}])

    def event(self, experiment: str | None, level: str, kind: str, message: str, run_id: str | None = None) -> None:
        """Append an event; `level` is info, warning or error."""
        if level not in LEVELS:
            raise WarehouseError(f"event level {level!r} is not one of {', '.join(LEVELS)}")
        row = {"experiment": experiment, "level": level, "kind": kind, "message": message, "run_id": run_id}
        self._append("events", [row])

    def publish(self) -> None:
        """Replace the snapshot that readers see by the present state. WarehouseError where it cannot be written."""
        with self._mutex:
            self._checkpoint()
            try:
                copy_to_snapshot(self._file, self.home)
            except OSError as error:
                raise WarehouseError(f"cannot write {self.home.snapshot}: {error.strerror}") from None

    def query(self, sql: str, params: Sequence[Any] | None = None) -> pa.Table:
        """Run a query on the live database, unpublished rows included. Raises duckdb.Error."""
        with self._mutex:
            return self._connection.sql(sql, params=list(params) if params else None).to_arrow_table()

    def _release_interrupted_nodes(self) -> None:
        # Whoever ran them held the lock that is ours now.
        running = self._connection.execute(
            """SELECT experiment, identity FROM node_states GROUP BY experiment, identity
            HAVING arg_max(state, seq) = 'running' ORDER BY max(seq)"""
        ).fetchall()
        for experiment, identity in running:
            self.node_state(experiment, identity, "planned", message="interrupted: its driver ended")

    def _append(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        if not rows:
            return
        with self._mutex:
            try:
                insert_ledger_rows(self._connection, table, self._ledger.append(table, rows))
            except (OSError, duckdb.Error) as error:
                raise WarehouseError(f"cannot record {table} in {self.home.root}: {error}") from error

    def _checkpoint(self) -> None:
        self._connection.execute("CHECKPOINT")

    def _scalar(self, sql: str, params: Sequence[Any]) -> Any:
        return self._connection.execute(sql, params).fetchall()[0][0]


def rebuild(home: Path | str) -> dict[str, int]:
    """Set the database aside and make it anew from records/, then publish it; returns the row counts.

    Raises WarehouseError if there are no records or another process writes to the home.
    """
    paths = Home(Path(home).absolute())
    if not paths.records.is_dir():
        raise WarehouseError(f"nothing to rebuild from: no {paths.records}")
    lock = WriterLock(paths.lock)
    suffix = stamp()
    quarantine(paths.database, suffix)
    quarantine(paths.wal, suffix)
    lock.release()
    with Store(paths.root) as store:
        store.publish()
        tables = ("run_records", "samples", "rounds", "blocks", "events")
        return {table: store.query(f"SELECT count(*) AS n FROM {table}")["n"][0].as_py() for table in tables}


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True, default=str)


def _differ(stated: float | None, computed: float | None) -> bool:
    if stated is None or computed is None:
        return False
    return abs(stated - computed) > 1e-3 * max(abs(stated), abs(computed))
