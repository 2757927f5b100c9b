"""What a task is made of: samples, scores, and the one interface that generated tasks, benchmarks and pools share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from workers.errors import UserError


@dataclass(frozen=True)
class Sample:
    """One prompt; `reference` (JSON-able) holds what the scorer needs.

    The prompt is what a user says: a target whose tokenizer has a chat template puts it into one. problem: the prompt
    without instructions and examples that every sample shares; the same as the prompt if there are none.
    """

    id: str
    prompt: str
    reference: dict = field(default_factory=dict)
    problem: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "problem", self.problem or self.prompt)


@dataclass(frozen=True)
class Score:
    """`correct` is the headline, which accuracy counts; `metrics` are further named figures of the same output."""

    correct: bool
    metrics: dict[str, bool | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """Something to take prompts from and, unless it is a pool, to score outputs with.

    splits: those it has, out of train, pool, calibration and test. samples(split, first, count): samples first ..
    first + count - 1 of a split, the same on every machine, fewer where a data set ends. Raises UserError if the data
    cannot be read. score(sample, output): the output is the text up to the first stop token; None for a pool. version:
    raised when prompts or scores change. needs: modules that scoring imports.
    """

    name: str
    version: int
    executes_code: bool
    splits: tuple[str, ...]
    samples: Callable[[str, int, int], list[Sample]]
    score: Callable[[Sample, str], Score] | None
    needs: tuple[str, ...] = ()


def samples_digest(task: Task, split: str, first: int, count: int) -> str:
    """`digest_of` the samples first .. first + count - 1 of a split."""
    return digest_of(task, task.samples(split, first, count))


def digest_of(task: Task, samples: Iterable[Sample]) -> str:
    """SHA-256 (hex) over ids, prompts and references: changes whenever the data does, never with its place."""
    digest = hashlib.sha256(f"{task.name}/{task.version}".encode())
    for sample in samples:
        digest.update(json.dumps([sample.id, sample.prompt, sample.reference], sort_keys=True).encode())
    return digest.hexdigest()


def check_samples(task: Task, samples: Iterable[Sample], planned: str | None) -> None:
    """Raises UserError if the samples are not those of the digest that a plan was made with; None checks nothing."""
    if planned is not None and digest_of(task, samples) != planned:
        raise UserError(
            f"the data of '{task.name}' has changed since the plan was made, or differs on this machine; submit again"
        )
