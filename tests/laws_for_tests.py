"""The exact law of one small block, and how often a verifier really produces each outcome."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import torch
from scipy import stats
from targets_for_tests import random_target

from workers.decoding import loop
from workers.decoding.context import PrefixContext
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings, Round
from workers.decoding.transition import Transition
from workers.drafters import Drafter
from workers.verifiers import Verifier
from workers.verifiers.checks import chi_square

LENGTH, VOCAB, MASK = 4, 4, 3
TARGET = random_target(13, layers=1, hidden=16, vocab=VOCAB, block_length=LENGTH, sharpness=2.0)
EMPTY = np.full(LENGTH, MASK)


class Remembered:
    """The target's real logits, computed once per state."""

    def __init__(self):
        self.context = PrefixContext(TARGET, LENGTH)
        self.known: dict[bytes, torch.Tensor] = {}

    def forward(self, states: np.ndarray, start: int) -> torch.Tensor:
        for state in states:
            if state.tobytes() not in self.known:
                self.known[state.tobytes()] = self.context.forward(state[None], start)[0]
        return torch.stack([self.known[state.tobytes()] for state in states])


CONTEXT = Remembered()


def law(temperature: float, state: np.ndarray = EMPTY) -> dict[bytes, float]:
    """Probability of every full block under draft-free temperature sampling, by enumeration (no noise involved)."""
    masked = state == MASK
    if not masked.any():
        return {state.tobytes(): 1.0}
    logits = CONTEXT.forward(state[None], 0)[0].double()
    confidence = np.where(masked, torch.softmax(logits.float(), dim=-1).amax(dim=-1).numpy(), -1)
    position = int(confidence.argmax())
    found: dict[bytes, float] = {}
    for token, probability in enumerate(torch.softmax(logits[position] / temperature, dim=-1).tolist()):
        if probability:
            after = state.copy()
            after[position] = token
            for block, rest in law(temperature, after).items():
                found[block] = found.get(block, 0.0) + probability * rest
    return found


def p_value(
    drafter: Drafter,
    verifier: Verifier,
    temperature: float,
    trials: int,
    budget: int = 8,
    transition: type[Transition] = Transition,
) -> tuple[float, float]:
    """Chi-square of the blocks that `trials` decodes produce against the exact law, and the mean number of forwards."""
    settings = DecodeSettings(LENGTH, budget=budget, temperature=temperature)
    counts: Counter[bytes] = Counter()
    forwards = 0
    for trial in range(trials):
        noise = GumbelNoise(0, f"trial {trial}", VOCAB)
        with patch.object(loop, "Transition", transition):
            decoder = loop.BlockDecoder(TARGET, settings, CONTEXT, noise, drafter, verifier)
        rounds: list[Round] = []
        counts[decoder.decode(0, 0, EMPTY, rounds)[0].tobytes()] += 1
        forwards += len(rounds)
    expected = law(temperature)
    assert set(counts) <= set(expected)
    statistic, dof = chi_square(np.array([counts[block] for block in expected]), np.array(list(expected.values())))
    return stats.chi2.sf(statistic, dof), forwards / trials
