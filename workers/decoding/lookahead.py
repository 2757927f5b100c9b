"""The target's own future, for oracle drafters: draft-free forwards that are in no account."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from workers.decoding.context import Context
from workers.decoding.transition import Transition


class Lookahead:
    """States that draft-free decoding goes through from here to the end of the block.

    Given the noise the future is a function of the state (SPOT, section 4.3), so one look-ahead serves all rounds of a
    block whose verifier keeps to it; from a state off that trajectory the target is run anew. Its forwards are not NFE,
    and `seconds` (their total so far) is what wall and draft time must be reduced by (SPOT, section D.8).
    """

    def __init__(
        self, context: Context, transition: Transition, mask_id: int, synchronise: Callable[[], None]
    ) -> None:
        self._context = context
        self._transition = transition
        self._mask_id = mask_id
        self._synchronise = synchronise
        self._start = 0
        self._known: list[np.ndarray] = []
        self.seconds = 0.0

    def open_block(self, start: int) -> None:
        """Forget the previous block; the next states are of the block at absolute position `start`."""
        self._start = start
        self._known = []

    def future(self, state: np.ndarray) -> np.ndarray:
        """States int64 [K, L] that follow `state` [L], in order; the last one is the full block."""
        place = next((i for i, known in enumerate(self._known) if np.array_equal(known, state)), None)
        if place is None:
            self._run(state)
            place = 0
        return np.stack(self._known[place + 1 :])

    def _run(self, state: np.ndarray) -> None:
        self._synchronise()
        began = perf_counter()
        self._known = [state]
        while (state == self._mask_id).any():
            logits = self._context.forward(state[None], self._start)
            state = self._transition.step(state[None], logits).sampled[0]
            self._known.append(state)
        self._synchronise()
        self.seconds += perf_counter() - began
