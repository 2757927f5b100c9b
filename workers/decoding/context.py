"""The exact prefix cache of one sequence, forwards of many states of its next block, and the choice of a context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from workers.decoding.caches import cache_problem, resolve_cache
from workers.decoding.canvas import CanvasContext
from workers.errors import UserError
from workers.targets.transformer import KVCache, block_causal_mask

if TYPE_CHECKING:
    from workers.targets.target import Target


class Context(Protocol):
    """What a decode loop asks of a cache; see `PrefixContext` for the words."""

    forwards: int
    store_passes: int

    @property
    def length(self) -> int:
        """Positions that are decoded."""
        ...

    def prefill(self, tokens: Sequence[int]) -> None:
        """Begin with these tokens before the first block; called once."""
        ...

    def finish(self, tokens: Sequence[int]) -> None:
        """The open block is filled with `tokens`, the next one opens."""
        ...

    def forward(self, states: np.ndarray, start: int) -> Tensor:
        """Logits fp32 [R, L, V] of states int64 [R, L] of the open block, which begins at absolute position `start`."""
        ...


def make_context(
    target: Target, cache: str, capacity: int, layout: str, replicas: int, ahead: bool = False
) -> Context:
    """The context of one sequence of `capacity` positions; raises UserError for a cache that the target cannot have, or
    that is not "dual" where the next block is decoded ahead."""
    if problem := cache_problem(cache, target.attention):
        raise UserError(f"target {target.name}: cache {problem}")
    cache = resolve_cache(cache, target.attention)
    if ahead and cache != "dual":
        raise UserError(f"inter_blocks: needs cache dual, target {target.name} is decoded with cache {cache}")
    if cache == "prefix":
        return PrefixContext(target, capacity, layout, replicas)
    return CanvasContext(target, capacity, layout, replicas, cache, ahead=ahead)


class PrefixContext:
    """Keys and values of all finished blocks of one sequence of a block-causal target, exact.

    Finished blocks are handed over by `prefill` and `finish`; their keys and values are computed by the next forward,
    fused with it (one forward over [finished | current block] behind the block-causal mask). capacity: positions of the
    whole sequence. replicas: most states per forward; they are rows of a batch, with the prefix cached in every row, or
    follow each other in one row behind a blockwise mask ("concat"). Counters: forwards; store_passes, the finished
    generated blocks that have been stored.
    """

    def __init__(self, target: Target, capacity: int, layout: str = "batch", replicas: int = 1):
        self._model = target.model
        self._block_length = target.block_length
        self._mask_id = target.mask_id
        self._device = target.device
        self._layout = layout
        rows, scratch = (replicas, 0) if layout == "batch" else (1, (replicas - 1) * target.block_length)
        self._cache = KVCache(target.model.config, rows, capacity + scratch, target.device, target.dtype)
        self._pending: list[int] = []
        self._pending_blocks = 0
        self._concat_mask: Tensor | None = None
        self.forwards = 0
        self.store_passes = 0

    def prefill(self, tokens: Sequence[int]) -> None:
        """Take over the prompt's whole blocks."""
        self._pending.extend(tokens)

    def finish(self, tokens: Sequence[int]) -> None:
        """Take over one decoded block [L]."""
        self._pending.extend(tokens)
        self._pending_blocks += 1

    @property
    def length(self) -> int:
        """Absolute position at which the next block starts."""
        return self._cache.length + len(self._pending)

    def forward(self, states: np.ndarray, start: int) -> Tensor:
        """Logits fp32 [R, L, V] of states int64 [R, L] of the block at absolute position `start`; the mask id is -inf.

        Every state attends to the prefix and to itself only, in either layout. Raises ValueError if `start` is not
        the end of the prefix, or if R > 1 states come while a finished block waits to be stored.
        """
        if start != self.length:
            raise ValueError(f"block starts at {start}, but the prefix ends at {self.length}")
        tokens = torch.from_numpy(states).to(self._device)
        positions = torch.arange(self._cache.length, start + states.shape[1], device=self._device)
        if self._pending:
            logits = self._store(tokens, positions)
        elif self._layout == "concat" and len(states) > 1:
            logits = self._concatenated(tokens, positions)
        else:
            logits = self._model(tokens, positions, None, self._cache)
        self.forwards += 1
        logits = logits.view(*states.shape, -1).float()
        logits[..., self._mask_id] = -torch.inf
        return logits

    def _store(self, tokens: Tensor, positions: Tensor) -> Tensor:
        if len(tokens) > 1:
            raise ValueError("the first forward behind a finished block takes one state")
        old, store = self._cache.length, len(self._pending)
        keys = torch.arange(len(positions) + old, device=self._device)
        mask = block_causal_mask(positions, self._block_length, keys)
        finished = torch.tensor([self._pending], device=self._device)
        row = torch.cat([finished, tokens], dim=1)
        logits = self._model(row, positions, mask, self._cache, store=store, keep=tokens.shape[1])
        self._cache.replicate(old)
        self.store_passes += self._pending_blocks
        self._pending, self._pending_blocks = [], 0
        return logits

    def _concatenated(self, tokens: Tensor, positions: Tensor) -> Tensor:
        replicas, length = tokens.shape
        prefix = self._cache.length
        shape = (replicas * length, prefix + replicas * length)
        if self._concat_mask is None or self._concat_mask.shape != shape:
            replica = torch.arange(replicas, device=self._device).repeat_interleave(length)
            own = replica[:, None] == replica[None, :]
            visible = torch.cat([own.new_ones(shape[0], prefix), own], dim=1)
            # Additive, because a boolean mask would be converted anew in every layer.
            self._concat_mask = torch.zeros(shape, device=self._device, dtype=self._cache.data.dtype)
            self._concat_mask.masked_fill_(~visible, -torch.inf)
        return self._model(tokens.reshape(1, -1), positions.repeat(replicas), self._concat_mask, self._cache)
