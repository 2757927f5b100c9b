"""Running generated Python apart from the worker.

A fresh interpreter in its own session, without site packages, environment or standard input, in an empty directory,
under limits of time, memory, processes, files and their size; where the kernel lets an unprivileged process have
them, in namespaces of its own, without network and other processes, on a read-only file system; if the worker is
root, as the user nobody. Afterwards no process it started is left, not even one that left its session.

This keeps accidents away from the experiment. It is not a security boundary: where there are no namespaces the code
can read what the user can read, and code written against this very file can claim a success. Run models that you do
not trust inside a container or a virtual machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

SUPERVISOR = Path(__file__).with_name("sandbox_child.py")
WALL = 3
GRACE_S = 5.0
MARKER = "DRAFTHOUSE_SANDBOX"
QUIET_SCANS = 10


@dataclass(frozen=True)
class Outcome:
    """`ok` if the code ran to its end; otherwise `reason` is one line."""

    ok: bool
    reason: str

    @property
    def timed_out(self) -> bool:
        return self.reason.startswith("timed out")


def run_python(code: str, timeout_s: float = 2.0, memory_mb: int = 256, processes: int = 0) -> Outcome:
    """Run `code` in `memory_mb` MiB of address space; Linux only.

    It may use `timeout_s` seconds of processor time (rounded up to whole ones), so that a busy machine does not fail
    right answers, and WALL times that of wall-clock time; and start `processes` processes or threads.
    """
    marker = uuid.uuid4().hex
    wall = WALL * timeout_s
    command = [sys.executable, "-s", "-S", "-P", "-B", str(SUPERVISOR)]
    command += [str(timeout_s), str(wall), str(memory_mb), str(processes)]
    with tempfile.TemporaryDirectory(prefix="sandbox-", ignore_cleanup_errors=True) as folder:
        environment = {
            "CUDA_VISIBLE_DEVICES": "",
            "HOME": folder,
            "TMPDIR": folder,
            "PATH": "",
            "PYTHONHASHSEED": "0",
            "PYTHONUTF8": "1",
            "OMP_NUM_THREADS": "1",
            MARKER: marker,
        }
        supervisor = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            output, _ = supervisor.communicate(code.encode(errors="replace"), timeout=wall + GRACE_S)
        except subprocess.TimeoutExpired:
            output = b"no answer from the sandbox"
        finally:
            if supervisor.returncode != 0:
                end_marked(supervisor, marker)
    report = output.decode(errors="replace").rstrip("\n")
    if report == "ok":
        return Outcome(True, "")
    return Outcome(False, report.removeprefix("no ") or "the sandbox was ended from inside")


def end_marked(supervisor: subprocess.Popen, marker: str) -> None:
    """Kill what is left of a sandbox whose supervisor did not end by itself: its group and whoever carries its
    marker."""
    try:
        os.killpg(supervisor.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    sign = f"{MARKER}={marker}".encode()
    quiet = 0
    while quiet < QUIET_SCANS:  # one scan can miss a process that is being born or is replacing its program
        quiet = 0 if kill_carriers(sign) else quiet + 1
        time.sleep(0.01)
    supervisor.communicate()


def kill_carriers(sign: bytes) -> int:
    """Kill the live processes that have `sign` in their environment; returns how many there were."""
    killed = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if sign in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
        except OSError:
            continue
    return killed
