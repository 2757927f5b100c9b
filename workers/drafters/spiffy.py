"""Spiffy: one draft graph, calibrated offline, instantiated anew in every round (arXiv 2509.18085).

A node is a set of pairs (i, j): i ranks a masked position by its stale confidence, j ranks a token there. A node has
as parents all nodes that lack one of its pairs, and is reachable through any of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workers.decoding.tree import ROOT, DraftTree
from workers.drafters import Drafter, DraftRequest, Hedge, TargetInfo, reject_unknown
from workers.drafters.features import preference
from workers.errors import UserError

Pairs = frozenset[tuple[int, int]]
ROOT_PAIRS: Pairs = frozenset()
RANKINGS = ("confidence", "draw")


def parents_of(node: Pairs) -> list[Pairs]:
    """The sets that lack one pair of `node`."""
    return [node - {pair} for pair in sorted(node)]


def future_sets(pairs: Sequence[tuple[int, int]], lookahead: int) -> Iterable[Pairs]:
    """The states of the next commits, given as (position rank, token rank) in commit order: sets of size 1 .. lookahead."""
    reached: Pairs = ROOT_PAIRS
    for pair in pairs[:lookahead]:
        reached = reached | {pair}
        yield reached


def degree_one(counts: Mapping[Pairs, int]) -> dict[Pairs, int]:
    """Degree-1 accumulation: a node's own count plus the counts of its parents, the root excluded."""
    return {node: count + sum(counts.get(parent, 0) for parent in parents_of(node)) for node, count in counts.items()}


# How counts become scores. The published procedure accumulates; on the embedded target plain counts draft better.
ACCUMULATIONS: dict[str, Callable[[Mapping[Pairs, int]], Mapping[Pairs, int]]] = {"degree-1": degree_one, "none": dict}


def select(scores: Mapping[Pairs, float], nodes: int) -> list[Pairs]:
    """Greedily the best-scoring node one of whose parents is in the graph; ties to the smaller, then lexically first.

    Every prefix of the result is itself a connected graph, which is what truncation to a budget relies on.
    """
    chosen: list[Pairs] = []
    inside = {ROOT_PAIRS}
    ranked = sorted(scores, key=lambda node: (-scores[node], len(node), sorted(node)))
    while len(chosen) < nodes:
        best = next((n for n in ranked if n not in inside and any(p in inside for p in parents_of(n))), None)
        if best is None:
            break
        chosen.append(best)
        inside.add(best)
    return chosen


def save_graph(path: Path, chosen: Sequence[Pairs], counts: Counter[Pairs], facts: Mapping[str, Any]) -> None:
    """graph.json: `facts`, then the nodes in selection order, each with its pairs, parents (-1 is the root) and count."""
    index = {ROOT_PAIRS: ROOT, **{node: number for number, node in enumerate(chosen)}}
    nodes = [
        {
            "pairs": [list(pair) for pair in sorted(node)],
            "parents": sorted(index[parent] for parent in parents_of(node) if index.get(parent, number) < number),
            "count": counts[node],
        }
        for number, node in enumerate(chosen)
    ]
    lines = ",\n".join(f"    {json.dumps(node)}" for node in nodes)
    head = json.dumps(dict(facts), indent=2)[:-2]
    path.write_text(f'{head},\n  "nodes": [\n{lines}\n  ]\n}}\n', encoding="utf-8")


def load_graph(directory: Path) -> list[Pairs]:
    """The nodes of graph.json in selection order; UserError if the file is missing or damaged."""
    path = directory / "graph.json"
    try:
        nodes = json.loads(path.read_text(encoding="utf-8"))["nodes"]
        return [frozenset((int(i), int(j)) for i, j in node["pairs"]) for node in nodes]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a Spiffy graph ({error}); run the calibrate stage again") from error


class SpiffyDrafter(Drafter):
    """Drafts the first `budget` nodes of the graph that the current block has room for.

    At T>0 the rank-0 token is the coupled draw. rank_by: what ranks the positions, their "confidence" at every
    temperature, as the target chooses them, or the stale probability of the "draw", the noise-aware ranking of SPOT's
    harness (section F.6). The graph is to be calibrated under the same ranking.
    """

    def __init__(self, graph: Sequence[Pairs], rank_by: str = "confidence"):
        self.rank_by = rank_by
        self.graph = [(node, np.array(sorted(node)).T, parents_of(node)) for node in graph]
        ranks = 1 + max((j for node in graph for _, j in node), default=0)
        self.hedge = Hedge(size=ranks, below=float("inf"))

    def draft(self, request: DraftRequest) -> DraftTree:
        if self.rank_by == "draw":
            index = np.flatnonzero(request.masked)
            index = index[np.argsort(-request.token_probs[index, 0], kind="stable")]
        else:
            index = preference(request.stale, request.masked)
        masked = len(index)
        weights = np.full(len(request.state), -np.inf)
        weights[index] = -np.arange(masked)
        drafted: dict[Pairs, int] = {ROOT_PAIRS: ROOT}
        states: list[np.ndarray] = []
        parents: list[tuple[int, ...]] = []
        mass: list[float] = []
        for node, (ranks, choices), below in self.graph:
            if len(states) == request.budget:
                break
            if len(node) >= masked or ranks.max() >= masked:
                continue
            positions = index[ranks]
            tokens = request.tokens[positions, choices]
            edges = tuple(sorted(drafted[parent] for parent in below if parent in drafted))
            if not edges or (tokens < 0).any():
                continue
            state = request.state.copy()
            state[positions] = tokens
            drafted[node] = len(states)
            states.append(state)
            parents.append(edges)
            mass.append(float(request.token_probs[positions, choices].prod()))
        if not states:
            return DraftTree.empty(len(request.state))
        return DraftTree(np.stack(states), parents, mass, lambda state: weights)


def build(options: Mapping[str, Any], artifacts: Mapping[str, Path], target_info: TargetInfo) -> SpiffyDrafter:
    reject_unknown("spiffy", options, ("rank_by",))
    if (rank_by := options.get("rank_by", "confidence")) not in RANKINGS:
        raise UserError(f"drafter_options: rank_by of spiffy must be one of {', '.join(RANKINGS)}, not {rank_by!r}")
    if "spiffy" not in artifacts:
        raise UserError("drafter spiffy needs its draft graph: its node has no calibrate-spiffy stage upstream")
    return SpiffyDrafter(load_graph(Path(artifacts["spiffy"])), rank_by)
