"""Full-attention targets: what a forward sees under every cache, shifted logits, and drafts that change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from targets_for_tests import random_target

from workers.decoding.caches import cache_problem, resolve_cache
from workers.decoding.canvas import CanvasContext
from workers.decoding.context import PrefixContext, make_context
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings
from workers.drafters import TargetInfo, make_drafter
from workers.errors import UserError
from workers.verifiers import make_verifier

CAUSAL = random_target(2)
FULL = replace(CAUSAL, attention="full")
SHIFTED = replace(FULL, shift=True)
LENGTH, VOCAB, MASK = CAUSAL.block_length, CAUSAL.vocab_size, CAUSAL.mask_id
PROMPT, CAPACITY = 13, 13 + 3 * LENGTH
TOKENS = np.random.default_rng(0).integers(0, MASK, CAPACITY)
START = PROMPT + LENGTH
TOLERANCE = 1e-5


def states_of(replicas: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    states = random.integers(0, MASK, (replicas, LENGTH))
    states[random.random(states.shape) < 0.5] = MASK
    return states


def canvas_with(state: np.ndarray) -> torch.Tensor:
    """The canvas while the second of three blocks is decoded."""
    canvas = np.full(CAPACITY, MASK)
    canvas[:START] = TOKENS[:START]
    canvas[START : START + LENGTH] = state
    return torch.from_numpy(canvas)


def expected_logits(target, opened: np.ndarray, state: np.ndarray, cache: str) -> torch.Tensor:
    """Without a cache: [canvas as the block opened | own part now] in one row, where the first part sees itself and the
    second sees itself and what the first has outside of it."""
    shift = int(target.shift)
    own = {
        "none": range(CAPACITY),
        "approximate-prefix": range(START - shift, CAPACITY),
        "dual": range(START - shift, START + LENGTH),
    }[cache]
    own = torch.tensor(list(own))
    tokens = torch.cat([canvas_with(opened), canvas_with(state)[own]])
    positions = torch.cat([torch.arange(CAPACITY), own])
    old, new = torch.arange(len(tokens)) < CAPACITY, torch.arange(len(tokens)) >= CAPACITY
    replaced = torch.zeros(len(tokens), dtype=torch.bool)
    replaced[own] = True
    mask = (old[:, None] & old[None, :]) | (new[:, None] & ~replaced[None, :])
    logits = target.model(tokens[None], positions, mask)[0]
    rows = CAPACITY + START - shift - int(own[0]) + torch.arange(LENGTH)
    return logits[rows][:, :MASK]


def opened_context(target, cache: str, layout: str = "batch", replicas: int = 1) -> tuple[CanvasContext, np.ndarray]:
    """A context with the prompt and one decoded block, the second block opened; and the state it was opened with."""
    context = make_context(target, cache, CAPACITY, layout, replicas)
    context.prefill(TOKENS[:PROMPT].tolist())
    context.forward(np.full((1, LENGTH), MASK), PROMPT)
    context.finish(TOKENS[PROMPT:START].tolist())
    opened = states_of(1, seed=7)
    context.forward(opened, START)
    return context, opened[0]


@pytest.mark.parametrize("cache", ["none", "approximate-prefix", "dual"])
@pytest.mark.parametrize("target", [FULL, SHIFTED], ids=["plain", "shifted"])
@torch.inference_mode()
def test_a_forward_sees_what_its_cache_says(target, cache):
    context, opened = opened_context(target, cache)
    for state in (opened, *states_of(3)):
        found = context.forward(state[None], START)
        assert (found[0, :, :MASK] - expected_logits(target, opened, state, cache)).abs().max() < TOLERANCE
        assert torch.isneginf(found[..., MASK]).all()
    # A state that has not changed since the block opened is seen as by a forward over everything.
    whole = target.model(canvas_with(opened)[None], torch.arange(CAPACITY))[0]
    rows = START - int(target.shift) + torch.arange(LENGTH)
    assert (context.forward(opened[None], START)[0, :, :MASK] - whole[rows][:, :MASK]).abs().max() < TOLERANCE
    assert context.store_passes == 0


@pytest.mark.parametrize("cache", ["none", "approximate-prefix", "dual"])
@pytest.mark.parametrize("target", [FULL, SHIFTED], ids=["plain", "shifted"])
@torch.inference_mode()
def test_replicas_see_the_context_and_themselves_only(target, cache):
    states = states_of(5, seed=3)
    batch, opened = opened_context(target, cache, "batch", 5)
    concat, _ = opened_context(target, cache, "concat", 5)
    rows, row = batch.forward(states, START), concat.forward(states, START)
    for index, state in enumerate(states):
        expected = expected_logits(target, opened, state, cache)
        assert (rows[index, :, :MASK] - expected).abs().max() < TOLERANCE
        assert (row[index, :, :MASK] - expected).abs().max() < TOLERANCE


@pytest.mark.parametrize("layout", ["batch", "concat"])
@torch.inference_mode()
def test_without_a_cache_a_block_causal_target_is_what_it_is_with_one(layout):
    exact = PrefixContext(CAUSAL, 4 * LENGTH, layout, 4)
    plain = make_context(CAUSAL, "none", 4 * LENGTH, layout, 4)
    for context in (exact, plain):
        context.prefill(TOKENS[: 2 * LENGTH].tolist())
    for states in (states_of(1), states_of(4, seed=1)):
        difference = exact.forward(states, 2 * LENGTH) - plain.forward(states, 2 * LENGTH)
        assert difference[..., :MASK].abs().max() < TOLERANCE


@pytest.mark.parametrize("cache", ["none", "approximate-prefix", "dual"])
@torch.inference_mode()
def test_prompts_of_a_batch_do_not_see_their_padding(cache):
    lengths, width = (5, 13, 9), 13
    prompts = [TOKENS[:length] for length in lengths]
    batch = CanvasContext(SHIFTED, width + 2 * LENGTH, cache=cache, pads=[width - length for length in lengths])
    batch.prefill([np.concatenate([np.zeros(width - len(p), dtype=np.int64), p]) for p in prompts])
    singles = [CanvasContext(SHIFTED, length + 2 * LENGTH, cache=cache) for length in lengths]
    for single, prompt in zip(singles, prompts):
        single.prefill(prompt)
    for block in range(2):
        for states in (np.full((3, LENGTH), MASK), states_of(3, seed=block)):
            found = batch.forward(states, width + block * LENGTH)
            for row, (single, state, length) in enumerate(zip(singles, states, lengths)):
                alone = single.forward(state[None], length + block * LENGTH)
                assert (found[row] - alone[0])[:, :MASK].abs().max() < TOLERANCE
        batch.finish(states)
        for single, state in zip(singles, states):
            single.finish(state)


@pytest.mark.parametrize("layout", ["batch", "concat"])
@pytest.mark.parametrize("cache", ["none", "approximate-prefix", "dual"])
@pytest.mark.parametrize("target", [FULL, SHIFTED], ids=["plain", "shifted"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafting_changes_no_token(target, cache, layout, temperature):
    """Exact relative to the cached decoder: the approximation lies in the cache alone (SPOT, appendix D.7)."""
    info = TargetInfo(LENGTH, VOCAB, MASK)
    runs = []
    for name, budget, verifier in (("none", 0, "none"), ("tree", 6, "coupled")):
        settings = DecodeSettings(20, budget=budget, layout=layout, temperature=temperature, cache=cache)
        drafter = make_drafter(name, {}, {}, info)
        prompt = TOKENS[:PROMPT].tolist()
        runs.append(decode(target, prompt, settings, drafter, make_verifier(verifier), GumbelNoise(1, "s", VOCAB)))
    control, method = runs
    assert method.tokens == control.tokens and len(control.tokens) == 24  # blocks follow the prompt, the last one is whole
    assert control.nfe == 24 and method.nfe < 24
    assert MASK not in control.tokens


def test_the_cache_goes_with_the_attention():
    assert resolve_cache("auto", "full") == "approximate-prefix" and resolve_cache("auto", "block-causal") == "prefix"
    assert cache_problem("none", "full") is cache_problem("none", "block-causal") is cache_problem("auto", "full") is None
    with pytest.raises(UserError, match="'prefix' needs block-causal attention.*use approximate-prefix, dual, none"):
        make_context(FULL, "prefix", CAPACITY, "batch", 1)
    with pytest.raises(UserError, match="'dual' is for full attention.*use prefix, none"):
        make_context(CAUSAL, "dual", CAPACITY, "batch", 1)
    with pytest.raises(UserError, match="prompt is empty"):
        drafter = make_drafter("none", {}, {}, TargetInfo(LENGTH, VOCAB, MASK))
        decode(SHIFTED, [], DecodeSettings(4), drafter, make_verifier("none"), GumbelNoise(0, "s", VOCAB))
