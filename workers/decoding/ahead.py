"""Inter-block speculation: work on the next block while this one is decoded ("Trajectory-Level Speculative Decoding for
Diffusion Language Models", section 3.4 and appendix D)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from workers.decoding.conditionals import Conditionals
from workers.decoding.transition import Transition
from workers.decoding.tree import DraftTree
from workers.drafters import DraftRequest
from workers.verifiers import Verifier

if TYPE_CHECKING:
    from workers.drafters.trajectory import Trajectory


class Ahead:
    """The block behind the one being decoded.

    It takes part in a forward if its best masked position is more confident than the best one of the current block, or
    than `tau` (equation 3). The paper does not say what then is committed: here drafts count and the commit rule fills
    positions only if the fresh best position is more confident than `tau`. Being better than the current block is not
    enough: that block must go on even in doubt, this one can wait. What is filled stays filled when the block opens.
    `state` int64 [L]; None behind the last block.
    """

    def __init__(self, transition: Transition, drafter: Trajectory, verifier: Verifier, mask_id: int, tau: float):
        self._transition = transition
        self._drafter = drafter
        self._verifier = verifier
        self._mask_id = mask_id
        self._tau = tau
        self.state: np.ndarray | None = None
        self._stale: Conditionals | None = None
        self._start = 0

    def open_block(self, start: int, length: int, logits: Tensor | None) -> None:
        """The block at absolute position `start` is next; logits fp32 [L, V] of the forward that opened the current
        one, None if there is no next block."""
        self.state, self._stale, self._start = None, None, start
        if logits is not None:
            self.state = np.full(length, self._mask_id, dtype=np.int64)
            self._stale = Conditionals(logits)
            self._transition.open_block(start, length)

    def take(self) -> np.ndarray | None:
        """The state of the block as far as it was decoded ahead; it is the current one from now on."""
        state, self.state = self.state, None
        return state

    def draft(self, now: float, round: int) -> DraftTree | None:
        """Drafts of the next block, or None if it is not worth a place in the forward. now: largest stale confidence
        among the positions masked in the current block."""
        if self.state is None or not (masked := self.state == self._mask_id).any():
            return None
        best = float(self._stale.confidence.cpu().numpy()[masked].max())
        if best <= now and best <= self._tau:
            return None
        self._transition.open_round(round)
        tokens, probs = self._verifier.hypotheses(
            self._stale, self._transition.temperature, self._transition.noise, self._drafter.hedge
        )
        budget = self._drafter.inter_blocks
        return self._drafter.draft_ahead(DraftRequest(self.state, masked, self._stale, tokens, probs, budget, -1))

    def states(self, tree: DraftTree) -> np.ndarray:
        """int64 [1 + N, L]: the state and the drafts made from it."""
        return np.concatenate([self.state[None], tree.states])

    def advance(self, tree: DraftTree, logits: Tensor) -> dict[str, Any]:
        """Commit what the forward over `states(tree)` allows; logits fp32 [1 + N, L, V]. Returns the fields of `Round`
        that say what it did here."""
        step = self._transition.step(self.states(tree), logits, self._stale)
        if step.confidence[0, step.masked[0]].max() <= self._tau:
            self._stale = Conditionals(logits[0], step.confidences[0])
            return {"ahead_drafted": len(tree)}
        walk = self._verifier.walk(tree, step)
        self.state = walk.state
        self._stale = Conditionals(logits[walk.last + 1], step.confidences[walk.last + 1])
        positions = self._start + np.concatenate(walk.steps)
        return {
            "ahead_drafted": len(tree),
            "ahead_accepted": len(walk.path),
            "ahead_positions": positions.tolist(),
        }
