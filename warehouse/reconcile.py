"""Make the database hold exactly what the durable files beside it hold, whatever a crash or a bad disk did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from warehouse.columns import BLOCK_SCHEMA, ROUND_SCHEMA, SAMPLE_SCHEMA
from warehouse.database import insert
from warehouse.layout import Home, quarantine, stamp
from warehouse.ledger import TABLES, Ledger
from warehouse.records import Record, read_record, record_counts, write_record

_LEDGER_SCHEMA = {
    "seq": pa.int64(),
    "recorded_at": pa.timestamp("us"),
    "plan": pa.int64(),
    "bytes": pa.int64(),
    "upstream": pa.list_(pa.string()),
}


@dataclass
class Findings:
    """`restored` rows were missing from the database, `rewritten` files damaged or missing, `lost` runs are gone."""

    restored: dict[str, int] = field(default_factory=dict)
    rewritten: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def messages(self, rebuilt: bool) -> list[tuple[str, str]]:
        """(level, message) of all worth an event; in a `rebuilt` database every row is put back, as it should be."""
        level = "info" if rebuilt else "warning"
        found = [(level, f"{count} missing {what} put back into the database") for what, count in self.restored.items()]
        found += [("warning", message) for message in self.rewritten]
        return found + [("error", message) for message in self.lost]


def reconcile(connection: duckdb.DuckDBPyConnection, home: Home, ledger: Ledger) -> Findings:
    """Compare ledgers by row number and runs by their numbers of samples, rounds and blocks, and repair either side."""
    findings = Findings()
    for table in TABLES:
        _reconcile_ledger(connection, ledger, table, findings)
    _reconcile_runs(connection, home, findings)
    return findings


def insert_ledger_rows(connection: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> None:
    """Insert rows as the ledger holds them."""
    names = list(rows[0])
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if name == "recorded_at":
            columns[name] = pa.array(values, pa.string()).cast(pa.timestamp("us"))
        else:
            columns[name] = pa.array(values, _LEDGER_SCHEMA.get(name, pa.string()))
    insert(connection, table, pa.table(columns))


def insert_record(connection: duckdb.DuckDBPyConnection, record: Record) -> None:
    """Insert one run with its samples, rounds and blocks in one transaction, replacing whatever part of it is there."""
    run_id = record.run["run_id"]
    connection.execute("BEGIN")
    try:
        for table in ("run_records", *record.parts):
            if connection.execute(f"SELECT count(*) FROM {table} WHERE run_id = ?", [run_id]).fetchall()[0][0]:
                connection.execute(f"DELETE FROM {table} WHERE run_id = ?", [run_id])
        for name, table in record.parts.items():
            insert(connection, name, _with_run(table, run_id))
        columns = {name: pa.array([value]) for name, value in record.run.items() if value is not None}
        insert(connection, "run_records", pa.table(columns))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _with_run(table: pa.Table, run_id: str) -> pa.Table:
    return table.append_column("run_id", pa.repeat(pa.scalar(run_id), table.num_rows))


def _reconcile_ledger(connection: duckdb.DuckDBPyConnection, ledger: Ledger, table: str, findings: Findings) -> None:
    rows, kept = ledger.load(table)
    if kept is not None:
        findings.rewritten.append(f"unreadable lines in {table}.jsonl, original kept as {kept.name}")
    stored = {row[0] for row in connection.execute(f"SELECT seq FROM {table}").fetchall()}
    ledger.seen(table, stored)
    by_seq = {row["seq"]: row for row in rows}
    missing = [by_seq[seq] for seq in sorted(by_seq.keys() - stored)]
    if missing:
        insert_ledger_rows(connection, table, _same_keys(missing))
        findings.restored[f"rows of {table}"] = len(missing)
    unwritten = stored - by_seq.keys()
    if unwritten:
        select = f"SELECT * FROM {table} WHERE list_contains(?, seq) ORDER BY seq"
        query = connection.sql(select, params=[sorted(unwritten)])
        restored = query.to_arrow_table().to_pylist()
        ledger.restore(table, [{**row, "recorded_at": row["recorded_at"].isoformat()} for row in restored])
        findings.rewritten.append(f"{len(restored)} rows missing from {table}.jsonl written again from the database")


def _same_keys(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {name: None for row in rows for name in row}
    return [{**names, **row} for row in rows]


def _reconcile_runs(connection: duckdb.DuckDBPyConnection, home: Home, findings: Findings) -> None:
    stored = _stored_counts(connection)
    suffix = stamp()
    readable = set()
    for path in sorted(home.records.glob("*.parquet")):
        run_id = path.stem
        try:
            counts = record_counts(path)
            if stored.get(run_id) != (1, *counts):
                insert_record(connection, read_record(path))
                findings.restored["runs"] = findings.restored.get("runs", 0) + 1
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            kept = quarantine(path, suffix)
            problem = f"record of run {run_id} is unreadable, kept as {kept.name}: {str(error).splitlines()[0][:120]}"
            (findings.rewritten if run_id in stored else findings.lost).append(problem)
            continue
        readable.add(run_id)
    for run_id in sorted(stored.keys() - readable):
        if stored[run_id][0]:
            write_record(home.record(run_id), _record_from_database(connection, run_id))
            findings.rewritten.append(f"record of run {run_id} written again from the database")


def _stored_counts(connection: duckdb.DuckDBPyConnection) -> dict[str, tuple[int, ...]]:
    """run_id -> numbers of run rows, samples, rounds and blocks in the database."""
    rows = connection.execute(
        """SELECT run_id, sum(runs)::BIGINT, sum(samples)::BIGINT, sum(rounds)::BIGINT, sum(blocks)::BIGINT FROM (
            SELECT run_id, count(*) AS runs, 0 AS samples, 0 AS rounds, 0 AS blocks FROM run_records GROUP BY run_id
            UNION ALL SELECT run_id, 0, count(*), 0, 0 FROM samples GROUP BY run_id
            UNION ALL SELECT run_id, 0, 0, count(*), 0 FROM rounds GROUP BY run_id
            UNION ALL SELECT run_id, 0, 0, 0, count(*) FROM blocks GROUP BY run_id
        ) GROUP BY run_id"""
    ).fetchall()
    return {run_id: tuple(counts) for run_id, *counts in rows}


def _record_from_database(connection: duckdb.DuckDBPyConnection, run_id: str) -> Record:
    def rows(table: str, columns: str = "*") -> pa.Table:
        return connection.sql(f"SELECT {columns} FROM {table} WHERE run_id = ?", params=[run_id]).to_arrow_table()

    def part(table: str, schema: pa.Schema) -> pa.Table:
        return rows(table, ", ".join(f'"{name}"' for name in schema.names)).cast(schema)

    parts = (part("samples", SAMPLE_SCHEMA), part("rounds", ROUND_SCHEMA), part("blocks", BLOCK_SCHEMA))
    return Record(rows("run_records").to_pylist()[0], *parts)
