"""State-equality verification: a drafted state is accepted iff it equals the target's own next state."""

from __future__ import annotations

import numpy as np

from workers.decoding.transition import Step
from workers.decoding.tree import ROOT, DraftTree
from workers.verifiers import Walk


def follow(tree: DraftTree, step: Step, accept: np.ndarray, bonus: np.ndarray) -> Walk:
    """Walk from the root while the next state `accept` [R, L] of the current node is one of its children.

    The walk ends with the commit `bonus` [R, L] of the node it stopped at.
    """
    path: list[int] = []
    node = ROOT
    while (child := tree.child(node, accept[node + 1])) is not None:
        path.append(child)
        node = child
    steps = [step.positions(replica) for replica in (0, *(n + 1 for n in path))]
    return Walk(path, steps, bonus[node + 1])
