"""Workers that misbehave on purpose."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pyarrow as pa

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


class LyingWorker(Worker):
    """Changes the last token of every sample of the method chain."""

    def _run(self, order: Order) -> dict[str, Any]:
        done = super()._run(order)
        if "/chain/" in order.label:
            samples = done["result"].samples
            changed = pa.array([[*tokens[:-1], tokens[-1] + 1] for tokens in samples["tokens"].to_pylist()])
            index = samples.column_names.index("tokens")
            tokens = changed.cast(samples["tokens"].type)
            done["result"] = replace(done["result"], samples=samples.set_column(index, "tokens", tokens))
        return done


class DyingPretrainer(Worker):
    """Dies with a checkpoint in the middle of the training, and fails when it is to go on from one."""

    def _run(self, order: Order) -> dict[str, Any]:
        checkpoint = order.journal.with_suffix(".safetensors")
        if checkpoint.exists():
            raise ValueError(f"would go on from {checkpoint.read_text()}")
        checkpoint.write_text("half way")
        os._exit(1)
