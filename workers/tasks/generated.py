"""Tasks that the project generates: endless, with splits that the prompt decides."""

from __future__ import annotations

import hashlib
import random
from typing import Callable

from workers.tasks.sample import Sample, Score, Task

# Upper ends of each split's share of the prompt hash, in hundredths.
SPLITS = {"train": 60, "pool": 80, "calibration": 90, "test": 100}

Generate = Callable[[random.Random], tuple[str, dict]]


def generated(
    name: str, version: int, executes_code: bool, generate: Generate, check: Callable[[Sample, str], bool]
) -> Task:
    """The task of a generator of (prompt, reference) and a check of outputs; references hold a worked `solution`."""

    def sample(split: str, index: int) -> Sample:
        rng = random.Random(f"{name}/{version}/{split}/{index}")
        while True:
            prompt, reference = generate(rng)
            if split_of(prompt) == split:
                return Sample(f"{name}/{split}/{index}", prompt, reference)

    def samples(split: str, first: int, count: int) -> list[Sample]:
        SPLITS[split]
        return [sample(split, index) for index in range(first, first + count)]

    def score(sample: Sample, output: str) -> Score:
        return Score(check(sample, output))

    return Task(name, version, executes_code, tuple(SPLITS), samples, score)


def split_of(prompt: str) -> str:
    """The one split a prompt belongs to, so that no held-out problem can be in the training stream."""
    bucket = int.from_bytes(hashlib.blake2b(prompt.encode(), digest_size=8).digest(), "big") % 100
    return next(split for split, end in SPLITS.items() if bucket < end)
