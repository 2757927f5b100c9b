"""Every table and view as files."""

from __future__ import annotations

from pathlib import Path

import duckdb

from warehouse.errors import WarehouseError
from warehouse.snapshot import connect, tables

_OPTIONS = {"parquet": "FORMAT parquet", "csv": "FORMAT csv, HEADER", "json": "FORMAT json"}


def export(home: Path | str, out_dir: Path | str, format: str = "parquet") -> list[Path]:
    """Write each table and view of the snapshot to `<out_dir>/<name>.<format>`; returns the files.

    JSON files hold one object per line. Raises WarehouseError for an unknown format, a missing snapshot or a directory
    that cannot be written.
    """
    if format not in _OPTIONS:
        raise WarehouseError(f"unknown export format {format!r}: use {', '.join(_OPTIONS)}")
    out = Path(out_dir)
    written = []
    with connect(home) as connection:
        try:
            out.mkdir(parents=True, exist_ok=True)
            for document in tables():
                path = out / f"{document.name}.{format}"
                target = str(path).replace("'", "''")
                connection.execute(f"COPY (SELECT * FROM {document.name}) TO '{target}' ({_OPTIONS[format]})")
                written.append(path)
        except (OSError, duckdb.IOException) as error:
            raise WarehouseError(f"cannot export to {out}: {error}") from None
    return written
