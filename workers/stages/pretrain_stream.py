"""What an embedded target is trained on: problems of the generated tasks, and arithmetic drills."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from workers.tasks import TASKS
from workers.tasks.tiny_math import step as arithmetic_step

WINDOW = 32
# Rows of the two phases, in turn. The second turns to what is learnt last: arithmetic.
FIRST_MIX = ("tiny-code", "tiny-math")
DRILL = "drill"
SECOND_MIX = (
    *("tiny-math", DRILL, "tiny-math", "tiny-code", "tiny-math"),
    *(DRILL, "tiny-math", DRILL, "tiny-math", "tiny-code"),
)
DRILL_WINDOWS = 3


@dataclass(frozen=True)
class Problem:
    """Token ids int64 of one training problem."""

    prompt: np.ndarray
    answer: np.ndarray


@dataclass(frozen=True)
class Drill:
    """Arithmetic facts back to back: token ids int64, and bool where a result stands."""

    tokens: np.ndarray
    results: np.ndarray


class Stream:
    """The training stream: row i of step s is the same on every machine and after every restart."""

    def __init__(self, tokenizer: Tokenizer, stop_id: int, mask_id: int, seed: int):
        self.tokenizer, self.stop_id, self.mask_id, self.seed = tokenizer, stop_id, mask_id, seed

    def rng(self, step: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, step])

    def rows(self, step: int, rows: int, second_phase: bool) -> list[Problem | Drill]:
        """What step `step` trains on; answers end with one stop token."""
        mix = SECOND_MIX if second_phase else FIRST_MIX
        found: list[Problem | Drill] = []
        for number in range(step * rows, (step + 1) * rows):
            kind = mix[number % len(mix)]
            if kind == DRILL:
                found.append(self._drill(number))
                continue
            # The second phase takes every number once; the first has used half as many of each task.
            sample = TASKS[kind].samples("train", number if second_phase else number // len(mix), 1)[0]
            answer = self.tokenizer.encode(sample.reference["solution"]).ids + [self.stop_id]
            found.append(Problem(np.array(self.tokenizer.encode(sample.prompt).ids), np.array(answer)))
        return found

    def _drill(self, number: int) -> Drill:
        """Sums and products as the solutions write them."""
        rng = random.Random(f"{self.seed}/{number}")
        tokens: list[int] = []
        results: list[bool] = []
        while len(tokens) < DRILL_WINDOWS * WINDOW:
            value = rng.choice((rng.randint(3, 20), rng.randint(1, 60)))
            _, operation, after = arithmetic_step(rng, value)
            question = self.tokenizer.encode(f" so {value} {operation} =").ids
            answer = self.tokenizer.encode(f" {after}").ids
            tokens += question + answer + self.tokenizer.encode(".").ids
            results += [False] * len(question) + [True] * len(answer) + [False]
        return Drill(np.array(tokens[: DRILL_WINDOWS * WINDOW]), np.array(results[: DRILL_WINDOWS * WINDOW]))
