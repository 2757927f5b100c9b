"""Drafters that exist to be wrong, lucky or all-knowing."""

from __future__ import annotations

import numpy as np

from workers.decoding.tree import ROOT, DraftTree
from workers.drafters import Drafter, DraftRequest, Hedge


class RandomGraph(Drafter):
    """Arbitrary valid drafts: about half the tokens plausible, equal states merged into one node of several parents."""

    hedge = Hedge(2, below=1.1)

    def __init__(self, seed: int, vocab: int):
        self.random = np.random.default_rng(seed)
        self.vocab = vocab

    def draft(self, request: DraftRequest) -> DraftTree:
        nodes = {request.state.tobytes(): ROOT}
        states, parents = [], []
        for _ in range(2 * request.budget):
            parent = int(self.random.integers(-1, len(states)))
            before = request.state if parent == ROOT else states[parent]
            masked = np.flatnonzero(request.masked & (before == request.state))
            if len(masked) < 2 or len(states) == request.budget:
                continue
            state, position = before.copy(), self.random.choice(masked)
            known = request.tokens[position]
            plausible = self.random.random() < 0.7
            state[position] = self.random.choice(known[known >= 0] if plausible else self.vocab)
            node = nodes.setdefault(state.tobytes(), len(states))
            if node == len(states):
                states.append(state)
                parents.append((parent,))
            elif parent < node and parent not in parents[node]:
                parents[node] += (parent,)
        drafts = np.array(states, dtype=np.int64).reshape(-1, len(request.state))
        return DraftTree(drafts, parents, [0.0] * len(parents))


class Oracle(Drafter):
    """Drafts the true continuation; `blocks` holds, per block, its commits (position in the block, token) in order."""

    hedge = Hedge()

    def __init__(self, blocks: list[list[tuple[int, int]]]):
        self.blocks = iter(blocks)
        self.commits: list[tuple[int, int]] = []
        self.left = 0

    def draft(self, request: DraftRequest) -> DraftTree:
        left = int(request.masked.sum())
        if left >= self.left:
            self.commits = next(commits for commits in self.blocks if len(commits) == left + 1)
        self.left = left
        upcoming = self.commits[-left:][: min(request.budget, left - 1)]
        edges = [(node - 1, position, token) for node, (position, token) in enumerate(upcoming)]
        return DraftTree.grow(request.state, edges, [1.0] * len(edges))
