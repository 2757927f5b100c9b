"""The task families that the project generates; light, pure Python."""

from __future__ import annotations

from workers.errors import UserError
from workers.tasks.sample import SPLITS, Sample, Task, samples_digest
from workers.tasks.tiny_code import TINY_CODE
from workers.tasks.tiny_math import TINY_MATH

TASKS = {task.name: task for task in (TINY_MATH, TINY_CODE)}


def get_task(name: str) -> Task:
    """The task of that name; raises UserError that lists the known ones."""
    if name not in TASKS:
        raise UserError(f"unknown task '{name}': known tasks are {', '.join(sorted(TASKS))}")
    return TASKS[name]


__all__ = ["SPLITS", "TASKS", "Sample", "Task", "get_task", "samples_digest"]
