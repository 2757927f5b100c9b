"""Opening the DuckDB file: migrations, views, damage."""

from __future__ import annotations

import hashlib
import re
import shutil
from importlib.resources import files
from pathlib import Path

import duckdb
import pyarrow as pa

from warehouse.catalog import VIEWS, table_documents, view_sql
from warehouse.errors import WarehouseError
from warehouse.layout import Home, quarantine, stamp, utc_now

# Loading extensions over the network is never wanted: the machine may have none.
_CONFIG = {"threads": "2", "autoinstall_known_extensions": "false"}

_NOT_DAMAGE = ("Permission denied", "No space left", "Read-only file system", "Too many open files", "Disk quota")


def open_database(home: Home) -> tuple[duckdb.DuckDBPyConnection, list[str], Path | None]:
    """Open or create the warehouse file, migrated and readable to the last block.

    Returns the connection, notes on what was quarantined, and a copy of the write-ahead log if there was one: DuckDB
    drops damaged entries of a log silently, so the caller compares the rows and keeps the copy if any are missing.
    Raises WarehouseError if another process has the file open, or a newer version wrote it.
    """
    notes: list[str] = []
    kept_wal = None
    if home.wal.exists():
        kept_wal = home.wal.with_name(f"{home.wal.name}.bad-{stamp()}")
        shutil.copyfile(home.wal, kept_wal)
    try:
        connection = _open_readable(home)
    except duckdb.Error as error:
        first = str(error).splitlines()[0][:200]
        if kept_wal is not None:
            kept_wal.unlink()
        _refuse_if_not_damage(home, error, first)
        suffix = stamp()
        moved = [path for path in (quarantine(home.database, suffix), quarantine(home.wal, suffix)) if path]
        kept_wal = None
        notes.append(f"unreadable warehouse kept as {', '.join(path.name for path in moved)}: {first}")
        connection = _open_readable(home)
    try:
        migrate(connection)
    except duckdb.Error as error:
        connection.close()
        first = str(error).splitlines()[0]
        raise WarehouseError(f"{home.database} does not take this program's schema: {first}") from None
    except WarehouseError:
        connection.close()
        raise
    return connection, notes, kept_wal


def migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Apply the numbered schema files this database has not seen, then refresh the views and the published values.

    Raises WarehouseError.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER, name VARCHAR, applied_at TIMESTAMP)"
    )
    applied = connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchall()[0][0]
    migrations = schema_files()
    if applied > max(migrations):
        known = max(migrations)
        raise WarehouseError(f"the warehouse has schema version {applied}, this program knows {known}: upgrade it")
    for version in sorted(set(migrations) - set(range(applied + 1))):
        name, sql = migrations[version]
        connection.execute("BEGIN")
        connection.execute(sql)
        connection.execute("INSERT INTO schema_migrations VALUES (?, ?, ?)", [version, name, utc_now()])
        connection.execute("COMMIT")
    _refresh_views(connection)
    connection.execute("CHECKPOINT")


def schema_files() -> dict[int, tuple[str, str]]:
    """Version -> (file name, SQL) of every migration."""
    entries = [entry for entry in (files("warehouse") / "schema").iterdir() if re.match(r"\d+_.*\.sql$", entry.name)]
    return {int(entry.name.split("_")[0]): (entry.name, entry.read_text("utf-8")) for entry in entries}


def insert(connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    """Insert the columns of `rows` that `table` has."""
    known = {row[0] for row in connection.execute(f"DESCRIBE {table}").fetchall()}
    names = ", ".join(f'"{name}"' for name in rows.column_names if name in known)
    connection.register("incoming", rows)
    try:
        connection.execute(f"INSERT INTO {table} BY NAME SELECT {names} FROM incoming")
    finally:
        connection.unregister("incoming")


def _open_readable(home: Home) -> duckdb.DuckDBPyConnection:
    """Connect and read every column of every table. Raises duckdb.Error."""
    connection = duckdb.connect(str(home.database), config=_CONFIG)
    try:
        # Block checksums are verified on read only: damage in the file shows itself here, not in some later query.
        tables = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
        for (table,) in tables:
            connection.execute(f'SELECT bit_xor(hash(t)) FROM "{table}" AS t').fetchall()
    except duckdb.Error:
        connection.close()
        raise
    return connection


def _refresh_views(connection: duckdb.DuckDBPyConnection) -> None:
    texts = {name: view_sql(name) for name in VIEWS}
    published = sorted((path for path in (files("warehouse") / "published").iterdir()), key=lambda path: path.name)
    table = (files("warehouse") / "schema" / "published.sql").read_text("utf-8")
    parts = [*texts.values(), table, *(path.read_text("utf-8") for path in published)]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    if connection.execute("SELECT digest FROM view_state").fetchall() == [(digest,)]:
        return
    connection.execute("BEGIN")
    old = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    for (name,) in old:
        connection.execute(f'DROP VIEW IF EXISTS "{name}"')
    connection.execute(table)
    for path in published:
        connection.execute("INSERT INTO published BY NAME SELECT * FROM read_csv(?, all_varchar = true)", [str(path)])
    for text in texts.values():
        connection.execute(text)
    for document in table_documents():
        kind = document.kind.upper()
        connection.execute(f"COMMENT ON {kind} {document.name} IS {_quoted(document.summary)}")
    connection.execute("DELETE FROM view_state")
    connection.execute("INSERT INTO view_state VALUES (?)", [digest])
    connection.execute("COMMIT")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _refuse_if_not_damage(home: Home, error: duckdb.Error, first: str) -> None:
    message = str(error)
    if "Could not set lock" in message or "Conflicting lock" in message:
        raise WarehouseError(f"{home.database} is open in another process; close it ({first})") from None
    if "newer version" in message or "version number" in message:
        raise WarehouseError(f"{home.database} was written by another version of DuckDB: {first}") from None
    passing = isinstance(error, duckdb.OutOfMemoryException) or any(words in message for words in _NOT_DAMAGE)
    if passing:
        raise WarehouseError(f"cannot open {home.database}: {first}") from None
