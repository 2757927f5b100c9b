"""Draft-free decoding of many prompts per forward: the trajectories that collection and calibration read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from workers.decoding.caches import resolve_cache
from workers.decoding.canvas import CanvasContext
from workers.decoding.commit import single
from workers.decoding.noise import GumbelNoise
from workers.errors import UserError
from workers.targets.transformer import KVCache, block_causal_mask
from workers.tasks import check_samples, get_task
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

    states int64 [B, L]; logits fp32 [B, L, V], the mask id at -inf; scores [B, L, V], whose argmax is the token at each
    position: the logits at T=0, log p / T + G up to a constant above; confidence fp32 [B, L]; position int64 [B] the
    position each row commits; token int64 [B]; block counts from the block of the first generated position.
    """

    block: int
    active: np.ndarray
    states: np.ndarray
    masked: np.ndarray
    logits: Tensor
    scores: Tensor
    confidence: np.ndarray
    position: np.ndarray
    token: np.ndarray


def load_prompts(target: Target, params: Mapping[str, Any]) -> list[Prompt]:
    """The samples of the pools ({task, split, first, count} each) of a stage's parameters, encoded.

    Those that do not fit the target with an answer of generation_length behind them are left out. Raises UserError if
    none is left, or the data is not that of the plan.
    """
    pools = params["pools"]
    prompts = []
    for pool, planned in zip(pools, params.get("sample_digests") or [None] * len(pools)):
        task = get_task(pool["task"], params.get("data"))
        samples = task.samples(pool["split"], pool["first"], pool["count"])
        check_samples(task, samples, planned)
        prompts += [Prompt(sample, task.name, pool["split"], target.encode(sample.prompt)) for sample in samples]
    if not prompts:
        raise UserError("pools: no samples; give at least one pool with count above 0")
    room = target.max_positions
    fitting = [p for p in prompts if target.span(len(p.tokens), params["generation_length"])[1] <= room]
    if not fitting:
        raise UserError(
            f"generation_length: none of {len(prompts)} prompts fits the {room} positions of {target.name} with an answer "
            f"of {params['generation_length']} tokens; shorten generation_length or choose other prompts"
        )
    return fitting


def blocks_of(prompt_tokens: int, generation_length: int, block_length: int) -> tuple[int, int]:
    """Whole prompt blocks before the first decoded block, and how many blocks are decoded (the prompt's tail shares the
    first)."""
    whole = prompt_tokens // block_length
    return whole, -(-(prompt_tokens + generation_length) // block_length) - whole


def group(
    lengths: Sequence[int], generation_length: int, block_length: int, batch: int, attention: str = "block-causal"
) -> list[list[int]]:
    """Indices in batches of at most `batch` whose prompts cover the same whole blocks and decode as many blocks.

    Prompts of like tails come together, so that few rows idle in the first block. On full attention, where blocks
    follow the prompt, any prompts go together, those of like length first. Depends on the lengths alone.
    """
    whole = [
        (0, 0) if attention == "full" else blocks_of(length, generation_length, block_length) for length in lengths
    ]
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: (whole[i], lengths[i], i)):
        if not batches or len(batches[-1]) == batch or whole[batches[-1][0]] != whole[index]:
            batches.append([])
        batches[-1].append(index)
    return batches


# Logits fp32 [B, L, V] of states int64 [B, L], after taking over a finished block [B, L] if there is one.
Forward = Callable[[np.ndarray, np.ndarray | None], Tensor]


@torch.inference_mode()
def decode_batch(
    target: Target,
    prompts: Sequence[Sequence[int]],
    generation_length: int,
    temperature: float = 0.0,
    noise: Sequence[GumbelNoise] = (),
) -> Iterator[BatchStep]:
    """Decode a batch of `group`, one commit per row and forward, to the end of the last block.

    Greedily, or above temperature 0 under `noise`, one table per prompt.

    Yields every forward; a row idles from the moment its block is full until the next block starts. The committed
    tokens equal those of the one-sample decode loop under the target's usual cache, up to rounding between batch
    shapes.
    """
    length, rows = target.block_length, len(prompts)
    spans = [target.span(len(prompt), generation_length) for prompt in prompts]
    capacity = max(end for _, end in spans)
    if capacity > target.max_positions:
        raise UserError(
            f"generation_length: prompt and answer need {capacity} positions, {target.name} has {target.max_positions}; "
            "shorten generation_length or the prompts"
        )
    forward = (_canvas_forward if target.attention == "full" else _prefix_forward)(target, prompts, spans)
    finished: np.ndarray | None = None
    for block in range((spans[0][1] - spans[0][0]) // length):
        states = np.full((rows, length), target.mask_id, dtype=np.int64)
        if block == 0:
            for state, prompt, (first, _) in zip(states, prompts, spans):
                state[: len(prompt) - first] = prompt[first:]
        rows_of_noise = None
        if temperature > 0:
            starts = [first + block * length for first, _ in spans]
            rows_of_noise = torch.stack([one.rows(start, length) for one, start in zip(noise, starts)])
            rows_of_noise = rows_of_noise.to(target.device)
        while (active := (masked := states == target.mask_id).any(axis=1)).any():
            logits = forward(states, finished)
            finished = None
            confidence = torch.softmax(logits, dim=-1).amax(dim=-1).cpu().numpy()
            position = single(confidence, masked).argmax(axis=1)
            scores = logits if rows_of_noise is None else torch.add(rows_of_noise, logits, alpha=1 / temperature)
            token = scores[torch.arange(rows), torch.from_numpy(position)].argmax(dim=-1).cpu().numpy()
            yield BatchStep(block, active, states.copy(), masked, logits, scores, confidence, position, token)
            states[active, position[active]] = token[active]
        finished = states


def _canvas_forward(target: Target, prompts: Sequence[Sequence[int]], spans: Sequence[tuple[int, int]]) -> Forward:
    """Full attention: prompts padded on the left, under the usual cache."""
    pads = [max(map(len, prompts)) - len(prompt) for prompt in prompts]
    capacity = max(end for _, end in spans)
    context = CanvasContext(target, capacity, cache=resolve_cache("auto", target.attention), pads=pads)
    context.prefill([[0] * pad + list(prompt) for pad, prompt in zip(pads, prompts)])

    def forward(states: np.ndarray, finished: np.ndarray | None) -> Tensor:
        if finished is not None:
            context.finish(finished)
        return context.forward(states, context.length)

    return forward


def _prefix_forward(target: Target, prompts: Sequence[Sequence[int]], spans: Sequence[tuple[int, int]]) -> Forward:
    """Block-causal: the exact prefix cache, one row per prompt; a finished block is stored on the way."""
    (first, capacity), length, device = spans[0], target.block_length, target.device
    cache = KVCache(target.model.config, len(prompts), capacity, device, target.dtype)
    positions = torch.arange(capacity, device=device)
    if first:
        prefix = torch.tensor([list(prompt[:first]) for prompt in prompts], device=device)
        head = positions[:first]
        target.model(prefix, head, block_causal_mask(head, length), cache, store=first, keep=0)

    def forward(states: np.ndarray, finished: np.ndarray | None) -> Tensor:
        start, tokens, mask, store = cache.length, states, None, 0
        if finished is not None:
            tokens, store = np.concatenate([finished, states], axis=1), length
            span = positions[start : start + 2 * length]
            mask = block_causal_mask(span, length, positions[: start + 2 * length])
        span = positions[start : start + tokens.shape[1]]
        tokens = torch.from_numpy(tokens).to(device)
        logits = target.model(tokens, span, mask, cache, store=store, keep=length).float()
        logits[..., target.mask_id] = -torch.inf
        return logits

    return forward
