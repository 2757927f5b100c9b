"""Draft trees: hypothetical block states, each one step of the target behind a parent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

ROOT = -1


@dataclass(frozen=True)
class DraftTree:
    """N drafted states of one block in draft order, parents before children.

    states: int64 [N, L], mask id where masked; the root itself is not among them.
    parents: per node the nodes it extends by what one step of the target may commit, `ROOT` (-1) for the root. Usually
        one; a graph drafter such as Spiffy gives several, the one it was grown from first, and the node is reachable
        through any of them.
    mass: per node the drafter's estimate that the target reaches it, for reports and floors only.
    ranking: from the root or a drafted state, int64 [L], to what its drafter goes by in choosing among the positions
        masked there, float [L]; None for the stale confidence.
    """

    states: np.ndarray
    parents: list[tuple[int, ...]]
    mass: list[float]
    ranking: Callable[[np.ndarray], np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.parents)

    @staticmethod
    def empty(block_length: int) -> DraftTree:
        return DraftTree(np.empty((0, block_length), dtype=np.int64), [], [])

    @staticmethod
    def grow(
        root: np.ndarray,
        edges: Sequence[tuple[int, int, int]],
        mass: list[float],
        ranking: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> DraftTree:
        """A tree from its edges (parent, position in the block, token), one new node each; root is int64 [L]."""
        states = np.empty((len(edges), len(root)), dtype=np.int64)
        for node, (parent, position, token) in enumerate(edges):
            states[node] = root if parent == ROOT else states[parent]
            states[node, position] = token
        return DraftTree(states, [(parent,) for parent, _, _ in edges], mass, ranking)

    @cached_property
    def levels(self) -> list[int]:
        """Level of each node: 1 below the root, else one more than that of the first of its parents."""
        levels: list[int] = []
        for first, *_ in self.parents:
            levels.append(1 if first == ROOT else 1 + levels[first])
        return levels

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return max(self.levels, default=0)

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        children: dict[int, list[int]] = {}
        for node, parents in enumerate(self.parents):
            for parent in parents:
                children.setdefault(parent, []).append(node)
        return children

    def children(self, node: int) -> list[int]:
        """Nodes that name `node` (or `ROOT`) as a parent, in draft order."""
        return self._children.get(node, [])

    def child(self, node: int, state: np.ndarray) -> int | None:
        """The first child of `node` whose state equals `state` [L], or None."""
        wanted = state.tobytes()
        return next((child for child in self.children(node) if self.states[child].tobytes() == wanted), None)
