"""What a task is made of: samples, splits decided by the prompt, and the interface of a task."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from typing import Callable

# Upper ends of each split's share of the prompt hash, in hundredths.
SPLITS = {"train": 60, "pool": 80, "calibration": 90, "test": 100}


@dataclass(frozen=True)
class Sample:
    """One prompt; `reference` (JSON-able) holds what the scorer needs and a worked `solution`."""

    id: str
    prompt: str
    reference: dict


@dataclass(frozen=True)
class Task:
    """A task family.

    `generate(rng)` returns (prompt, reference); `check(sample, output)` tells whether an output solves the sample.
    The output is the text up to the first stop token.
    """

    name: str
    version: int
    executes_code: bool
    generate: Callable[[random.Random], tuple[str, dict]]
    check: Callable[[Sample, str], bool]

    def samples(self, split: str, first: int, count: int) -> list[Sample]:
        """Samples first .. first + count - 1 of a split, the same on every machine; raises KeyError (unknown split)."""
        SPLITS[split]
        return [self._sample(split, index) for index in range(first, first + count)]

    def score(self, sample: Sample, output: str) -> bool:
        return self.check(sample, output)

    def _sample(self, split: str, index: int) -> Sample:
        rng = random.Random(f"{self.name}/{self.version}/{split}/{index}")
        while True:
            prompt, reference = self.generate(rng)
            if split_of(prompt) == split:
                return Sample(f"{self.name}/{split}/{index}", prompt, reference)


def split_of(prompt: str) -> str:
    """The one split a prompt belongs to, so that no held-out problem can be in the training stream."""
    bucket = int.from_bytes(hashlib.blake2b(prompt.encode(), digest_size=8).digest(), "big") % 100
    return next(split for split, end in SPLITS.items() if bucket < end)


def samples_digest(task: Task, split: str, first: int, count: int) -> str:
    """SHA-256 (hex) over ids, prompts and references: changes whenever the data does."""
    digest = hashlib.sha256(f"{task.name}/{task.version}".encode())
    for sample in task.samples(split, first, count):
        digest.update(json.dumps([sample.id, sample.prompt, sample.reference], sort_keys=True).encode())
    return digest.hexdigest()
