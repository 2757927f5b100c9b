"""The target's transition: one forward at a state gives the next state (SPOT, section 4.1)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from workers.decoding.commit import CommitRule
from workers.decoding.conditionals import Conditionals
from workers.decoding.noise import GumbelNoise, RoundNoise


class Step:
    """The target's transition at R states of one block, from one forward.

    states int64 [R, L]; logits fp32 [R, L, V], the mask id at -inf; committed bool [R, L]; confidence fp32 [R, L], the
    largest untempered probability of every position, masked or not (`confidences`: the same on the target's device).
    noise: None at T=0; stale: what the drafts among the states were made from, if any are.
    """

    def __init__(
        self,
        states: np.ndarray,
        logits: Tensor,
        mask_id: int,
        rule: CommitRule,
        temperature: float,
        noise: RoundNoise | None,
        stale: Conditionals | None = None,
    ):
        self.states = states
        self.logits = logits
        self.masked = states == mask_id
        self.confidences = torch.softmax(logits, dim=-1).amax(dim=-1)
        self.confidence = self.confidences.cpu().numpy()
        self.committed = rule(self.confidence, self.masked)
        self.temperature = temperature
        self.noise = noise
        self.stale = stale

    def positions(self, replica: int) -> np.ndarray:
        """int64 [N]: what `replica` commits, by falling confidence, ties to the lowest index."""
        committed = np.flatnonzero(self.committed[replica])
        return committed[np.argsort(-self.confidence[replica, committed], kind="stable")]

    @cached_property
    def greedy(self) -> np.ndarray:
        """int64 [R, L]: next states if every commit takes the most probable token."""
        return self._fill(None)

    @cached_property
    def sampled(self) -> np.ndarray:
        """int64 [R, L]: next states under the target's own noise; at T=0 the greedy ones."""
        return self.greedy if self.noise is None else self._fill(self.noise.rows)

    def _fill(self, noise_rows: Tensor | None) -> np.ndarray:
        replicas, positions = np.nonzero(self.committed)
        logits = self.logits[torch.from_numpy(replicas), torch.from_numpy(positions)]
        if noise_rows is not None:
            # log p and the logits differ by a constant per row, which no argmax sees.
            logits = torch.add(noise_rows[torch.from_numpy(positions)], logits, alpha=1 / self.temperature)
        filled = self.states.copy()
        filled[replicas, positions] = logits.argmax(dim=-1).cpu().numpy()
        return filled


class Transition:
    """Φ of one sample: position choice untempered and without noise, tokens by argmax(log p / T + G) at T>0.

    The noise rows of a block are drawn once, when `open_block` is called. noise: of the current round, None at T=0.
    """

    def __init__(self, rule: CommitRule, temperature: float, noise: GumbelNoise, mask_id: int, device: torch.device):
        self._rule = rule
        self._noise = noise
        self._mask_id = mask_id
        self._device = device
        self.temperature = temperature
        self.noise: RoundNoise | None = None

    def open_block(self, start: int, length: int) -> None:
        """Draw the noise of the block at absolute positions start .. start + length - 1 (nothing at T=0)."""
        if self.temperature > 0:
            self._start = start
            rows = self._noise.rows(start, length).to(self._device)
            self.noise = RoundNoise(rows, np.empty((3, 0)))

    def open_round(self, round: int) -> None:
        """Draw what is fresh in every round of the open block; `round` is a number no other round of the sample has."""
        if self.noise is not None:
            rows = self.noise.rows
            self.noise = RoundNoise(rows, self._noise.uniforms(self._start, round, (3, len(rows))))

    def step(self, states: np.ndarray, logits: Tensor, stale: Conditionals | None = None) -> Step:
        """The transition at states int64 [R, L] with the logits fp32 [R, L, V] of a forward over them."""
        return Step(states, logits, self._mask_id, self._rule, self.temperature, self.noise, stale)
