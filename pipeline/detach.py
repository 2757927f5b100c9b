"""`submit --detach`: the same command in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from pipeline.control_files import read_beat
from pipeline.driver import FAILED, OK
from pipeline.spec import Spec, Suite
from pipeline.standing import check_writable
from workers.errors import UserError

WAIT_S = 60.0


def start_detached(spec: Spec | Suite, home: Path, arguments: list[str]) -> str:
    """Starts the submit and waits until it beats or has ended; returns what to tell the user.

    Raises UserError with the last line of its output if it ended with an error of usage.
    """
    check_writable(home)
    (home / "logs").mkdir(parents=True, exist_ok=True)
    log = home / "logs" / f"submit-{spec.name}.log"
    command = [sys.executable, "-m", "pipeline", "submit", *arguments, "--home", str(home)]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        code = process.poll()
        if code not in (None, OK, FAILED):
            lines = log.read_text().strip().splitlines() or [f"exit code {code}"]
            raise UserError(lines[-1].removeprefix("error: "))
        beat = read_beat(home)
        if code is not None or (beat is not None and beat.pid == process.pid):
            break
        time.sleep(0.2)
    where = f"`status` shows how far it is, its output is in {log}"
    return f"{spec.name} runs in the background (process {process.pid}); {where}"
