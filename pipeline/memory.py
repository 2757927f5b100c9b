"""Whether this machine can hold the targets of a spec, told before anything starts. Reads files and system figures only."""

from __future__ import annotations

import os
import shutil
import subprocess

import psutil

from pipeline import facts
from pipeline.settings import TargetRef
from pipeline.spec import Spec, Suite
from workers.errors import UserError
from workers.targets.digest import target_directory
from workers.targets.families import family_of
from workers.targets.size import cache_bytes, parameter_count

GB = 1e9
SMALL = 1 * GB  # below this nobody asks
WAYS_OUT = "use a machine that holds it, a smaller target, or a cluster (RAY_ADDRESS)"
GPU_WIDTH, CPU_WIDTH = 2, 4  # bytes per number: bf16 on GPUs, fp32 elsewhere


def check_memory(spec: Spec | Suite, address: str | None = None) -> None:
    """Raise UserError that names what is needed and what is there, if a worker here cannot hold one of the targets.

    Counted are the weights and the keys and values of one evaluation. Of a cluster (`address`, RAY_ADDRESS) nothing is
    known.
    """
    if address or os.environ.get("RAY_ADDRESS"):
        return
    positions: dict[TargetRef, int] = {}
    for _, part in spec.parts:
        longest = (1 + max(part.budget, default=0)) * max(part.generation_length)
        positions |= {target: max(longest, positions.get(target, 0)) for target in part.targets}
    parameters = {target: _parameters(target) for target in positions}
    if max(parameters.values()) * CPU_WIDTH < SMALL:
        return
    gpu = gpu_memory()
    for target, longest in positions.items():
        width = CPU_WIDTH if gpu is None else GPU_WIDTH
        weights = parameters[target] * width
        needed = weights + _cache(target, longest, width)
        of_weights = f"{weights / GB:.1f} GB of weights in {_dtype(width)}"
        what = f"target '{target.name}' needs about {needed / GB:.1f} GB ({of_weights})"
        if gpu is not None:
            if needed > gpu:
                raise UserError(f"{what}, a GPU of this machine has {gpu / GB:.1f} GB; {WAYS_OUT}")
            continue
        free = psutil.virtual_memory().available
        if needed > free:
            raise UserError(
                f"{what}, this machine has no GPU and {free / GB:.1f} GB of free memory; {WAYS_OUT}"
            )
        if needed * (workers := _cpu_workers(spec)) > free:
            raise UserError(
                f"{what} in each of {workers} workers, this machine has {free / GB:.1f} GB of free memory; set "
                f"execution.actors to {int(free // needed)}"
            )


def gpu_memory() -> int | None:
    """Bytes of the smallest GPU that may be used, None without one."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible == "" or not (command := shutil.which("nvidia-smi")):
        return None
    query = [command, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
        return min(int(line) for line in answer.split("\n") if line.strip()) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _parameters(target: TargetRef) -> int:
    if target.checkpoint is None and not facts.Facts().has_weights(target):
        return 0  # packaged targets are small
    return parameter_count(target_directory(target.reference))


def _cache(target: TargetRef, positions: int, width: int) -> int:
    config = facts.target_config(target)
    shape = family_of(config, target.name).read_config(config, target.name)
    return cache_bytes(shape, positions, width)


def _cpu_workers(spec: Spec | Suite) -> int:
    if spec.execution.actors != "auto":
        return spec.execution.actors
    return max(1, len(os.sched_getaffinity(0)) // spec.execution.threads)


def _dtype(width: int) -> str:
    return "bf16" if width == GPU_WIDTH else "fp32"
