"""The Ray actor: one per device. It holds a loaded target and runs one stage at a time.

`Worker` is a plain class, which tests call directly; the driver wraps it with `ray.remote`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import platform
import shutil
import socket
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from ray.util.metrics import Gauge

from workers.errors import UserError
from workers.stages import EvaluationResult, run_stage
from workers.targets.load import load_target
from workers.targets.target import Target

PROGRESS_EVERY_S = 1.0
JOURNAL_WAIT_S = 60.0
METRICS = {
    "tok_s": "Generated tokens per second of the running evaluation",
    "nfe": "Target forwards per sample",
    "accepted": "Drafts accepted per round",
}


@dataclass(frozen=True)
class Order:
    """One node to run. All paths lie in the home, which every worker can reach.

    `artifact` is the directory to create (None for a measurement), `journal` the file from which a killed measurement
    or training goes on (None: it starts anew).
    """

    key: str
    kind: str
    label: str
    params: dict[str, Any]
    inputs: dict[str, Any]
    log: Path
    progress: Path
    artifact: Path | None = None
    journal: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of an order. `error` is one line, None if all went well; its traceback is in the log."""

    key: str
    seconds: float
    started_at: float
    error: str | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    result: EvaluationResult | None = None
    manifest: dict[str, Any] | None = None


class Worker:
    """Runs orders on one device. `cores`: the CPU cores to stay on, None to leave that to the system."""

    def __init__(self, name: str, threads: int, cores: list[int] | None = None) -> None:
        self.name = name
        self.threads = threads
        if cores:
            os.sched_setaffinity(0, cores)
        torch.set_num_threads(threads)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self._gauges = {key: Gauge(f"drafthouse_{key}", text, tag_keys=("node",)) for key, text in METRICS.items()}
        self._session = Session(self.device, self._gauges)

    def describe(self) -> dict[str, Any]:
        """The device and the software under it. Measurements are compared only within one `device_class`."""
        facts: dict[str, Any] = {"worker": self.name, "host": socket.gethostname(), "pid": os.getpid()}
        facts |= {"device": self.device, "dtype": self._session.dtype, "worker_torch": torch.__version__}
        if self.device == "cuda":
            facts |= {
                "device_class": torch.cuda.get_device_name(),
                "cuda": torch.version.cuda,
                "driver": _nvidia_driver(),
            }
        else:
            facts["device_class"] = f"{cpu_model()}, {self.threads} thread{'s' if self.threads > 1 else ''}"
        return facts

    def run(self, order: Order) -> Outcome:
        """Runs one node; never raises for an error of the stage, which comes back as `Outcome.error`."""
        started_at = time.time()
        begin = time.perf_counter()
        with _logging_to(order.log), contextlib.ExitStack() as cleanup:
            log = logging.getLogger("drafthouse")
            log.info("%s starts on %s (%s)", order.label, self.name, self.device)
            try:
                if order.journal:
                    cleanup.enter_context(_only_writer(order.journal))
                outcome = self._run(order)
            except Exception as error:  # a failed node must not take the worker and its loaded target down
                log.error("%s failed\n%s", order.label, traceback.format_exc())
                outcome = {"error": _one_line(error)}
                self._session = Session(self.device, self._gauges)  # frees memory that a failed stage may still hold
                if self.device == "cuda":
                    torch.cuda.empty_cache()
            seconds = time.perf_counter() - begin
            log.info("%s ended after %.1f s", order.label, seconds)
        order.progress.unlink(missing_ok=True)
        return Outcome(key=order.key, seconds=seconds, started_at=started_at, **outcome)

    def _run(self, order: Order) -> dict[str, Any]:
        self._session.take(order)
        if order.artifact is None:
            result = run_stage(order.kind, order.params, order.inputs, None, self._session)
            self._session.show({**result.summary, "accepted": result.summary["accepted_per_round_pooled"]})
            return {"summary": result.summary, "result": result}
        temporary = order.artifact.with_name(f".tmp-{order.artifact.name[:16]}-{socket.gethostname()}-{os.getpid()}")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            summary = run_stage(order.kind, order.params, order.inputs, temporary, self._session)
            manifest = write_manifest(temporary, order.kind, order.label, summary)
            if order.artifact.exists():  # an earlier worker, thought dead, was faster; its content is as good
                shutil.rmtree(order.artifact)
            temporary.rename(order.artifact)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return {"summary": summary, "manifest": manifest}


class Session:
    """What a worker lends its stages (see `workers.stages.StageSession`): the loaded target outlives the order."""

    def __init__(self, device: str, gauges: dict[str, Gauge]) -> None:
        self.device = device
        self.dtype = "bfloat16" if device == "cuda" else "float32"
        self.journal: Path | None = None
        self._gauges = gauges
        self._order: Order | None = None
        self._reported = 0.0
        self._target: tuple[str, Target] | None = None

    def take(self, order: Order) -> None:
        self._order = order
        self._reported = 0.0
        self.journal = order.journal

    def target(self, reference: dict | str, block_length: int) -> Target:
        """The target, loaded if the worker does not hold it yet; it holds one at a time, since targets fill memory."""
        key = json.dumps([reference, block_length], sort_keys=True)
        if self._target is None or self._target[0] != key:
            self._target = None
            self._target = (key, load_target(reference, block_length, self.device, self.dtype))
        return self._target[1]

    def progress(self, done: int, total: int, **figures: float) -> None:
        """Passes a stage's progress on to a file that the driver reads and to Ray's metrics; at most once a second."""
        now = time.monotonic()
        if self._order is None or (now - self._reported < PROGRESS_EVERY_S and done < total):
            return
        self._reported = now
        path = self._order.progress
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"key": self._order.key, "done": done, "total": total, "figures": figures}))
        temporary.replace(path)
        self.show(figures)

    def show(self, figures: Mapping[str, Any]) -> None:
        """Sets Ray's metrics for the current order."""
        for key, gauge in self._gauges.items():
            if self._order is not None and figures.get(key) is not None:
                gauge.set(figures[key], tags={"node": self._order.label})


def write_manifest(directory: Path, kind: str, label: str, summary: dict[str, Any]) -> dict[str, Any]:
    """Lists every file of an artifact with size and sha256 in manifest.json, flushed to disk, and returns it."""
    files = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        files[path.relative_to(directory).as_posix()] = {"bytes": path.stat().st_size, "sha256": digest}
    manifest = {"kind": kind, "label": label, "files": files, "summary": summary}
    with (directory / "manifest.json").open("w") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    return manifest


@contextlib.contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        handler.close()


@contextlib.contextmanager
def _only_writer(journal: Path) -> Iterator[None]:
    """Keeps a worker of a killed submit, which may live some seconds longer, from writing to the same journal."""
    with journal.open("a") as lock:
        deadline = time.monotonic() + JOURNAL_WAIT_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UserError(f"{journal} is still being written by another process; stop that process") from None
                time.sleep(0.2)
        yield


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def cpu_model() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _nvidia_driver() -> str | None:
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/version") as file:
        return file.readline().strip()
    return None
