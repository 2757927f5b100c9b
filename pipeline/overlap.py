"""Overlap of the prompts that trajectories are collected from with what is evaluated, per pool and task.

Generated tasks are left out: their splits are disjoint by construction, and all their problems share sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pipeline import facts
from pipeline.mixture import STAGE_SPLITS, deal
from pipeline.spec import Spec, Suite
from workers.tasks.overlap import WORDS, Overlap, overlaps


def evaluated_samples(spec: Spec | Suite) -> list[dict[str, Any]]:
    """The evaluated samples of every benchmark of a spec, as pools."""
    counts: dict[str, int] = {}
    for _, part in spec.parts:
        for task in part.task:
            if task not in facts.generated_tasks():
                counts[task] = max(part.samples, counts.get(task, 0))
    return [{"task": task, "split": "test", "first": 0, "count": count} for task, count in counts.items()]


def pool_overlaps(spec: Spec | Suite) -> Iterator[tuple[str, list[Overlap]]]:
    """What each pool of the collect stage shares with every benchmark that is evaluated. Raises UserError (data)."""
    data = {name: files for _, part in spec.parts for name, files in part.data.items()}
    evaluated = {pool["task"]: facts.samples_of(**pool, data=data) for pool in evaluated_samples(spec)}
    stages = [part.stages_of(label).collect for _, part in spec.parts for label in part.drafter if label != "none"]
    dealt = [pool for stage in stages for pool in deal(stage.task, STAGE_SPLITS["collect"], 0, stage.prompts)]
    pools = {json.dumps(pool): pool for pool in dealt if pool["task"] not in facts.generated_tasks()}
    for pool in pools.values() if evaluated else ():
        name = f"{pool['task']}/{pool['split']}"
        yield name, overlaps(facts.samples_of(**pool, data=data), evaluated)


def describe(pool: str, found: Iterable[Overlap]) -> str:
    """One line for a pool."""
    parts = []
    for one in found:
        shared = f" ({one.prompts} prompts of the pool, {one.samples} evaluated samples)" if one.ngrams else ""
        parts.append(f"{one.task} {one.ngrams}{shared}")
    return f"pool {pool}: runs of {WORDS} words shared with what is evaluated: {', '.join(parts)}"
