"""Overlap of the prompts that trajectories are collected from with what is evaluated, per pool and task.

Generated tasks are left out: their splits are disjoint by construction, and all their problems share sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline import facts
from pipeline.mixture import STAGE_SPLITS, deal
from pipeline.spec import Spec
from workers.tasks.overlap import WORDS, Overlap, overlaps


def evaluated_samples(spec: Spec) -> list[dict[str, Any]]:
    """The evaluated samples of every benchmark of a spec, as pools."""
    tasks = [task for task in spec.task if task not in facts.generated_tasks()]
    return [{"task": task, "split": "test", "first": 0, "count": spec.samples} for task in tasks]


def pool_overlaps(spec: Spec) -> Iterator[tuple[str, Overlap]]:
    """What each pool of the collect stage shares with each benchmark that is evaluated. Raises UserError (data)."""
    evaluated = {pool["task"]: facts.samples_of(**pool, data=spec.data) for pool in evaluated_samples(spec)}
    stage = spec.stages.collect
    for pool in deal(stage.task, STAGE_SPLITS["collect"], 0, stage.prompts) if evaluated else ():
        if pool["task"] not in facts.generated_tasks():
            for found in overlaps(facts.samples_of(**pool, data=spec.data), evaluated):
                yield f"{pool['task']}/{pool['split']}", found


def describe(pool: str, found: Overlap) -> str:
    if not found.ngrams:
        return f"the pool {pool} shares no run of {WORDS} words with the evaluated samples of {found.task}"
    return (
        f"the pool {pool} shares {found.ngrams} runs of {WORDS} words with {found.task}: "
        f"{found.prompts} of its prompts, {found.samples} of the evaluated samples"
    )
