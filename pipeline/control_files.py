"""The small files through which a driver and other processes on the same home talk: its heartbeat and the cancel flag.

They let `status` tell a live driver from a dead one without Ray and without a lock.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from workers.errors import UserError

STALE_AFTER_S = 60.0  # a driver on another host counts as dead after so long without a beat


@dataclass(frozen=True)
class Beat:
    """What a driver says about itself every few seconds. Times are Unix seconds."""

    experiment: str
    pid: int
    pid_started: float
    host: str
    started_at: float
    beat_at: float
    state: str = "running"  # or "stopping", "finished"
    counts: dict[str, int] = field(default_factory=dict)
    running: list[dict[str, Any]] = field(default_factory=list)
    time_left_s: float | None = None
    dashboard: str | None = None

    @property
    def alive(self) -> bool:
        """Whether that driver still exists: by its process on this host, else by the age of the beat."""
        if self.state == "finished":
            return False
        if self.host != socket.gethostname():
            return time.time() - self.beat_at < STALE_AFTER_S
        return _started(self.pid) == self.pid_started


def heartbeat_path(home: Path) -> Path:
    return home / "driver.json"


def cancel_path(home: Path) -> Path:
    return home / "cancel"


def write_beat(home: Path, beat: Beat) -> None:
    write_atomically(heartbeat_path(home), json.dumps(asdict(beat)))


def announce(home: Path, experiment: str) -> None:
    """The first beat of this process as the driver of `home`."""
    now = time.time()
    write_beat(home, Beat(experiment, **this_process(), started_at=now, beat_at=now, state="starting"))


def read_beat(home: Path) -> Beat | None:
    """The last heartbeat of the newest driver on this home, None if there was none."""
    try:
        return Beat(**json.loads(heartbeat_path(home).read_text()))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None


def this_process() -> dict[str, Any]:
    """The fields of a beat that name this process."""
    return {"pid": os.getpid(), "pid_started": _started(os.getpid()), "host": socket.gethostname()}


def request_cancel(home: Path) -> str:
    """Asks the driver of this home to stop; returns what was done, in words. UserError if none is alive."""
    beat = read_beat(home)
    if beat is None or not beat.alive:
        raise UserError(f"no submit is running on {home}")
    write_atomically(cancel_path(home), "")
    if beat.host == socket.gethostname():
        os.kill(beat.pid, signal.SIGINT)
        return f"asked {beat.experiment} (process {beat.pid}) to stop"
    return f"left a note for {beat.experiment} on {beat.host}, which it reads within seconds"


def cancel_requested(home: Path) -> bool:
    return cancel_path(home).exists()


def clear_cancel(home: Path) -> None:
    cancel_path(home).unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Replaces a small file so that a reader sees the old or the new text, never half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


def _started(pid: int) -> float | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None
