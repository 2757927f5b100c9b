"""What each round of a block did, and why its walk stopped."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import torch

from workers.decoding.conditionals import Conditionals
from workers.decoding.diagnostics import MassBins, StaleCoverage
from workers.decoding.records import BlockStats, Round
from workers.decoding.rules import DEFAULT_THRESHOLD
from workers.decoding.transition import Step
from workers.decoding.tree import DraftTree
from workers.verifiers import Walk

NEAR = 1e-6


class BlockJournal:
    """Counts and rounds of one block; `start` is its absolute position, `tau` the confidence of a certain position.

    `seconds`: what the journal itself has taken. It measures the decoder and is no part of it, so that wall time must
    be reduced by it.
    """

    def __init__(self, block: int, start: int, tau: float = DEFAULT_THRESHOLD):
        self._block = block
        self._start = start
        self._tau = tau
        self.seconds = 0.0
        self._rounds = 0
        self._positions: list[int] = []
        self._state = np.empty(0, dtype=np.int64)
        self._compared = 0
        self._steps_compared = 0
        self._roots_compared = 0
        self._root_token = 0
        self._root_position = 0
        self._argmax = 0
        self._probability = 0.0
        self._stale_token = 0
        self._stale_position = 0
        self._exact_ties = 0
        self._near_ties = 0
        self._coverage = StaleCoverage(tau)
        self._mass = MassBins()

    def add(
        self,
        tree: DraftTree,
        step: Step,
        walk: Walk,
        stale: Conditionals | None,
        replicas: int,
        draft_s: float,
        forward_s: float,
    ) -> Round:
        """Record one round; `stale` is what its drafts were made from, None in the first round of a block."""
        began = perf_counter()
        confidence = None if stale is None else stale.confidence.cpu().numpy()
        tokens = None if stale is None else stale.tokens.cpu().numpy()
        if stale is not None:
            self._coverage.add(len(self._positions), step.masked[0], stale, confidence)
        for depth, (node, positions) in enumerate(zip((-1, *walk.path), walk.steps)):
            masked = np.flatnonzero(step.masked[node + 1])
            self._count_ties(step.confidence[node + 1, masked])
            if stale is not None:
                top = masked[confidence[masked].argmax()] in positions
                token = walk.state[positions] == tokens[positions]
                self._count_stale(depth, top, token)
        self._count_probability(step, walk)
        self._mass.add(tree, walk.path)
        self._positions += np.concatenate(walk.steps).tolist()
        self._state = walk.state
        ranks = self._ranks(tree, step, walk, stale, confidence)
        self._rounds += 1
        masked = step.masked[walk.last + 1]
        entry = Round(
            block=self._block,
            round=self._rounds - 1,
            drafted=len(tree),
            accepted=len(walk.path),
            positions=(self._start + np.concatenate(walk.steps)).tolist(),
            draft_s=draft_s,
            forward_s=forward_s,
            reject_cause=reject_cause(tree, step.states[walk.last + 1], walk, ranks["true_order_rank"]),
            **ranks,
            replicas=replicas,
            masked=int(masked.sum()),
            certain=int((masked & (step.confidence[walk.last + 1] >= self._tau)).sum()),
            levels=tree.depth,
            level=tree.levels[walk.last] if walk.path else 0,
        )
        self.seconds += perf_counter() - began
        return entry

    def stats(self) -> BlockStats:
        began = perf_counter()
        stats = BlockStats(
            block=self._block,
            commits=len(self._positions),
            compared=self._compared,
            stale_token=self._stale_token,
            stale_position=self._stale_position,
            exact_ties=self._exact_ties,
            near_ties=self._near_ties,
            steps_compared=self._steps_compared,
            roots_compared=self._roots_compared,
            root_token=self._root_token,
            root_position=self._root_position,
            argmax=self._argmax,
            probability=self._probability,
            **self._coverage.counts(self._positions, self._state),
            **self._mass.counts(),
        )
        self.seconds += perf_counter() - began
        return stats

    def _count_stale(self, depth: int, top: bool, token: np.ndarray) -> None:
        """One step of the walk: whether the stale top position is in it, and for each commit if its token is stale's."""
        self._steps_compared += 1
        self._compared += len(token)
        self._stale_position += int(top)
        self._stale_token += int(token.sum())
        if depth == 0:
            self._roots_compared += 1
            self._root_position += int(top)
            self._root_token += int(token[0])

    def _count_probability(self, step: Step, walk: Walk) -> None:
        replicas = np.repeat([0, *(node + 1 for node in walk.path)], [len(positions) for positions in walk.steps])
        positions = np.concatenate(walk.steps)
        rows = step.logits[torch.from_numpy(replicas), torch.from_numpy(positions)]
        chosen = rows.gather(-1, torch.from_numpy(walk.state[positions]).to(rows.device)[:, None])[:, 0]
        gap = (chosen - rows.amax(dim=-1)).cpu().numpy()
        self._argmax += int((gap == 0).sum())
        self._probability += float((step.confidence[replicas, positions] * np.exp(gap)).sum())

    def _count_ties(self, confidence: np.ndarray) -> None:
        if len(confidence) > 1:
            second, first = np.partition(confidence, -2)[-2:]
            self._exact_ties += int(first == second)
            self._near_ties += int(first - second < NEAR)

    def _ranks(
        self, tree: DraftTree, step: Step, walk: Walk, stale: Conditionals | None, confidence: np.ndarray | None
    ) -> dict[str, int | None]:
        """Fields of `Round`: ranks of the first commit that no draft held."""
        if stale is None:
            return {"true_position_rank": None, "true_order_rank": None, "true_token_rank": None}
        position, masked = walk.steps[-1][0], step.masked[walk.last + 1]
        by_confidence = rank(confidence, masked, position)
        order = by_confidence
        if tree.ranking is not None:
            order = rank(tree.ranking(step.states[walk.last + 1]), masked, position)
        row = stale.logits[position].cpu().numpy()
        token = int((row > row[walk.state[position]]).sum())
        return {"true_position_rank": by_confidence, "true_order_rank": order, "true_token_rank": token}


def rank(weights: np.ndarray, masked: np.ndarray, position: int) -> int:
    """How many of the positions `masked` bool [L] weigh more than `position` in `weights` [L], or as much further left."""
    above = weights > weights[position]
    above[:position] |= weights[:position] == weights[position]
    return int((above & masked).sum())


def reject_cause(tree: DraftTree, state: np.ndarray, walk: Walk, order_rank: int | None) -> str | None:
    """Why the tree did not hold what the target committed at `state` [L], the state the walk stopped at; order_rank:
    rank of its first position in the drafter's own order."""
    if not len(tree):
        return None
    children = tree.states[tree.children(walk.last)]
    committed = walk.state != state
    if not len(children):
        return "budget" if order_rank < committed.sum() else "position"
    return "token" if ((children != state) == committed).all(axis=1).any() else "position"
