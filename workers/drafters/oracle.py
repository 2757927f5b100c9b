"""Oracles that peek at the target's own continuation: what knowing order, tokens or both is worth (SPOT, section 3.1).

Each drafts one chain of min(budget, masks - 1) states. As long as draft-free decoding is a function of the state, which
at T>0 needs the coupled noise, `oracle-joint` meets the ideal schedule of 1 + ceil((m - 1) / (D + 1)) forwards for a
block of m masks under a rule that commits one token per forward; no drafter can do with fewer.
"""

from __future__ import annotations

import numpy as np

from workers.decoding.tree import DraftTree
from workers.drafters import Drafter, DraftRequest


class Oracle(Drafter):
    """true_positions: the target's own commit order, else falling stale confidence. true_tokens: the tokens it will
    commit, else the primary stale hypotheses."""

    def __init__(self, true_positions: bool, true_tokens: bool):
        self.true_positions = true_positions
        self.true_tokens = true_tokens

    def draft(self, request: DraftRequest) -> DraftTree:
        future = request.lookahead(request.state)
        masked = np.flatnonzero(request.masked)
        missing = future[:, masked] != future[-1, masked]
        rank = missing.sum(axis=0) if self.true_positions else -request.stale.confidence.cpu().numpy()[masked]
        order = masked[np.argsort(rank, kind="stable")]
        weights = np.full(len(request.state), -np.inf)
        weights[masked] = -rank
        tokens = future[-1] if self.true_tokens else request.tokens[:, 0]
        filled = (~missing).sum(axis=1)[: min(request.budget, len(future) - 1)]
        states = np.repeat(request.state[None], len(filled), axis=0)
        for state, count in zip(states, filled):
            state[order[:count]] = tokens[order[:count]]
        parents = [(node - 1,) for node in range(len(filled))]
        return DraftTree(states, parents, [1.0] * len(filled), lambda state: weights)

