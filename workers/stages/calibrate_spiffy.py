"""calibrate-spiffy: count which sets of ranks the next commits are, and select the draft graph (arXiv 2509.18085)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workers.decoding.noise import GumbelNoise
from workers.drafters.spiffy import ACCUMULATIONS, Pairs, future_sets, save_graph, select
from workers.errors import UserError
from workers.stages import Inputs, StageSession, target_reference
from workers.stages.trajectories import Prompt, decode_batch, group, load_prompts

if TYPE_CHECKING:
    from workers.targets.target import Target

DEFAULTS = {
    "nodes": 24,
    "lookahead": 6,
    "accumulation": "degree-1",
    "token_ranks": 8,
    "batch": 16,
    "temperature": 0.0,
    "rank_by": "confidence",
}
NOISE_SEED = 0


def block_pairs(history: list[tuple[np.ndarray, np.ndarray, int, int]]) -> list[list[tuple[int, int]]]:
    """Per draft opportunity of one block the following commits as (position rank, token rank), in commit order.

    history: per forward of the block, positions in order of preference [M], top tokens [L, ranks], committed position
    and token. As while decoding, the ranks come from the forward before the root's last commit and count the root's
    masked positions only. A list ends before a commit that the stale distribution does not rank among its `ranks`
    tokens and before the commit that fills the block, which is never worth drafting.
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


def count_sets(target: Target, prompts: list[Prompt], params: dict[str, Any]) -> Counter[Pairs]:
    """How often each set is the state after 1 .. lookahead commits, over one batch of trajectories; the empty set
    counts opportunities. Above temperature 0 tokens rank by their perturbed scores: rank 0 is the coupled draw."""
    counts: Counter[Pairs] = Counter()
    history: dict[tuple[int, int], list] = {}
    noise = [GumbelNoise(NOISE_SEED, prompt.sample.id, target.vocab_size) for prompt in prompts]
    tokens = [prompt.tokens for prompt in prompts]
    ranks = 1 if params["temperature"] > 0 else params["token_ranks"]  # a draft holds no token but the drawn one there
    for step in decode_batch(target, tokens, params["generation_length"], params["temperature"], noise):
        top = step.scores.topk(min(ranks, step.scores.shape[-1]), dim=-1).indices
        worth = step.confidence
        if params["rank_by"] == "draw":
            worth = step.logits.log_softmax(dim=-1).gather(-1, top[..., :1]).squeeze(-1).cpu().numpy()
        top = top.cpu().numpy()
        for row in np.flatnonzero(step.active):
            index = np.flatnonzero(step.masked[row])
            order = index[np.argsort(-worth[row, index], kind="stable")]
            entry = (order, top[row], int(step.position[row]), int(step.token[row]))
            history.setdefault((int(row), step.block), []).append(entry)
    for block in history.values():
        for pairs in block_pairs(block):
            counts[frozenset()] += 1
            counts.update(future_sets(pairs, params["lookahead"]))
    return counts


def run(params: dict[str, Any], inputs: Inputs, out: Path, session: StageSession) -> dict[str, Any]:
    """Write graph.json; params: target, block_length, generation_length, pools, nodes, lookahead,
    accumulation, temperature, rank_by (see `SpiffyDrafter`)."""
    params = {**DEFAULTS, **params}
    if params["accumulation"] not in ACCUMULATIONS:
        raise UserError(f"accumulation: {params['accumulation']!r} is unknown; choose one of {', '.join(ACCUMULATIONS)}")
    target = session.target(target_reference(params, inputs), params["block_length"])
    prompts = load_prompts(target, params)
    counts: Counter[Pairs] = Counter()
    done = 0
    lengths = [len(prompt.tokens) for prompt in prompts]
    for batch in group(lengths, params["generation_length"], target.block_length, params["batch"], target.attention):
        counts += count_sets(target, [prompts[index] for index in batch], params)
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
        "temperature": params["temperature"],
        "rank_by": params["rank_by"],
        "depth": max((len(node) for node in graph), default=0),
    }
    save_graph(out / "graph.json", graph, counts, facts)
    return {**facts, "nodes": len(graph)}
