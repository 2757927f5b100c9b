"""One writer per home: an advisory lock with a note of who holds it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path

from warehouse.errors import WarehouseError
from warehouse.layout import Home, utc_now


class WriterLock:
    """Holds `writer.lock` from construction to `release`.

    The kernel drops the lock when its process dies, so a lock file left by a dead process of this host is taken over.
    One left by another host is not: whether that process lives cannot be seen from here.
    """

    def __init__(self, path: Path) -> None:
        self.taken_over: dict | None = None
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _read(self._file)
            os.close(self._file)
            message = f"{path.parent} is being written by {_describe(holder)}; wait for it or stop it"
            raise WarehouseError(message) from None
        holder = _read(self._file)
        if holder and holder.get("host") != socket.gethostname():
            os.close(self._file)
            message = f"{path.parent} was locked by {_describe(holder)}; if that process is dead, remove {path}"
            raise WarehouseError(message)
        self.taken_over = holder
        note = {"pid": os.getpid(), "host": socket.gethostname(), "since": utc_now().isoformat(timespec="seconds")}
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(note).encode(), 0)
        os.fsync(self._file)

    def release(self) -> None:
        os.ftruncate(self._file, 0)
        os.close(self._file)


def writer(home: Path | str) -> dict | None:
    """Who writes to this home now: {"pid", "host", "since"}, or None if nobody does. Changes nothing."""
    path = Home(Path(home)).lock
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        holder = _read(handle)
        if holder and holder.get("host") == socket.gethostname():
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return holder
            return None
        return holder
    finally:
        os.close(handle)


def _read(handle: int) -> dict | None:
    try:
        note = json.loads(os.pread(handle, 4096, 0))
    except ValueError:
        return None
    return note if isinstance(note, dict) else None


def _describe(holder: dict | None) -> str:
    if not holder:
        return "another process"
    return f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('since')}"
