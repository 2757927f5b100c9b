"""The published copy that everybody but the writer reads."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path

import duckdb

from warehouse.catalog import TableDocument, documents
from warehouse.errors import WarehouseError
from warehouse.layout import Home, replace_durably
from warehouse.migrations import is_outdated, migrate


def copy_to_snapshot(database: int, home: Home) -> None:
    """Copy the checkpointed file behind descriptor `database` to the snapshot, atomically. Raises OSError.

    The caller keeps the descriptor open as long as DuckDB has the file open: closing any descriptor of a file drops all
    POSIX locks that the process holds on it, DuckDB's own among them.
    """
    temporary = home.snapshot.with_name(f".{home.snapshot.name}.tmp")
    size = os.fstat(database).st_size
    with open(temporary, "wb") as file:
        offset = 0
        while offset < size:
            chunk = os.pread(database, min(1 << 22, size - offset), offset)
            file.write(chunk)
            offset += len(chunk)
    replace_durably(temporary, home.snapshot)


def connect(home: Path | str) -> duckdb.DuckDBPyConnection:
    """A read-only connection to the latest snapshot, which never blocks the writer. WarehouseError if there is none.

    A snapshot that an older program published is read through a private copy, migrated to the schema and views of this one.
    """
    paths = Home(Path(home))
    if not paths.snapshot.exists():
        missing = f"no results in {paths.root} yet (no {paths.snapshot.name})"
        raise WarehouseError(f"{missing}: submit a spec, or name another home")
    try:
        connection = _connect_fresh(paths)
        if not is_outdated(connection):
            return connection
        connection.close()
        return _connect_migrated(paths)
    except duckdb.Error as error:
        first = str(error).splitlines()[0][:200]
        raise WarehouseError(f"cannot read {paths.snapshot}: {first}; the next submit writes it anew") from None


def _connect_fresh(paths: Home) -> duckdb.DuckDBPyConnection:
    # DuckDB shares one instance per path within a process: while an older connection is open, the same path would show
    # the older snapshot. A name of its own for each connection avoids that; the file lives on after the unlink.
    alias = paths.snapshot.with_name(f".{paths.snapshot.stem}-{uuid.uuid4().hex}.duckdb")
    try:
        os.link(paths.snapshot, alias)
    except OSError:
        return duckdb.connect(str(paths.snapshot), read_only=True)
    try:
        return duckdb.connect(str(alias), read_only=True)
    finally:
        alias.unlink()


def _connect_migrated(paths: Home) -> duckdb.DuckDBPyConnection:
    with tempfile.TemporaryDirectory(prefix="drafthouse-") as folder:
        copy = shutil.copyfile(paths.snapshot, Path(folder) / paths.snapshot.name)
        with duckdb.connect(str(copy)) as connection:
            migrate(connection)
        return duckdb.connect(str(copy), read_only=True)  # the file lives on after the unlink


def tables(home: Path | str | None = None) -> list[TableDocument]:
    """Every view and table with its documentation, views first; with the row count where `home` has a snapshot."""
    counts = _row_counts(Path(home)) if home is not None else {}
    return [replace(document, rows=counts.get(document.name)) for document in documents()]


def _row_counts(home: Path) -> dict[str, int]:
    try:
        connection = connect(home)
    except WarehouseError:
        return {}
    with connection:
        return dict(connection.execute("SELECT table_name, estimated_size FROM duckdb_tables()").fetchall())
