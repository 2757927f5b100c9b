"""What the planner has to know of the world outside a spec: which targets and samples there are, and their digests.

Reads files only; imports no model code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.settings import TargetRef
from workers.errors import UserError
from workers.stages.versions import STAGE_VERSIONS
from workers.targets.digest import PACKAGED, target_digest, target_directory, tokenizer_file, weight_files
from workers.targets.families import family_of
from workers.tasks import BENCHMARKS, POOLS, TASKS, Data, Sample, get_task, samples_digest

# The block lengths at which a packaged target answers as well as at the one it was trained with.
BLOCK_LENGTHS = {"tiny-sdar": (16, 32), "tiny-llada": (16, 32)}
ORDER_MODEL = ("order_model.json", "order_model.safetensors")


class Facts:
    """Digests of targets and samples, each computed once."""

    def __init__(self) -> None:
        self.target_digest = cache(_target_digest)
        self.samples_digest = cache(_samples_digest)
        self.order_model_digest = cache(_order_model_digest)

    def has_weights(self, target: TargetRef) -> bool:
        """False only for a packaged target whose weights have not been built."""
        return target.checkpoint is not None or any(PACKAGED[target.name].glob("*.safetensors"))


def checkpoint_problem(target: TargetRef) -> str | None:
    """Why the checkpoint of a target of one's own cannot be used, None if it can as far as its files tell."""
    try:
        weight_files(target_directory(target.reference))
        config = target_config(target)
        if not config:
            return f"{target.checkpoint}: there is no config.json"
        where = f"{target.checkpoint}/config.json"
        family_of(config, where).read_config(config, where)
        tokenizer_file(target_directory(target.reference))
    except UserError as error:
        return str(error)
    return None


def target_config(target: TargetRef) -> dict[str, Any]:
    """The config.json of a target, {} if it has none or is not there. Raises UserError if it is not a JSON object."""
    directory = PACKAGED.get(target.name) if target.checkpoint is None else target_directory(target.reference)
    if directory is None or not (directory / "config.json").is_file():
        return {}
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{directory / 'config.json'}: cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise UserError(f"{directory / 'config.json'}: should be a JSON object")
    return config


def attention(target: TargetRef) -> str:
    """Who sees whom: "block-causal" or "full". A target whose config.json cannot be used counts as block-causal."""
    try:
        return family_of(target_config(target), target.name).attention
    except UserError:
        return "block-causal"


def max_positions(target: TargetRef) -> int | None:
    """Positions of the context, None if config.json does not tell."""
    try:
        config = target_config(target)
        return family_of(config, target.name).read_config(config, target.name).max_positions
    except UserError:
        return None


def executes_code(task: str) -> bool:
    return get_task(task).executes_code


def samples_of(task: str, split: str, first: int, count: int, data: Data | None = None) -> list[Sample]:
    """Fewer where a data set ends. Raises UserError if its data cannot be read."""
    return get_task(task, data).samples(split, first, count)


def count_samples(task: str, split: str, wanted: int, data: Data | None = None) -> int:
    """How many of the first `wanted` samples of a split exist."""
    return wanted if samples_of(task, split, wanted - 1, 1, data) else len(samples_of(task, split, 0, wanted, data))


def has_split(task: str, split: str, data: Data) -> bool:
    known = task in (*known_tasks(), *known_pools(), *data)
    return known and split in splits_of(task, data)


def splits_of(task: str, data: Data) -> tuple[str, ...]:
    return get_task(task, data).splits


def missing_module(task: str) -> str | None:
    """A module that scoring a task needs and that is not installed."""
    return next((name for name in get_task(task).needs if importlib.util.find_spec(name) is None), None)


def known_tasks() -> tuple[str, ...]:
    """Tasks that can be evaluated."""
    return (*TASKS, *BENCHMARKS)


def known_pools() -> tuple[str, ...]:
    """Public prompt pools; a spec may add its own under `data`."""
    return tuple(POOLS)


def generated_tasks() -> tuple[str, ...]:
    """Tasks that the project generates: endless, without data files, with disjoint splits."""
    return tuple(TASKS)


def published_splits(task: str) -> tuple[str, ...]:
    """The splits of a benchmark that have files of their own; none for a pool."""
    return tuple(BENCHMARKS[task].hub.splits) if task in BENCHMARKS else ()


def stage_version(kind: str) -> int:
    return STAGE_VERSIONS[kind]


def _target_digest(target: TargetRef) -> str:
    return target_digest(target.reference)


def order_model_problem(directory: str) -> str | None:
    """Why a directory holds no order model, None if it does as far as its files tell."""
    lost = [name for name in ORDER_MODEL if not (Path(directory) / name).is_file()]
    return f"{directory}: there is no {lost[0]}; the train stage writes one" if lost else None


def _order_model_digest(directory: str) -> str:
    digest = hashlib.sha256()
    for name in ORDER_MODEL:
        digest.update(hashlib.sha256((Path(directory) / name).read_bytes()).digest())
    return digest.hexdigest()


def _samples_digest(task: str, split: str, first: int, count: int, data: str | None = None) -> str:
    """`data` is JSON of what `get_task` takes, so that it can be a key of a cache."""
    return samples_digest(get_task(task, json.loads(data) if data else None), split, first, count)
