"""Overlap of the prompts that trajectories are collected from with what is evaluated, per pool and task.

Generated tasks are left out: their splits are disjoint by construction, and all their problems share sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pipeline import facts
from pipeline.mixture import STAGE_SPLITS, deal
from pipeline.spec import Spec
from workers.tasks.overlap import WORDS, Overlap, overlaps


def evaluated_samples(spec: Spec) -> list[dict[str, Any]]:
    """The evaluated samples of every benchmark of a spec, as pools."""
    tasks = [task for task in spec.task if task not in facts.generated_tasks()]
    return [{"task": task, "split": "test", "first": 0, "count": spec.samples} for task in tasks]


def pool_overlaps(spec: Spec) -> Iterator[tuple[str, list[Overlap]]]:
    """What each pool of the collect stage shares with every benchmark that is evaluated. Raises UserError (data)."""
    evaluated = {pool["task"]: facts.samples_of(**pool, data=spec.data) for pool in evaluated_samples(spec)}
    own = [spec.stages_of(label).collect for label in spec.drafter if label != "none"]
    pools = {
        json.dumps(pool): pool
        for stage in (own or [spec.stages.collect])
        for pool in deal(stage.task, STAGE_SPLITS["collect"], 0, stage.prompts)
    }
    for pool in pools.values() if evaluated else ():
        if pool["task"] not in facts.generated_tasks():
            name = f"{pool['task']}/{pool['split']}"
            yield name, overlaps(facts.samples_of(**pool, data=spec.data), evaluated)


def describe(pool: str, found: Iterable[Overlap]) -> str:
    """One line for a pool."""
    parts = []
    for one in found:
        shared = f" ({one.prompts} prompts of the pool, {one.samples} evaluated samples)" if one.ngrams else ""
        parts.append(f"{one.task} {one.ngrams}{shared}")
    return f"pool {pool}: runs of {WORDS} words shared with what is evaluated: {', '.join(parts)}"
