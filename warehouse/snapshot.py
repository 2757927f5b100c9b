"""The published copy that everybody but the writer reads."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import duckdb

from warehouse.errors import WarehouseError
from warehouse.layout import Home, replace_durably


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
    """A read-only connection to the latest snapshot, which never blocks the writer. WarehouseError if there is none."""
    paths = Home(Path(home))
    if not paths.snapshot.exists():
        missing = f"no results in {paths.root} yet (no {paths.snapshot.name})"
        raise WarehouseError(f"{missing}: submit a spec, or name another home")
    try:
        return _connect_fresh(paths)
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
