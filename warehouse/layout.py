"""Where things lie under a home, and durable small file operations."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path


@dataclass(frozen=True)
class Home:
    """Paths of one home directory."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "warehouse.duckdb"

    @property
    def wal(self) -> Path:
        return self.root / "warehouse.duckdb.wal"

    @property
    def snapshot(self) -> Path:
        return self.root / "snapshot.duckdb"

    @property
    def lock(self) -> Path:
        return self.root / "writer.lock"

    @property
    def records(self) -> Path:
        return self.root / "records"

    def record(self, run_id: str) -> Path:
        return self.records / f"{run_id}.parquet"


def utc_now() -> datetime:
    """The time in UTC without zone, as every time column stores it."""
    return datetime.now(timezone.utc).replace(tzinfo=None)


def stamp() -> str:
    """A sortable suffix for quarantined files, unique to the microsecond."""
    return utc_now().strftime("%Y%m%dT%H%M%S.%fZ")


def quarantine(path: Path, suffix: str) -> Path | None:
    """Rename `path` to `<path>.bad-<suffix>` and return the new name, None if there is no such file."""
    if not path.exists():
        return None
    kept = path.with_name(f"{path.name}.bad-{suffix}")
    os.replace(path, kept)
    sync_directory(path.parent)
    return kept


def sync_directory(directory: Path) -> None:
    """Make renames in `directory` durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: Path) -> None:
    """Make the contents of `path` durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_durably(temporary: Path, final: Path) -> None:
    """Move a finished temporary file to its final name so that a crash leaves the old file or the new one."""
    sync_file(temporary)
    os.replace(temporary, final)
    sync_directory(final.parent)
