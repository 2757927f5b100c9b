"""The prefix cache is exact, and both layouts give the logits of a state decoded alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from targets_for_tests import random_target

from workers.decoding.context import PrefixContext
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings, Round, answer_share
from workers.drafters.none import NoDrafts
from workers.errors import UserError
from workers.targets.transformer import block_causal_mask
from workers.verifiers import make_verifier

TARGET = random_target(1)
LENGTH, VOCAB, MASK = TARGET.block_length, TARGET.vocab_size, TARGET.mask_id
TOKENS = np.random.default_rng(0).integers(0, MASK, 6 * LENGTH)


def context_after(blocks: int, layout: str = "batch", replicas: int = 3) -> PrefixContext:
    """Two prompt blocks, then finished blocks one by one, with other states seen in between."""
    context = PrefixContext(TARGET, 6 * LENGTH, layout, replicas)
    context.prefill(TOKENS[: 2 * LENGTH].tolist())
    for block in range(2, blocks):
        context.forward(np.full((1, LENGTH), MASK), block * LENGTH)
        context.forward(states_of(3), block * LENGTH)
        context.finish(TOKENS[block * LENGTH : (block + 1) * LENGTH].tolist())
    return context


def states_of(replicas: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    states = random.integers(0, MASK, (replicas, LENGTH))
    states[random.random(states.shape) < 0.5] = MASK
    return states


@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize("layout", ["batch", "concat"])
@torch.inference_mode()
def test_cached_logits_equal_one_uncached_forward(blocks, layout):
    """The prefix is never stored before the next forward needs it, and drafts leave no trace in it."""
    context, start = context_after(blocks, layout, 8), blocks * LENGTH
    states = states_of(5, seed=1)
    first = context.forward(states[:1], start)
    found = context.forward(states, start)
    positions = torch.arange(start + LENGTH)
    for replica, state in enumerate(states):
        row = torch.from_numpy(np.concatenate([TOKENS[:start], state]))[None]
        expected = TARGET.model(row, positions, block_causal_mask(positions, LENGTH))[0, -LENGTH:]
        assert (found[replica, :, :MASK] - expected[:, :MASK]).abs().max() < 1e-5
    assert torch.isneginf(found[..., MASK]).all()
    assert (first[0, :, :MASK] - found[0, :, :MASK]).abs().max() < 1e-5
    assert context.store_passes == blocks - 2


@torch.inference_mode()
def test_layouts_agree():
    batch, concat = context_after(3, "batch", 6), context_after(3, "concat", 6)
    states = states_of(6)
    for context in (batch, concat):
        context.forward(states[:1], 3 * LENGTH)
    difference = batch.forward(states, 3 * LENGTH) - concat.forward(states, 3 * LENGTH)
    assert difference[..., :MASK].abs().max() < 1e-5


@torch.inference_mode()
def test_a_block_anywhere_but_behind_the_prefix_is_refused():
    context = context_after(3)
    with pytest.raises(ValueError, match="prefix ends at 24"):
        context.forward(states_of(1), 2 * LENGTH)
    with pytest.raises(ValueError, match="takes one state"):
        context.forward(states_of(2), 3 * LENGTH)


def test_what_does_not_fit_is_a_user_error():
    settings = DecodeSettings(generation_length=TARGET.max_positions - LENGTH + 1)
    arguments = (NoDrafts(), make_verifier("none"), GumbelNoise(0, "s", VOCAB))
    with pytest.raises(UserError, match="need 264 positions.*has 256"):
        decode(TARGET, [1] * LENGTH, settings, *arguments)
    with pytest.raises(UserError, match="mask token"):
        decode(TARGET, [1, MASK, 2], DecodeSettings(generation_length=4), *arguments)


def test_answer_share_by_hand():
    def round_of(*positions: int) -> Round:
        return Round(0, 0, 0, 0, list(positions), 0.0, 0.0, None, None, None, None, 1, 0, 0, 0, 0)

    # Three forwards commit 1, 4 and 2 tokens; the first stop id is at position 10.
    rounds = [round_of(9), round_of(10, 12, 8, 11), round_of(13, 14)]
    assert answer_share(rounds, 10) == 1 + 2 / 4
    assert answer_share(rounds, None) == 3
