"""Forwards over a whole canvas of prompt and masks: without a cache, or with keys and values that grow stale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from workers.targets.transformer import KVCache, block_causal_mask

if TYPE_CHECKING:
    from workers.targets.target import Target


class CanvasContext:
    """A sequence of `capacity` positions, masks where nothing is decoded yet, with the interface of `PrefixContext`.

    cache: see `workers.decoding.caches`. A forward computes its own part of the canvas: all of it ("none"), the block and what
    follows ("approximate-prefix"), or the block ("dual"); it sees the rest as it was when the block opened, in the
    first forward over the block, which computes everything. Every state has an own part of its own and does not see the
    others'. Where logits are shifted, the own part starts one position early, so that the block's first token is
    predicted like all others. On a block-causal target (cache "none") later blocks do not exist yet.

    replicas: most states per forward, laid out as in `PrefixContext`. pads: several sequences instead, one per row and per state, with so many unused
    positions on their left. Nothing is stored for its own sake, so store_passes stays 0.
    """

    def __init__(
        self,
        target: Target,
        capacity: int,
        layout: str = "batch",
        replicas: int = 1,
        cache: str = "none",
        pads: Sequence[int] = (0,),
    ):
        self._model = target.model
        self._target = target
        self._kind = cache
        self._layout = layout
        self._device = target.device
        rows = len(pads)
        self._canvas = torch.full((rows, capacity), target.mask_id, device=self._device)
        index = torch.arange(capacity, device=self._device)
        pad = torch.tensor(pads, device=self._device)[:, None]
        self._positions = (index - pad).clamp(min=0) if any(pads) else index.expand(rows, -1)
        self._visible = index >= pad if any(pads) else None
        self._cache = None
        if cache != "none":
            own = target.block_length + 1 if cache == "dual" else capacity
            cached, scratch = (max(rows, replicas), 0) if layout == "batch" else (rows, (replicas - 1) * own)
            self._cache = KVCache(target.model.config, cached, capacity + scratch, self._device, target.dtype)
        self._opened = -1
        self._mask: Tensor | None = None
        self._concat_mask: Tensor | None = None
        self.length = 0
        self.forwards = 0
        self.store_passes = 0

    def prefill(self, tokens: Sequence[int] | Sequence[Sequence[int]]) -> None:
        """Take over the prompt, or one row per sequence, padded on the left."""
        self._write(tokens)

    def finish(self, tokens: Sequence[int] | Sequence[Sequence[int]]) -> None:
        """Take over one decoded block [L], or one per sequence."""
        self._write(tokens)

    def _write(self, tokens) -> None:
        new = torch.as_tensor(np.asarray(tokens, dtype=np.int64), device=self._device)
        self._canvas[:, self.length : self.length + new.shape[-1]] = new
        self.length += new.shape[-1]

    def forward(self, states: np.ndarray, start: int) -> Tensor:
        """Logits fp32 [R, L, V] of states int64 [R, L] of the block at position `start`; the mask id is -inf.

        Raises ValueError if `start` is not the end of what is decoded, or if replicas come in the first forward of a block.
        """
        if start != self.length:
            raise ValueError(f"block starts at {start}, but {self.length} positions are decoded")
        replicas, length = states.shape
        opening = self._opened != start
        if opening:
            if replicas > len(self._canvas):
                raise ValueError("the first forward of a block takes one state")
            self._arrange(start, length)
        tokens = self._canvas.expand(replicas, -1).clone()
        tokens[:, start : start + length] = torch.from_numpy(states).to(self._device)
        if opening and self._cache is not None:
            logits = self._open(tokens, length)
        elif self._layout == "concat" and replicas > 1:
            logits = self._concatenated(tokens, length)
        else:
            positions = self._positions[:, self._own]
            positions = positions if self._visible is not None else positions[0]
            logits = self._model(tokens[:, self._own], positions, self._mask, self._cache, keep=length)
        self.forwards += 1
        logits = logits.reshape(replicas, length, -1).float()
        logits[..., self._target.mask_id] = -torch.inf
        return logits

    def _arrange(self, start: int, length: int) -> None:
        """Split the canvas into what forwards compute, the rows of the block's logits last, and what they see stored.

        Keys have no order, only positions, so that the parts may lie in the cache as they come.
        """
        shift = int(self._target.shift)
        whole = start + length if self._target.attention == "block-causal" else self._canvas.shape[1]
        first = 0 if self._kind == "none" else start - shift
        end = start + length if self._kind == "dual" else whole
        rows = torch.arange(start - shift, start + length - shift)
        rest = [index for index in range(first, end) if not start - shift <= index < start + length - shift]
        self._own = torch.cat([torch.tensor(rest, dtype=torch.int64), rows]).to(self._device)
        stored = [*range(first), *range(end, whole)]
        self._stored = torch.tensor(stored, dtype=torch.int64, device=self._device)
        keys = torch.cat([self._stored, self._own])
        self._mask, self._concat_mask = None, None
        if self._target.attention == "block-causal":
            self._mask = block_causal_mask(self._own, self._target.block_length, keys)
        elif self._visible is not None:
            self._mask = self._visible[:, None, None, keys]
        self._opened = start

    def _open(self, tokens: Tensor, length: int) -> Tensor:
        """The first forward over a block: the whole canvas, which leaves the stored part in the cache."""
        order = torch.cat([self._stored, self._own])
        positions = self._positions[:, order] if self._visible is not None else order
        self._cache.length = 0
        logits = self._model(
            tokens[:, order], positions, self._mask, self._cache, store=len(self._stored), keep=length
        )
        if len(tokens) == 1:
            self._cache.replicate(0)
        return logits

    def _concatenated(self, tokens: Tensor, length: int) -> Tensor:
        """All replicas in one row: first what surrounds their logits' rows, then those rows."""
        replicas, rest = len(tokens), len(self._own) - length
        own = tokens[:, self._own]
        row = torch.cat([own[:, :rest].flatten(), own[:, rest:].flatten()])[None]
        columns = torch.cat([torch.arange(rest).repeat(replicas), torch.arange(rest, rest + length).repeat(replicas)])
        columns = columns.to(self._device)
        if self._concat_mask is None or self._concat_mask.shape[0] != len(columns):
            replica = [torch.arange(replicas).repeat_interleave(count) for count in (rest, length)]
            replica = torch.cat(replica).to(self._device)
            seen = replica[:, None] == replica[None, :]
            if self._mask is not None:
                seen &= self._mask[columns][:, columns]
            seen = torch.cat([seen.new_ones(len(columns), len(self._stored)), seen], dim=1)
            # Additive, because a boolean mask would be converted anew in every layer.
            self._concat_mask = torch.zeros(seen.shape, device=self._device, dtype=self._target.dtype)
            self._concat_mask.masked_fill_(~seen, -torch.inf)
        positions = self._own[columns]
        return self._model(row, positions, self._concat_mask, self._cache, keep=replicas * length)
