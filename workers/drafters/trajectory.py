"""Draft trajectories by confidence ("Trajectory-Level Speculative Decoding for Diffusion Language Models", section
3.2).

The root is the state behind the target's last commits, which under a threshold rule are the paper's high-confidence
positions. Each draft fills some of the positions that were left, with the most probable stale tokens. The paper's
algorithm 1 branches over "top-k candidates" at the root and follows the top-1 continuation below; its figures label
nodes by sets of positions, so that branches here differ in positions, and in tokens as an option.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workers.decoding.trajectory_shape import VARIANTS, level_sizes
from workers.decoding.tree import ROOT, DraftTree
from workers.drafters import Drafter, DraftRequest, Hedge, TargetInfo, reject_unknown
from workers.errors import UserError

OPTIONS = ("width", "depth", "variant", "tokens", "tau", "inter_blocks")


@dataclass(frozen=True)
class Candidate:
    """A token hypothesis at a masked position and its weight, the stale confidence of the position for the primary one."""

    position: int
    token: int
    weight: float


class Trajectory(Drafter):
    """A tree of `level_sizes(width, depth, variant)` drafts, each one position behind the one it extends.

    Level 1 takes the best candidates; a deeper draft extends one of the level before by its most confident position
    left (by two, one each, if top-2), and of these the most probable by product of weights stay. No two drafts are
    equal, so that where an extension exists already the next best takes its place; variant "duplicate" keeps it.
    tokens: hypotheses per position at level 1, deeper levels take the primary one. tau: positions of stale confidence
    `tau` or more are filled in every draft (None: no such positions, as under a threshold rule the target has filled
    them). inter_blocks: drafts of the next block.

    A draft is a child of every draft, and of the root, that it contains, the one it was grown from first: a rule that
    fills several positions at once may reach it from any of them.
    """

    def __init__(
        self,
        width: int = 2,
        depth: int = 2,
        variant: str = "hybrid",
        tokens: int = 1,
        tau: float | None = None,
        inter_blocks: int = 0,
    ):
        self.hedge = Hedge(tokens, math.inf)
        self.sizes = level_sizes(width, depth, variant)
        self.branches = 2 if variant == "top-2" else 1
        self.unique = variant != "duplicate"
        self.tau = tau
        self.inter_blocks = inter_blocks

    def draft(self, request: DraftRequest) -> DraftTree:
        return self._grow(request, self.sizes)

    def draft_ahead(self, request: DraftRequest) -> DraftTree:
        """The compact tree of the next block: a chain of `inter_blocks` drafts (section 3.4, W1D3)."""
        return self._grow(request, [1] * self.inter_blocks)

    def _grow(self, request: DraftRequest, sizes: list[int]) -> DraftTree:
        root, certain = self._stratify(request)
        first = candidates(request, certain)
        primary = [candidate for candidate in first if candidate.token == request.tokens[candidate.position, 0]]
        depth = int(request.masked.sum() - certain.sum()) - 1
        frontier, states, parents, mass = [(ROOT, root, 1.0)], [], [], []
        seen = {root.tobytes()}
        for level, size in enumerate(sizes[: max(0, depth)]):
            children: list[tuple[float, int, np.ndarray]] = []
            for node, state, weight in frontier:
                left = size if level == 0 else self.branches
                for candidate in first if level == 0 else primary:
                    if left == 0:
                        break
                    if state[candidate.position] != request.state[candidate.position]:
                        continue
                    child = state.copy()
                    child[candidate.position] = candidate.token
                    if self.unique and child.tobytes() in seen:
                        continue
                    seen.add(child.tobytes())
                    children.append((weight * candidate.weight, node, child))
                    left -= 1
            children.sort(key=lambda child: -child[0])
            frontier = []
            for weight, node, state in children[:size]:
                frontier.append((len(states), state, weight))
                states.append(state)
                parents.append(node)
                mass.append(weight)
            seen -= {state.tobytes() for _, _, state in children[size:]}
        if not states:
            return DraftTree.empty(len(request.state))
        drafts = np.stack(states)
        return DraftTree(drafts, containing(request.state, drafts, parents), mass)

    def _stratify(self, request: DraftRequest) -> tuple[np.ndarray, np.ndarray]:
        """The state [L] that all drafts extend, and the masked positions bool [L] that it fills."""
        certain = np.zeros_like(request.masked)
        if self.tau is not None:
            certain = request.masked & (request.stale.confidence.cpu().numpy() >= self.tau)
        return np.where(certain, request.tokens[:, 0], request.state), certain


def candidates(request: DraftRequest, certain: np.ndarray) -> list[Candidate]:
    """Token hypotheses of the masked positions but the `certain` ones bool [L], by falling weight, ties to the lowest
    position."""
    weights = request.token_probs.astype(np.float64)
    # Position choice is untempered and without noise, so a drawn token does not lower its position's rank.
    weights[:, 0] = request.stale.confidence.cpu().numpy()
    weights[(request.tokens < 0) | (~request.masked | certain)[:, None]] = -1
    order = np.argsort(-weights, axis=None, kind="stable")[: np.count_nonzero(weights >= 0)]
    positions, columns = np.unravel_index(order, weights.shape)
    tokens, weights = request.tokens[positions, columns], weights[positions, columns]
    return [Candidate(*each) for each in zip(positions.tolist(), tokens.tolist(), weights.tolist())]


def containing(root: np.ndarray, states: np.ndarray, parents: list[int]) -> list[tuple[int, ...]]:
    """For every drafted state [N, L] the drafts it extends, and the root: `parents` [N] first, then the others in order."""
    filled = states != root
    inside = ((states[:, None] == states[None]) | ~filled[:, None]).all(axis=-1)  # [i, j]: j contains i
    inside &= filled.sum(axis=1)[:, None] < filled.sum(axis=1)[None]
    edges = []
    for node, parent in enumerate(parents):
        others = [ROOT, *np.flatnonzero(inside[:, node]).tolist()]
        edges.append((parent, *(other for other in others if other != parent)))
    return edges


def build(options: Mapping[str, Any], artifacts: Mapping[str, Path], target_info: TargetInfo) -> Trajectory:
    """Options: `width` (2), `depth` (2), `variant` (hybrid), `tokens` (1), `tau` (None) and `inter_blocks` (0)."""
    reject_unknown("trajectory", options, OPTIONS)
    for name in ("width", "depth"):
        if not isinstance(value := options.get(name, 2), int) or value < 1:
            raise UserError(f"drafter_options: {name} of trajectory must be a whole number from 1 on, not {value!r}")
    if (variant := options.get("variant", "hybrid")) not in VARIANTS:
        raise UserError(f"drafter_options: variant of trajectory must be one of {', '.join(VARIANTS)}, not {variant!r}")
    if (blocks := options.get("inter_blocks", 0)) not in (0, 1, 2, 3):
        raise UserError(f"drafter_options: inter_blocks of trajectory must be from 0 to 3, not {blocks!r}")
    return Trajectory(**options)
