"""Coupled match: drafter and target share the Gumbel noise of each position."""

from __future__ import annotations

import numpy as np

from workers.decoding.conditionals import Conditionals
from workers.decoding.noise import RoundNoise
from workers.decoding.transition import Step
from workers.decoding.tree import DraftTree
from workers.drafters import Hedge
from workers.verifiers import Walk
from workers.verifiers.candidates import most_probable, perturbed
from workers.verifiers.follow import follow


class Coupled:
    """Exact at every temperature (SPOT, proposition 2): given the noise, the target's transition is deterministic."""

    name = "coupled"

    def exact(self, temperature: float) -> bool:
        return True

    def hypotheses(
        self, stale: Conditionals, temperature: float, noise: RoundNoise | None, hedge: Hedge
    ) -> tuple[np.ndarray, np.ndarray]:
        if noise is None:
            return most_probable(stale, hedge)
        return perturbed(stale, temperature, noise.rows, hedge)

    def walk(self, tree: DraftTree, step: Step) -> Walk:
        return follow(tree, step, accept=step.sampled, bonus=step.sampled)


def build() -> Coupled:
    return Coupled()
