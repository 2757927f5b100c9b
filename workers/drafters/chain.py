"""SSD-style chain (arXiv 2510.04147; SPOT, section D.4): rank-1 tokens in the sampler's order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from workers.decoding.tree import DraftTree
from workers.drafters import Drafter, DraftRequest, TargetInfo, reject_unknown
from workers.errors import UserError


class Chain(Drafter):
    """One line of drafts, at most `depth` deep: the masked positions by falling stale confidence, primary tokens."""

    def __init__(self, depth: int = 4):
        if not isinstance(depth, int) or depth < 1:
            raise UserError(f"drafter_options: depth of chain must be a whole number from 1 on, not {depth!r}")
        self.depth = depth

    def draft(self, request: DraftRequest) -> DraftTree:
        masked = np.flatnonzero(request.masked)
        depth = min(self.depth, request.budget, len(masked) - 1)
        confidence = request.stale.confidence.cpu().numpy()[masked]
        # A stable sort of the negated values breaks ties to the lowest position, as the target does.
        order = masked[np.argsort(-confidence, kind="stable")[:depth]]
        edges = [(node - 1, int(position), int(request.tokens[position, 0])) for node, position in enumerate(order)]
        mass = np.cumprod(request.token_probs[order, 0], dtype=np.float64).tolist()
        return DraftTree.grow(request.state, edges, mass)


def build(options: dict[str, Any], artifacts: Mapping[str, Path], target_info: TargetInfo) -> Chain:
    reject_unknown("chain", options, ("depth",))
    return Chain(**options)
