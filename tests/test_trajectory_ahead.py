"""Inter-block speculation: who sees whom in a forward over two blocks, when the next block takes part, what it keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from targets_for_tests import random_target

from workers.decoding.ahead import Ahead
from workers.decoding.commit import single
from workers.decoding.context import make_context
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings, answer_share
from workers.decoding.transition import Transition
from workers.drafters.none import NoDrafts
from workers.drafters.trajectory import Trajectory
from workers.errors import UserError
from workers.verifiers import make_verifier

FULL = replace(random_target(2), attention="full")
SHIFTED = replace(FULL, shift=True)
LENGTH, VOCAB, MASK = FULL.block_length, FULL.vocab_size, FULL.mask_id
PROMPT, BLOCKS = 13, 4
CAPACITY = PROMPT + BLOCKS * LENGTH
START = PROMPT + LENGTH
TOKENS = np.random.default_rng(0).integers(0, MASK, CAPACITY)
TARGETS = pytest.mark.parametrize("target", [FULL, SHIFTED], ids=["plain", "shifted"])
LAYOUTS = pytest.mark.parametrize("layout", ["batch", "concat"])


def states_of(replicas: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    states = random.integers(0, MASK, (replicas, LENGTH))
    states[random.random(states.shape) < 0.5] = MASK
    return states


def opened(target, layout: str, capacity: int = CAPACITY):
    """A context in which the second of four blocks is open, and the state it was opened with."""
    context = make_context(target, "dual", capacity, layout, 6, ahead=True)
    context.prefill(TOKENS[:PROMPT].tolist())
    context.forward(np.full((1, LENGTH), MASK), PROMPT)
    context.finish(TOKENS[PROMPT:START].tolist())
    state = states_of(1, seed=7)
    context.forward(state, START)
    return context, state[0]


def changed(states: np.ndarray, index: int) -> np.ndarray:
    """Another token at every filled position of one state, and one more position filled."""
    states = states.copy()
    filled = states[index] != MASK
    states[index, filled] = (states[index, filled] + 1) % MASK
    states[index, np.flatnonzero(~filled)[0]] = 3
    return states


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("shift", [False, True])
@LAYOUTS
@torch.inference_mode()
def test_each_branch_sees_itself_the_other_root_and_what_surrounds_them(layers, shift, layout):
    """Perturb one branch at a time: only those that may see it change. A root of more than one layer has seen the other
    root, so that through it a draft sees the root it was made from."""
    target = replace(random_target(2, layers=layers), attention="full", shift=shift)
    context, _ = opened(target, layout)
    now, ahead = states_of(4, seed=1), states_of(3, seed=2)
    before = torch.cat(context.forward_pair(now, ahead, START))[..., :MASK]
    roots = {0, 4}  # rows: root and three drafts of this block, root and two drafts of the next one
    sees_root_now, sees_root_ahead = roots | {5, 6}, roots | {1, 2, 3}
    for index in range(7):
        pair = (changed(now, index), ahead) if index < 4 else (now, changed(ahead, index - 4))
        after = torch.cat(context.forward_pair(*pair, START))[..., :MASK]
        differs = {row for row in range(7) if (after[row] - before[row]).abs().max() > 1e-6}
        expected = {0: sees_root_now, 4: sees_root_ahead}.get(index, {index})
        if layers > 1 and index in roots:
            expected = set(range(7))
        assert differs == expected, index


@TARGETS
@LAYOUTS
@torch.inference_mode()
def test_a_draft_in_a_plain_forward_changes_no_other(target, layout):
    context, _ = opened(target, layout)
    states = states_of(4, seed=1)
    before = context.forward(states, START)[..., :MASK]
    for index in range(4):
        after = context.forward(changed(states, index), START)[..., :MASK]
        differs = [row for row in range(4) if (after[row] - before[row]).abs().max() > 1e-6]
        assert differs == [index]


@TARGETS
@LAYOUTS
@torch.inference_mode()
def test_unchanged_roots_are_seen_as_by_a_forward_over_everything(target, layout):
    """The state that the block was opened with, and a next block of masks: the whole canvas as it was then."""
    context, state = opened(target, layout)
    canvas = np.full(CAPACITY, MASK)
    canvas[:START], canvas[START : START + LENGTH] = TOKENS[:START], state
    whole = target.model(torch.from_numpy(canvas)[None], torch.arange(CAPACITY))[0][:, :MASK]
    rows = START - int(target.shift) + torch.arange(2 * LENGTH)
    found = torch.cat(context.forward_pair(state[None], np.full((1, LENGTH), MASK), START)).flatten(0, 1)[:, :MASK]
    assert (found - whole[rows]).abs().max() < 1e-5
    assert (context.ahead_logits[:, :MASK] - whole[rows[LENGTH:]]).abs().max() < 1e-5
    assert (context.forward(state[None], START)[0, :, :MASK] - whole[rows[:LENGTH]]).abs().max() < 1e-5


def pair_logits(target, opened_with: np.ndarray, now: np.ndarray, ahead: np.ndarray) -> torch.Tensor:
    """fp32 [2 L, V]: [canvas as the block opened | both blocks now] in one row, where the first part sees itself and
    the second itself and what the first has outside of both blocks."""
    shift = int(target.shift)
    canvas = np.full(CAPACITY, MASK)
    canvas[:START], canvas[START : START + LENGTH] = TOKENS[:START], opened_with
    current = canvas.copy()
    current[START : START + 2 * LENGTH] = np.concatenate([now, ahead])
    both = np.arange(START - shift, START + 2 * LENGTH)
    tokens = torch.from_numpy(np.concatenate([canvas, current[both]]))
    positions = torch.from_numpy(np.concatenate([np.arange(CAPACITY), both]))
    new = torch.arange(len(tokens)) >= CAPACITY
    replaced = torch.zeros(len(tokens), dtype=torch.bool)
    replaced[torch.from_numpy(both)] = True
    mask = (~new[:, None] & ~new[None]) | (new[:, None] & ~replaced[None])
    return target.model(tokens[None], positions, mask)[0, CAPACITY : CAPACITY + 2 * LENGTH, :MASK]


@TARGETS
@torch.inference_mode()
def test_roots_see_each_other_as_they_are_now(target):
    context, opened_with = opened(target, "batch")
    now, ahead = states_of(3, seed=4), states_of(2, seed=5)
    roots = [logits[0] for logits in context.forward_pair(now, ahead, START)]
    assert (torch.cat(roots)[:, :MASK] - pair_logits(target, opened_with, now[0], ahead[0])).abs().max() < 1e-5


@TARGETS
@torch.inference_mode()
def test_drafts_are_seen_as_if_no_other_were_there(target):
    context, _ = opened(target, "batch")
    now, ahead = states_of(4, seed=1), states_of(3, seed=2)
    together, together_ahead = context.forward_pair(now, ahead, START)
    for index in range(1, 4):
        alone, _ = context.forward_pair(now[[0, index]], ahead[:1], START)
        assert (alone[1] - together[index])[:, :MASK].abs().max() < 1e-5
    for index in range(1, 3):
        _, alone = context.forward_pair(now[:1], ahead[[0, index]], START)
        assert (alone[1] - together_ahead[index])[:, :MASK].abs().max() < 1e-5


def test_the_last_block_has_no_next_one():
    context, state = opened(FULL, "batch", START + LENGTH)
    assert context.ahead_logits is None
    with pytest.raises(ValueError, match="two blocks are decoded together"):
        context.forward_pair(state[None], state[None], START)
    for cache in ("approximate-prefix", "none"):
        with pytest.raises(UserError, match="inter_blocks: needs cache dual, target random-2 is decoded with"):
            make_context(FULL, cache, CAPACITY, "batch", 4, ahead=True)


def run(target, drafter, verifier: str, budget: int, length: int = 3 * 8, **options):
    options = {"commit_rule": "threshold:0.6", "cache": "dual", "budget": budget, **options}
    noise = GumbelNoise(0, "s", VOCAB)
    prompt = TOKENS[:PROMPT].tolist()
    return decode(target, prompt, DecodeSettings(length, **options), drafter, make_verifier(verifier), noise)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 5),
    shift=st.booleans(),
    blocks=st.integers(1, 3),
    rule=st.sampled_from(["single", "threshold:0.9", "threshold:0.5", "top-k:2"]),
    verifier_temperature=st.sampled_from([("greedy", 0.0), ("subset-top-1", 0.0), ("coupled", 1.0), ("subset-top-k:2:longest", 0.0)]),
    layout=st.sampled_from(["batch", "concat"]),
    padded=st.booleans(),
    stop=st.sampled_from(["fill", "eos"]),
)
def test_every_position_is_filled_once_in_one_block_or_ahead_of_it(
    seed, shift, blocks, rule, verifier_temperature, layout, padded, stop
):
    target = replace(random_target(seed), attention="full", shift=shift)
    verifier, temperature = verifier_temperature
    options = {"commit_rule": rule, "temperature": temperature, "layout": layout, "padded": padded, "stop": stop}
    done = run(target, Trajectory(2, 2, inter_blocks=blocks), verifier, 3 + blocks, 29, **options)
    filled = [p for r in done.rounds for p in r.positions + r.ahead_positions]
    assert len(filled) == len(set(filled)) and MASK not in done.tokens
    # With stop eos, what was decoded ahead of the last block is dropped.
    inside = [p for p in filled if p < PROMPT + len(done.tokens)]
    assert sorted(inside) == list(range(PROMPT, PROMPT + len(done.tokens)))
    assert len(inside) == len(filled) or stop == "eos"
    assert sum(block.commits for block in done.blocks) == sum(len(r.positions) for r in done.rounds)
    assert all(0 < p - (PROMPT + (r.block + 1) * LENGTH) + 1 <= LENGTH for r in done.rounds for p in r.ahead_positions)
    assert answer_share(done.rounds, None) == done.nfe and answer_share(done.rounds, filled[-1] + CAPACITY) == pytest.approx(done.nfe)


def test_the_next_block_takes_part_and_saves_forwards():
    alone = ahead = fast = worked = 0
    for seed in range(6):
        target = replace(random_target(seed), attention="full")
        fast += run(target, NoDrafts(), "none", 0).nfe
        alone += run(target, Trajectory(2, 2), "subset-top-1", 3).nfe
        done = run(target, Trajectory(2, 2, inter_blocks=2), "subset-top-1", 5)
        ahead += done.nfe
        worked += sum(len(r.ahead_positions) for r in done.rounds)
        assert all(r.replicas <= 1 + 5 + 1 for r in done.rounds)
        assert all(r.ahead_accepted <= r.ahead_drafted <= 2 for r in done.rounds)
    assert ahead < alone < fast and worked > 0


def ahead_of(confidences: list[float], tau: float) -> Ahead:
    """A next block of masks whose positions have these stale confidences for token 1."""
    rule = Transition(single, 0.0, GumbelNoise(0, "s", VOCAB), MASK, torch.device("cpu"))
    ahead = Ahead(rule, Trajectory(1, 1, inter_blocks=1), make_verifier("greedy"), MASK, tau)
    ahead.open_block(LENGTH, len(confidences), logits_of(confidences))
    return ahead


def logits_of(confidences: list[float]) -> torch.Tensor:
    best = torch.tensor(confidences)
    probs = ((1 - best) / (VOCAB - 2))[:, None].repeat(1, VOCAB)
    probs[:, 1], probs[:, MASK] = best, 0
    return probs.log()


@pytest.mark.parametrize(("now", "takes_part"), [(0.3, True), (0.7, False), (0.51, False)])
def test_trigger(now, takes_part):
    """Equation 3: its best position, here 0.5, is above that of the current block or above tau."""
    assert (ahead_of([0.2, 0.5, 0.4], tau=0.9).draft(now, 0) is not None) == takes_part
    assert ahead_of([0.2, 0.5, 0.4], tau=0.45).draft(0.99, 0) is not None


@pytest.mark.parametrize(("fresh", "positions"), [(0.46, [LENGTH + 1, LENGTH + 2]), (0.44, [])])
def test_fresh_logits_decide_what_is_committed(fresh, positions):
    """The draft fills position 1; its own forward then commits position 2. If no position is above tau now, nothing is
    kept."""
    ahead = ahead_of([0.2, 0.5, 0.4], tau=0.45)
    tree = ahead.draft(0.99, 0)
    assert [state.tolist() for state in tree.states] == [[MASK, 1, MASK]]
    found = ahead.advance(tree, torch.stack([logits_of([0.2, fresh, 0.4])] * 2))
    assert found.get("ahead_positions", []) == positions and found["ahead_drafted"] == 1
    assert ahead.state.tolist() == ([MASK, 1, 1] if positions else [MASK] * 3)
    assert ahead.take() is not None and ahead.take() is None


@pytest.mark.parametrize("layout", ["batch", "concat"])
@TARGETS
def test_logits_that_decide_are_those_of_a_forward_without_drafts(target, layout):
    """Table 10 ("logit error 0.00"): replicas in rows of a batch change nothing, those in one row the order of sums."""
    plain = run(target, Trajectory(3, 3), "greedy", 6, layout=layout)
    checked = run(target, Trajectory(3, 3), "greedy", 6, layout=layout, check_logits=True)
    assert checked.tokens == plain.tokens and checked.nfe == plain.nfe
    errors = [r.logit_error for r in checked.rounds if r.drafted]
    assert errors and max(errors) < (1e-6 if layout == "batch" else 1e-4)
    assert all(r.logit_error is None for r in checked.rounds if not r.drafted)
    assert all(r.logit_error is None for r in plain.rounds)
