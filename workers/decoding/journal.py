"""What each round of a block did, and why its walk stopped."""

from __future__ import annotations

import numpy as np

from workers.decoding.conditionals import Conditionals
from workers.decoding.records import BlockStats, Round
from workers.decoding.transition import Step
from workers.decoding.tree import DraftTree
from workers.verifiers import Walk

NEAR = 1e-6


class BlockJournal:
    """Counts and rounds of one block; `start` is its absolute position."""

    def __init__(self, block: int, start: int):
        self._block = block
        self._start = start
        self._rounds = 0
        self._commits = 0
        self._compared = 0
        self._stale_token = 0
        self._stale_position = 0
        self._exact_ties = 0
        self._near_ties = 0

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
        confidence = None if stale is None else stale.confidence.cpu().numpy()
        for node, positions in zip((-1, *walk.path), walk.steps):
            self._commits += len(positions)
            masked = np.flatnonzero(step.masked[node + 1])
            self._count_ties(step.confidence[node + 1, masked])
            if confidence is not None:
                self._compared += len(positions)
                self._stale_position += int(masked[confidence[masked].argmax()] in positions)
                self._stale_token += int((walk.state[positions] == stale.tokens.cpu().numpy()[positions]).sum())
        position_rank, token_rank = self._ranks(step, walk, stale, confidence)
        self._rounds += 1
        return Round(
            block=self._block,
            round=self._rounds - 1,
            drafted=len(tree),
            accepted=len(walk.path),
            positions=(self._start + np.concatenate(walk.steps)).tolist(),
            draft_s=draft_s,
            forward_s=forward_s,
            reject_cause=reject_cause(tree, step.states[walk.last + 1], walk),
            true_position_rank=position_rank,
            true_token_rank=token_rank,
            replicas=replicas,
        )

    def stats(self) -> BlockStats:
        return BlockStats(
            block=self._block,
            commits=self._commits,
            compared=self._compared,
            stale_token=self._stale_token,
            stale_position=self._stale_position,
            exact_ties=self._exact_ties,
            near_ties=self._near_ties,
        )

    def _count_ties(self, confidence: np.ndarray) -> None:
        if len(confidence) > 1:
            second, first = np.partition(confidence, -2)[-2:]
            self._exact_ties += int(first == second)
            self._near_ties += int(first - second < NEAR)

    def _ranks(
        self, step: Step, walk: Walk, stale: Conditionals | None, confidence: np.ndarray | None
    ) -> tuple[int | None, int | None]:
        if stale is None:
            return None, None
        position = walk.steps[-1][0]
        masked = step.masked[walk.last + 1]
        above = confidence > confidence[position]
        above[:position] |= confidence[:position] == confidence[position]
        row = stale.logits[position].cpu().numpy()
        return int((above & masked).sum()), int((row > row[walk.state[position]]).sum())


def reject_cause(tree: DraftTree, state: np.ndarray, walk: Walk) -> str | None:
    """Why the tree did not hold what the target committed at `state` [L], the state the walk stopped at."""
    if not len(tree):
        return None
    children = tree.states[tree.children(walk.last)]
    if not len(children):
        return "budget"
    committed = walk.state != state
    return "token" if ((children != state) == committed).all(axis=1).any() else "position"
