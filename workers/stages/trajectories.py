"""Draft-free greedy decoding of many prompts per forward: the trajectories that collection and calibration read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from workers.decoding.commit import COMMIT_RULES
from workers.errors import UserError
from workers.targets.transformer import KVCache, block_causal_mask
from workers.tasks import Data, get_task
from workers.tasks.sample import Sample

if TYPE_CHECKING:
    from workers.targets.target import Target


@dataclass(frozen=True)
class Prompt:
    """One sample of a pool, encoded."""

    sample: Sample
    pool: str
    split: str
    tokens: list[int]


@dataclass(frozen=True)
class BatchStep:
    """One forward over B blocks, before its commits: arrays of B rows, of which `active` ones have masks left.

    states int64 [B, L]; logits fp32 [B, L, V], the mask id at -inf; confidence fp32 [B, L]; position int64 [B] the
    position each row commits; token int64 [B]; block counts from the block of the first generated position.
    """

    block: int
    active: np.ndarray
    states: np.ndarray
    masked: np.ndarray
    logits: Tensor
    confidence: np.ndarray
    position: np.ndarray
    token: np.ndarray


def load_prompts(target: Target, pools: Sequence[Mapping[str, Any]], data: Data | None = None) -> list[Prompt]:
    """All samples of `pools` ({task, split, first, count} each), encoded; see `get_task` for `data`.

    Raises UserError if there are none.
    """
    prompts = [
        Prompt(sample, pool["task"], pool["split"], target.encode(sample.prompt))
        for pool in pools
        for sample in get_task(pool["task"], data).samples(pool["split"], pool["first"], pool["count"])
    ]
    if not prompts:
        raise UserError("pools: no samples; give at least one pool with count above 0")
    return prompts


def blocks_of(prompt_tokens: int, generation_length: int, block_length: int) -> tuple[int, int]:
    """Whole prompt blocks before the first decoded block, and how many blocks are decoded (the prompt's tail shares the first)."""
    whole = prompt_tokens // block_length
    return whole, -(-(prompt_tokens + generation_length) // block_length) - whole


def group(lengths: Sequence[int], generation_length: int, block_length: int, batch: int) -> list[list[int]]:
    """Indices in batches of at most `batch` whose prompts cover the same whole blocks and decode as many blocks.

    Prompts of like tails come together, so that few rows idle in the first block. Depends on the lengths alone.
    """
    keys = [(*blocks_of(length, generation_length, block_length), length) for length in lengths]
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: (keys[i], i)):
        if not batches or len(batches[-1]) == batch or keys[batches[-1][0]][:2] != keys[index][:2]:
            batches.append([])
        batches[-1].append(index)
    return batches


@torch.inference_mode()
def decode_batch(target: Target, prompts: Sequence[Sequence[int]], generation_length: int) -> Iterator[BatchStep]:
    """Decode a batch of `group` greedily, one commit per row and forward, to the end of the last block.

    Yields every forward; a row idles from the moment its block is full until the next block starts. The committed tokens
    equal those of the one-sample decode loop, up to rounding between batch shapes.
    """
    length, config, device = target.block_length, target.model.config, target.device
    whole, blocks = blocks_of(len(prompts[0]), generation_length, length)
    capacity = (whole + blocks) * length
    if capacity > target.max_positions:
        raise UserError(
            f"generation_length: prompt and answer need {capacity} positions, {target.name} has {target.max_positions}; "
            "shorten generation_length or the prompts"
        )
    rows = len(prompts)
    cache = KVCache(config, rows, capacity, device, target.dtype)
    positions = torch.arange(capacity, device=device)
    if whole:
        prefix = torch.tensor([list(prompt[: whole * length]) for prompt in prompts], device=device)
        head = positions[: whole * length]
        target.model(prefix, head, block_causal_mask(head, length), cache, store=whole * length, keep=0)

    single = COMMIT_RULES["single"]
    finished: np.ndarray | None = None
    for block in range(blocks):
        states = np.full((rows, length), target.mask_id, dtype=np.int64)
        if block == 0:
            for row, prompt in enumerate(prompts):
                tail = prompt[whole * length :]
                states[row, : len(tail)] = tail
        while (active := (masked := states == target.mask_id).any(axis=1)).any():
            logits = _forward(target, cache, positions, states, finished)
            finished = None
            confidence = torch.softmax(logits, dim=-1).amax(dim=-1).cpu().numpy()
            position = single(confidence, masked).argmax(axis=1)
            token = logits[torch.arange(rows), torch.from_numpy(position)].argmax(dim=-1).cpu().numpy()
            yield BatchStep(block, active, states.copy(), masked, logits, confidence, position, token)
            states[active, position[active]] = token[active]
        finished = states


def _forward(target: Target, cache: KVCache, positions: Tensor, states: np.ndarray, finished: np.ndarray | None) -> Tensor:
    """fp32 logits [B, L, V] at `states`; stores a `finished` block [B, L] on the way."""
    length, start = states.shape[1], cache.length
    tokens, mask, store = states, None, 0
    if finished is not None:
        tokens, store = np.concatenate([finished, states], axis=1), length
        span = positions[start : start + 2 * length]
        mask = block_causal_mask(span, length, positions[: start + 2 * length])
    span = positions[start : start + tokens.shape[1]]
    tokens = torch.from_numpy(tokens).to(cache.data.device)
    logits = target.model(tokens, span, mask, cache, store=store, keep=length).float()
    logits[..., target.mask_id] = -torch.inf
    return logits
