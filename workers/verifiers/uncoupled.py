"""Uncoupled match: the drafter proposes without the noise, the target's own draw decides."""

from __future__ import annotations

import numpy as np

from workers.decoding.conditionals import Conditionals
from workers.decoding.noise import RoundNoise
from workers.decoding.transition import Step
from workers.decoding.tree import DraftTree
from workers.drafters import Hedge
from workers.verifiers import Walk
from workers.verifiers.candidates import most_probable
from workers.verifiers.follow import follow


class Uncoupled:
    """Exact at every temperature: whatever was drafted, each commit is the target's own draw (SPOT, section 3.2)."""

    name = "uncoupled"

    def exact(self, temperature: float) -> bool:
        return True

    def hypotheses(
        self, stale: Conditionals, temperature: float, noise: RoundNoise | None, hedge: Hedge
    ) -> tuple[np.ndarray, np.ndarray]:
        return most_probable(stale, hedge)

    def walk(self, tree: DraftTree, step: Step) -> Walk:
        return follow(tree, step, accept=step.sampled, bonus=step.sampled)


def build() -> Uncoupled:
    return Uncoupled()
