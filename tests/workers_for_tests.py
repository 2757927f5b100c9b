"""Workers that misbehave on purpose."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from workers.actor import Order, Outcome, Worker

# Lets a process run 10 ms of every 100 ms, as a machine does that is busy with something else.
BRAKE = """
import os, signal, sys, time
pid = int(sys.argv[1])
while True:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.09)
    os.kill(pid, signal.SIGCONT)
    time.sleep(0.01)
"""


class SlowWorker(Worker):
    """Is held up during the first timing of the control of seed 1."""

    def run(self, order: Order) -> Outcome:
        if "/control/" not in order.label or not order.label.endswith("/s1") or not order.key.endswith("-0"):
            return super().run(order)
        brake = subprocess.Popen([sys.executable, "-c", BRAKE, str(self.describe()["pid"])])
        try:
            return super().run(order)
        finally:
            brake.kill()
            brake.wait()


class FaultyWorker(Worker):
    """Cannot train."""

    def _run(self, order: Order) -> dict[str, Any]:
        if order.kind == "train":
            raise ValueError("no luck\nat all")
        return super()._run(order)
