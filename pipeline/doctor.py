"""Checks that this machine can run a submit, each with a line that says what to do about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from pipeline.control_files import read_beat
from pipeline.provenance import PACKAGES
from warehouse import WarehouseError, connect
from workers.errors import UserError
from workers.targets.digest import PACKAGED, target_digest

LEAST_FREE_GB = 2.0
LEAST_MEMORY_GB = 6.0
RAY_CHECK = """
import ray
options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
ray.init(address="local", num_cpus=1, object_store_memory=100_000_000, **options)
assert ray.get(ray.remote(lambda: 1).remote()) == 1
ray.shutdown()
"""
GPU_CHECK = (
    "import torch; print(*(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())), sep=', ')"
)


@dataclass(frozen=True)
class Check:
    """One finding. `ok` None means: worth knowing, not a fault."""

    name: str
    ok: bool | None
    text: str


def examine(home: Path, start_ray: bool = True) -> Iterator[Check]:
    """Yields the findings one by one, the quick ones first; `start_ray` False skips the slow start of Ray."""
    yield _python()
    yield from map(_package, PACKAGES)
    yield _memory()
    yield _writable(home)
    yield _disk(home)
    yield _warehouse(home)
    yield _driver(home)
    yield from map(_embedded_target, sorted(PACKAGED))
    yield _gpu()
    if start_ray:
        yield _subprocess(
            "ray starts", RAY_CHECK, "a worker answered", "see the message; `pip install 'ray[default]'` may help"
        )


def _python() -> Check:
    return Check("python", sys.version_info >= (3, 11), f"{sys.version.split()[0]} (3.11 or newer is needed)")


def _package(name: str) -> Check:
    try:
        return Check(name, True, version(name))
    except PackageNotFoundError:
        return Check(name, False, f"missing: pip install {name}")


def _memory() -> Check:
    free = psutil.virtual_memory().available / 2**30
    return Check(
        "memory",
        free >= LEAST_MEMORY_GB,
        f"{free:.1f} GB available ({LEAST_MEMORY_GB:.0f} GB are enough for the embedded target)",
    )


def _writable(home: Path) -> Check:
    place = _existing(home)
    text = str(home) if home.exists() else f"{home} (will be created)"
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return Check("home", True, text)
    return Check("home", False, f"{place} is not a writable directory; choose another with --home or DRAFTHOUSE_HOME")


def _disk(home: Path) -> Check:
    free = shutil.disk_usage(_existing(home)).free / 2**30
    return Check("disk", free >= LEAST_FREE_GB, f"{free:.1f} GB free at {home}")


def _warehouse(home: Path) -> Check:
    if not (home / "snapshot.duckdb").exists():
        return Check("warehouse", None, "none yet; the first submit creates it")
    try:
        with connect(home) as connection:
            [(runs,)] = connection.execute("select count(*) from runs").fetchall()
    except WarehouseError as error:
        return Check("warehouse", False, str(error))
    return Check("warehouse", True, f"{runs} runs readable")


def _driver(home: Path) -> Check:
    beat = read_beat(home)
    if beat is not None and beat.alive:
        return Check("submit", None, f"{beat.experiment} is running (process {beat.pid} on {beat.host})")
    return Check("submit", None, "none is running on this home")


def _embedded_target(name: str) -> Check:
    try:
        return Check(name, True, f"weights {target_digest(name)[:16]}")
    except (UserError, OSError) as error:
        return Check(name, False, str(error))


def _gpu() -> Check:
    found = _subprocess("gpu", GPU_CHECK, "", "torch cannot be imported")
    if not found.ok:
        return found
    return Check("gpu", True, found.text) if found.text else Check("gpu", None, "none; the CPU will be used")


def _subprocess(name: str, code: str, good: str, fix: str) -> Check:
    """Runs `code` in another interpreter, so that a crash or a leftover of it cannot hurt this one."""
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)
    except subprocess.TimeoutExpired:
        return Check(name, False, f"no answer within 90 s; {fix}")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return Check(name, False, f"{lines[-1]}; {fix}")
    return Check(name, True, good or done.stdout.strip())


def _existing(home: Path) -> Path:
    place = home.absolute()
    while not place.exists():
        place = place.parent
    return place
