"""Opening the DuckDB file, damaged or not."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pyarrow as pa

from warehouse.errors import WarehouseError
from warehouse.layout import Home, quarantine, stamp
from warehouse.migrations import migrate

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


def _refuse_if_not_damage(home: Home, error: duckdb.Error, first: str) -> None:
    message = str(error)
    if "Could not set lock" in message or "Conflicting lock" in message:
        raise WarehouseError(f"{home.database} is open in another process; close it ({first})") from None
    if "newer version" in message or "version number" in message:
        raise WarehouseError(f"{home.database} was written by another version of DuckDB: {first}") from None
    passing = isinstance(error, duckdb.OutOfMemoryException) or any(words in message for words in _NOT_DAMAGE)
    if passing:
        raise WarehouseError(f"cannot open {home.database}: {first}") from None
