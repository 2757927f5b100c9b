"""check-rejection: does a rejection verifier follow the target's law on its own states? Before every evaluation with it
(SPOT, section B.4)."""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from workers.drafters.chain import Chain
from workers.drafters.tree import ConfidenceTree
from workers.errors import UserError
from workers.stages import Inputs, StageSession, target_reference
from workers.stages.trajectories import decode_batch, group, load_prompts
from workers.verifiers import make_verifier
from workers.verifiers.checks import LiveState, check_pairs, check_rule

if TYPE_CHECKING:
    from workers.targets.target import Target

DEFAULTS = {"generation_length": 64, "states": 8, "draws": 2**20, "walks": 300, "batch": 8, "seed": 0}
BUDGET = 8
# What drafts for a verifier here: the check is of the verifier, any drafter it accepts will do.
DRAFTERS = {"rejection": Chain(), "pt-rejection": ConfidenceTree()}


def live_states(
    target: Target, prompts: Sequence[Sequence[int]], generation_length: int, count: int
) -> list[LiveState]:
    """The `count` states of draft-free trajectories whose next token is the least certain, in order, each with the
    logits of the forward before. Where the next token is certain, any verifier would pass."""
    found: list[tuple[float, int, LiveState]] = []
    before: dict[int, tuple[int, torch.Tensor]] = {}
    for number, step in enumerate(decode_batch(target, prompts, generation_length)):
        for row in map(int, step.active.nonzero()[0]):
            block, stale = before.get(row, (-1, step.logits[row]))
            logits, position = step.logits[row].clone(), int(step.position[row])
            before[row] = (step.block, logits)
            # A block's first state has no stale conditionals, its last one nothing worth drafting.
            if block == step.block and step.masked[row].sum() > 1:
                entropy = float(torch.special.entr(torch.softmax(logits[position], dim=-1)).sum())
                live = LiveState(step.states[row], position, logits, stale)
                heapq.heappush(found, (entropy, number * len(prompts) + row, live))
                if len(found) > count:
                    heapq.heappop(found)
    return [live for _, _, live in sorted(found, key=lambda entry: entry[1])]


@torch.inference_mode()
def run(params: dict[str, Any], inputs: Inputs, out: Path, session: StageSession) -> dict[str, Any]:
    """Write checks.json, one row per check; params: target, block_length, verifier, temperature, pools, states, draws,
    walks.

    A check that fails fails no stage: its rows are the finding, and evaluate refuses to run behind them.
    """
    params = {**DEFAULTS, **params}
    target = session.target(target_reference(params, inputs), params["block_length"])
    tokens = [prompt.tokens for prompt in load_prompts(target, params)]
    length, temperature = params["generation_length"], params["temperature"]
    batches = group(list(map(len, tokens)), length, target.block_length, params["batch"], target.attention)
    states = [
        state
        for batch in batches
        for state in live_states(target, [tokens[i] for i in batch], length, -(-params["states"] // len(batches)))
    ]
    if not states:
        raise UserError("check-rejection: no state to check; raise generation_length or the number of prompts")
    name = params["verifier"]
    session.progress(0, 2)
    checks = check_rule(states, temperature, params["draws"], params["seed"])
    session.progress(1, 2)
    walks, seed = params["walks"], params["seed"]
    verifier, drafter = make_verifier(name), DRAFTERS[name]
    checks += check_pairs(states, verifier, drafter, temperature, BUDGET, target.mask_id, walks, seed)
    session.progress(2, 2)
    passed = all(check.passed for check in checks)
    summary = {"verifier": name, "temperature": temperature, "passed": passed, "checks": [asdict(c) for c in checks]}
    (out / "checks.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary
