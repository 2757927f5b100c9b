"""BlockSpec-style confidence tree (SPOT, section D.4): best-first over the renormalised stale confidences."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from workers.decoding.tree import ROOT, DraftTree
from workers.drafters import Drafter, DraftRequest, Hedge, TargetInfo, reject_unknown


class ConfidenceTree(Drafter):
    """The `budget` heaviest nodes, where an edge to (s, v) weighs the stale confidence of v at s (the position's own
    confidence for its primary token), renormalised over all hypotheses of the positions still masked at its parent.

    hedge, hedge_below: token hypotheses per position, see `Hedge`.
    """

    def __init__(self, hedge: int = 1, hedge_below: float = 0.6):
        self.hedge = Hedge(hedge, hedge_below)

    def draft(self, request: DraftRequest) -> DraftTree:
        weights = request.token_probs.astype(np.float64)
        # Position choice is untempered and without noise, so a drawn token does not lower its position's rank.
        weights[:, 0] = request.stale.confidence.cpu().numpy()
        weights[(request.tokens < 0) | ~request.masked[:, None]] = 0
        order = np.argsort(-weights, axis=None, kind="stable")[: np.count_nonzero(weights)]
        positions, columns = np.unravel_index(order, weights.shape)
        sums = weights.sum(axis=1)
        ranked = list(zip(positions.tolist(), request.tokens[positions, columns].tolist(), weights[positions, columns]))
        return best_first(request.state, ranked, sums, int(request.masked.sum()) - 1, request.budget)


def best_first(
    root: np.ndarray, ranked: list[tuple[int, int, float]], sums: np.ndarray, depth: int, budget: int
) -> DraftTree:
    """The `budget` heaviest nodes at most `depth` deep.

    ranked: hypotheses (position, token, weight) by falling weight; sums [L]: total weight per position.
    """
    edges: list[tuple[int, int, int]] = []
    mass: list[float] = []
    heap: list[tuple[float, int, int, int, frozenset[int], float, float]] = []
    pushed = 0

    def push(parent: int, rank: int, taken: frozenset[int], parent_mass: float, total: float) -> None:
        """The best remaining child of `parent` from `rank` on; of equal ones the first pushed is drafted first."""
        nonlocal pushed
        while rank < len(ranked) and ranked[rank][0] in taken:
            rank += 1
        if rank < len(ranked) and total > 0:
            negative = -parent_mass * ranked[rank][2] / total
            heapq.heappush(heap, (negative, pushed, parent, rank, taken, parent_mass, total))
            pushed += 1

    if depth > 0:
        push(ROOT, 0, frozenset(), 1.0, float(sums.sum()))
    while heap and len(edges) < budget:
        negative, _, parent, rank, taken, parent_mass, total = heapq.heappop(heap)
        position, token, _ = ranked[rank]
        edges.append((parent, position, token))
        mass.append(-negative)
        push(parent, rank + 1, taken, parent_mass, total)
        if len(taken) + 1 < depth:
            push(len(edges) - 1, 0, taken | {position}, -negative, total - float(sums[position]))
    return DraftTree.grow(root, edges, mass)


def build(options: dict[str, Any], artifacts: Mapping[str, Path], target_info: TargetInfo) -> ConfidenceTree:
    reject_unknown("tree", options, ("hedge", "hedge_below"))
    return ConfidenceTree(**options)
