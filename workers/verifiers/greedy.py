"""Greedy match: accept a drafted state iff it equals the target's argmax commit."""

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


class Greedy:
    """Exact at T=0 (SPOT, proposition 1). At T>0 accepted tokens are argmaxes and only the bonus commit is drawn."""

    name = "greedy"

    def exact(self, temperature: float) -> bool:
        return temperature == 0

    def hypotheses(
        self, stale: Conditionals, temperature: float, noise: RoundNoise | None, hedge: Hedge
    ) -> tuple[np.ndarray, np.ndarray]:
        return most_probable(stale, hedge)

    def walk(self, tree: DraftTree, step: Step) -> Walk:
        return follow(tree, step, accept=step.greedy, bonus=step.sampled)


def build() -> Greedy:
    return Greedy()
