"""What the planner has to know of the world outside a spec: which targets and samples there are, and their digests.

Reads small files only; imports no model code.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.settings import TargetRef

# Packaged targets and the block length each was trained with.
PACKAGED = {"tiny-sdar": 32}


class Facts:
    """Digests of targets and samples, each computed once."""

    def __init__(self) -> None:
        self.target_digest = cache(_target_digest)
        self.samples_digest = cache(_samples_digest)

    def has_weights(self, target: TargetRef) -> bool:
        """False only for a packaged target whose weights have not been built."""
        return any(target_directory(target).glob("*.safetensors"))


def target_directory(target: TargetRef) -> Path:
    from workers import targets

    return Path(targets.__file__).parent / target.name if target.checkpoint is None else Path(target.checkpoint)


def target_config(target: TargetRef) -> dict[str, Any]:
    """The config.json of a target, {} if there is none yet."""
    path = target_directory(target) / "config.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def known_tasks() -> tuple[str, ...]:
    from workers.tasks import TASKS

    return tuple(TASKS)


def executes_code(task: str) -> bool:
    from workers.tasks import get_task

    return get_task(task).executes_code


def count_samples(task: str, split: str, wanted: int) -> int:
    """How many of the first `wanted` samples of a split exist."""
    from workers.tasks import get_task

    samples = get_task(task).samples
    return wanted if samples(split, wanted - 1, 1) else len(samples(split, 0, wanted))


def stage_version(kind: str) -> int:
    from workers.stages.versions import STAGE_VERSIONS

    return STAGE_VERSIONS[kind]


def _target_digest(target: TargetRef) -> str:
    from workers.targets.digest import target_digest

    return target_digest(target.reference)


def _samples_digest(task: str, split: str, first: int, count: int) -> str:
    from workers.tasks import get_task, samples_digest

    return samples_digest(get_task(task), split, first, count)
