"""The trajectory paper's acceptance: a draft stays if the target finds its tokens good, wherever it would have gone
itself.

"Trajectory-Level Speculative Decoding for Diffusion Language Models", section 3.3. The target commits by its own rule
only at the state where the path ends. Positions may so be filled earlier than the target would have filled them, which
is where the paper's trajectory drift comes from; `workers.verifiers.follow` is the acceptance without it.
"""

from __future__ import annotations

import numpy as np
import torch

from workers.decoding.acceptance import parse_acceptance
from workers.decoding.conditionals import Conditionals
from workers.decoding.noise import RoundNoise
from workers.decoding.transition import Step
from workers.decoding.tree import ROOT, DraftTree
from workers.drafters import Hedge
from workers.verifiers import Walk
from workers.verifiers.candidates import most_probable


class Subset:
    """Never exact: accepted tokens are not checked against the commit rule."""

    def __init__(self, text: str):
        self.acceptance = parse_acceptance(text)
        self.name = str(self.acceptance)

    def exact(self, temperature: float) -> bool:
        return False

    def hypotheses(
        self, stale: Conditionals, temperature: float, noise: RoundNoise | None, hedge: Hedge
    ) -> tuple[np.ndarray, np.ndarray]:
        return most_probable(stale, hedge)

    def walk(self, tree: DraftTree, step: Step) -> Walk:
        accepted = self._accepted(tree, step)
        path = longest(accepted, step) if self.acceptance.longest else first(accepted)
        steps = [_added(step, parent, child) for parent, child in zip([ROOT, *path], path)]
        last = path[-1] if path else ROOT
        return Walk(path, [*steps, step.positions(last + 1)], step.sampled[last + 1])

    def _accepted(self, tree: DraftTree, step: Step) -> dict[int, list[int]]:
        """For the root and every node its accepted children, in draft order."""
        edges = [(node, child) for node in range(ROOT, len(tree)) for child in nearest(tree, node, step)]
        if not edges:
            return {}
        places = [np.flatnonzero(step.states[child + 1] != step.states[node + 1]) for node, child in edges]
        replicas = np.repeat([node + 1 for node, _ in edges], [len(each) for each in places])
        tokens = np.concatenate([step.states[child + 1, each] for (_, child), each in zip(edges, places)])
        rows = step.logits[torch.from_numpy(replicas), torch.from_numpy(np.concatenate(places))]
        fine = self._fine(rows, torch.from_numpy(tokens).to(rows.device)).cpu().numpy()
        accepted: dict[int, list[int]] = {}
        for (node, child), good in zip(edges, np.split(fine, np.cumsum([len(each) for each in places])[:-1])):
            if good.all():
                accepted.setdefault(node, []).append(child)
        return accepted

    def _fine(self, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """bool [N]: whether each of `tokens` [N] passes under its logits [N, V]."""
        name, value, _ = self.acceptance
        if name == "subset-top-1":
            return rows.argmax(dim=-1) == tokens
        own = rows.gather(-1, tokens[:, None])
        if name == "subset-top-k":
            return (rows > own).sum(dim=-1) < value
        return torch.softmax(rows, dim=-1).gather(-1, tokens[:, None])[:, 0] >= value


def nearest(tree: DraftTree, node: int, step: Step) -> list[int]:
    """The children of `node` that no other child of it leads to."""
    children = tree.children(node)
    if len(children) < 2:
        return children
    states = step.states[[child + 1 for child in children]]
    fills = states != step.states[node + 1]
    counts = fills.sum(axis=1)
    between = (fills[:, None] <= fills[None]).all(axis=-1) & (counts[:, None] < counts[None])  # [i, j]: i lies before j
    agree = ((states[:, None] == states[None]) | ~fills[:, None]).all(axis=-1)
    return [child for index, child in enumerate(children) if not (between & agree)[:, index].any()]


def first(accepted: dict[int, list[int]]) -> list[int]:
    """The first accepted child of each node, from the root on (the paper's greedy search)."""
    path: list[int] = []
    node = ROOT
    while node in accepted:
        node = accepted[node][0]
        path.append(node)
    return path


def longest(accepted: dict[int, list[int]], step: Step) -> list[int]:
    """The accepted path that fills most positions, the first of several."""
    best: list[int] = []
    most = 0
    stack: list[list[int]] = [[child] for child in reversed(accepted.get(ROOT, []))]
    while stack:
        path = stack.pop()
        filled = int((step.states[path[-1] + 1] != step.states[0]).sum())
        if filled > most:
            best, most = path, filled
        stack += [[*path, child] for child in reversed(accepted.get(path[-1], []))]
    return best


def _added(step: Step, node: int, child: int) -> np.ndarray:
    """The positions that `child` fills behind `node`, the most confident first."""
    added = np.flatnonzero(step.states[child + 1] != step.states[node + 1])
    return added[np.argsort(-step.confidence[node + 1, added], kind="stable")]


def build(text: str) -> Subset:
    return Subset(text)
