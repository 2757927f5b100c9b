"""Append-only JSON lines beside the run records: everything the warehouse holds that no Parquet record does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from warehouse.layout import replace_durably, stamp, utc_now

TABLES = ("experiments", "node_plans", "node_states", "artifacts", "archives", "events")


class Ledger:
    """`records/<table>.jsonl` for every table in TABLES; each line carries `seq`, unique in its table."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._last: dict[str, int] = dict.fromkeys(TABLES, 0)

    def path(self, table: str) -> Path:
        return self._directory / f"{table}.jsonl"

    def seen(self, table: str, seqs: Iterable[int]) -> None:
        """Never hand out a number up to the largest of `seqs` again."""
        self._last[table] = max(self._last[table], max(seqs, default=0))

    def append(self, table: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Number and date `rows`, write them durably and return them as written. Raises OSError."""
        at = utc_now().isoformat()
        first = self._last[table] + 1
        written = [{"seq": first + index, "recorded_at": at, **row} for index, row in enumerate(rows)]
        self.restore(table, written)
        self.seen(table, (row["seq"] for row in written))
        return written

    def restore(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows that are numbered already. Raises OSError."""
        with open(self.path(table), "ab") as file:
            file.write(b"".join(_line(row) for row in rows))
            file.flush()
            os.fsync(file.fileno())

    def load(self, table: str) -> tuple[list[dict[str, Any]], Path | None]:
        """All readable rows, and where the file was kept if it held lines that cannot be read.

        A writer killed in mid-line leaves a torn line. The file is then copied aside and rewritten without it.
        """
        path = self.path(table)
        if not path.exists():
            return [], None
        content = path.read_bytes()
        lines = content.split(b"\n")
        rows = [row for row in map(_parse, lines) if row is not None]
        self.seen(table, (row["seq"] for row in rows))
        if len(rows) == sum(1 for line in lines if line) and content.endswith((b"\n", b"")[not content]):
            return rows, None
        kept = path.with_name(f"{path.name}.bad-{stamp()}")
        kept.write_bytes(content)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_bytes(b"".join(map(_line, rows)))
        replace_durably(temporary, path)
        return rows, kept


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, sort_keys=True).encode() + b"\n"


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("seq"), int) else None
