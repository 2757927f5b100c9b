"""Tasks and prompt pools by name; light, no model library. TASKS are those that the project generates."""

from __future__ import annotations

from collections.abc import Mapping

from workers.errors import UserError
from workers.tasks.gsm8k import GSM8K
from workers.tasks.generated import SPLITS
from workers.tasks.humaneval import HUMANEVAL
from workers.tasks.ifeval import IFEVAL
from workers.tasks.math500 import MATH500
from workers.tasks.mbpp import MBPP
from workers.tasks.pools import POOLS, pool_task
from workers.tasks.sample import Sample, Score, Task, check_samples, samples_digest
from workers.tasks.tiny_code import TINY_CODE
from workers.tasks.tiny_math import TINY_MATH

TASKS = {task.name: task for task in (TINY_MATH, TINY_CODE)}
BENCHMARKS = {benchmark.name: benchmark for benchmark in (GSM8K, MBPP, HUMANEVAL, MATH500, IFEVAL)}

# Where the data of benchmarks and pools is: a file, or a file for each published split; the rest is on the hub.
Data = Mapping[str, "str | Mapping[str, str]"]


def get_task(name: str, data: Data | None = None) -> Task:
    """The task or pool of that name, which may be one that only `data` knows; raises UserError that lists the known
    ones."""
    data = data or {}
    if name in TASKS:
        return TASKS[name]
    if name in BENCHMARKS:
        return BENCHMARKS[name].task(data.get(name))
    if name in POOLS or name in data:
        return pool_task(name, data.get(name))
    raise UserError(f"unknown task '{name}': known are {', '.join([*sorted(TASKS), *BENCHMARKS, *POOLS])}")


__all__ = [
    "BENCHMARKS",
    "POOLS",
    "SPLITS",
    "TASKS",
    "Data",
    "Sample",
    "Score",
    "Task",
    "check_samples",
    "get_task",
    "samples_digest",
]
