"""calibrate-spiffy: count which sets of ranks the next commits are, and select the draft graph (arXiv 2509.18085)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workers.drafters.spiffy import ACCUMULATIONS, Pairs, future_sets, save_graph, select
from workers.errors import UserError
from workers.stages import Inputs, StageSession, target_reference
from workers.stages.trajectories import decode_batch, group, load_prompts

if TYPE_CHECKING:
    from workers.targets.target import Target

DEFAULTS = {"nodes": 24, "lookahead": 6, "accumulation": "degree-1", "token_ranks": 8, "batch": 16}


def block_pairs(history: list[tuple[np.ndarray, np.ndarray, int, int]], ranks: int) -> list[list[tuple[int, int]]]:
    """Per draft opportunity of one block the following commits as (position rank, token rank), in commit order.

    history: per forward of the block, positions in order of preference [M], top tokens [L, ranks], committed position and
    token. As while decoding, the ranks come from the forward before the root's last commit and count the root's masked
    positions only. A list ends before a commit that the stale distribution does not rank among its `ranks` tokens and
    before the commit that fills the block, which is never worth drafting.
    """
    opportunities = []
    for step, (order, top, last, _) in enumerate(history[:-1]):
        rank_of = {int(position): rank for rank, position in enumerate(order[order != last])}
        pairs = []
        for _, _, position, token in history[step + 1 : -1]:
            found = np.flatnonzero(top[position] == token)
            if not len(found):
                break
            pairs.append((rank_of[position], int(found[0])))
        opportunities.append(pairs)
    return opportunities


def count_sets(target: Target, prompts: list[list[int]], generation_length: int, lookahead: int, ranks: int) -> Counter[Pairs]:
    """How often each set is the state after 1 .. lookahead commits, over one batch of trajectories; the empty set counts opportunities."""
    counts: Counter[Pairs] = Counter()
    history: dict[tuple[int, int], list] = {}
    for step in decode_batch(target, prompts, generation_length):
        top = step.logits.topk(min(ranks, step.logits.shape[-1]), dim=-1).indices.cpu().numpy()
        for row in np.flatnonzero(step.active):
            index = np.flatnonzero(step.masked[row])
            order = index[np.argsort(-step.confidence[row, index], kind="stable")]
            entry = (order, top[row], int(step.position[row]), int(step.token[row]))
            history.setdefault((int(row), step.block), []).append(entry)
    for block in history.values():
        for pairs in block_pairs(block, ranks):
            counts[frozenset()] += 1
            counts.update(future_sets(pairs, lookahead))
    return counts


def run(params: dict[str, Any], inputs: Inputs, out: Path, session: StageSession) -> dict[str, Any]:
    """Write graph.json; params: target, block_length, generation_length, pools, nodes, lookahead,
    accumulation."""
    params = {**DEFAULTS, **params}
    if params["accumulation"] not in ACCUMULATIONS:
        raise UserError(f"accumulation: {params['accumulation']!r} is unknown; choose one of {', '.join(ACCUMULATIONS)}")
    target = session.target(target_reference(params, inputs), params["block_length"])
    prompts = load_prompts(target, params)
    tokens = [prompt.tokens for prompt in prompts]
    counts: Counter[Pairs] = Counter()
    done = 0
    lengths = [len(prompt) for prompt in tokens]
    for batch in group(lengths, params["generation_length"], target.block_length, params["batch"], target.attention):
        chosen = [tokens[index] for index in batch]
        counts += count_sets(target, chosen, params["generation_length"], params["lookahead"], params["token_ranks"])
        done += len(batch)
        session.progress(done, len(prompts))
    opportunities = counts.pop(frozenset(), 0)
    graph = select(ACCUMULATIONS[params["accumulation"]](counts), params["nodes"])
    facts = {
        "prompts": len(prompts),
        "pools": params["pools"],
        "opportunities": opportunities,
        "lookahead": params["lookahead"],
        "accumulation": params["accumulation"],
        "depth": max((len(node) for node in graph), default=0),
    }
    save_graph(out / "graph.json", graph, counts, facts)
    return {**facts, "nodes": len(graph)}
