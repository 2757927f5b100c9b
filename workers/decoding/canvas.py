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

    cache: see `workers.decoding.caches`. A forward computes its own part of the canvas: all of it ("none"), the block
    and what follows ("approximate-prefix"), or the block ("dual"); it sees the rest as it was when the block opened, in
    the first forward over the block, which computes everything. Every state has an own part of its own and does not see
    the others'. Where logits are shifted, the own part starts one position early, so that the block's first token is
    predicted like all others. On a block-causal target (cache "none") later blocks do not exist yet.

    replicas: most states per forward, laid out as in `PrefixContext`. pads: several sequences instead, one per row and
    per state, with so many unused positions on their left. Nothing is stored for its own sake, so store_passes stays 0.

    ahead (cache "dual" alone): the forward that opens a block also gives the logits of the next one, and `forward_pair`
    takes states of both. ahead_logits: fp32 [L, V] of the next block as of that forward, None where there is none.
    """

    def __init__(
        self,
        target: Target,
        capacity: int,
        layout: str = "batch",
        replicas: int = 1,
        cache: str = "none",
        pads: Sequence[int] = (0,),
        ahead: bool = False,
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
            scratch += ahead * (replicas + 1) * own
            self._cache = KVCache(target.model.config, cached, capacity + scratch, self._device, target.dtype)
        self._opened = -1
        self._mask: Tensor | None = None
        self._concat_mask: Tensor | None = None
        self._pair_masks: dict[tuple[int, int], Tensor] = {}
        self._ahead = ahead
        self.ahead_logits: Tensor | None = None
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

        Raises ValueError if `start` is not the end of what is decoded, or if replicas come in the first forward of a
        block.
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
        return self._finished(logits.reshape(replicas, length, -1))

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
        # The next block comes last, so that a forward over both blocks can leave its stored part out.
        behind = range(end, min(end + length, whole) if self._ahead else end)
        stored = [*range(first), *range(behind.stop, whole), *behind]
        self._stored = torch.tensor(stored, dtype=torch.int64, device=self._device)
        keys = torch.cat([self._stored, self._own])
        self._mask, self._concat_mask, self._pair_masks = None, None, {}
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
        store = len(self._stored)
        if not self._ahead or self._opened + 2 * length > self._canvas.shape[1]:
            self.ahead_logits = None
            logits = self._model(tokens[:, order], positions, self._mask, self._cache, store=store, keep=length)
        else:
            wanted = (order >= self._opened - int(self._target.shift)) & (
                order < self._opened + 2 * length - int(self._target.shift)
            )
            logits = self._model(tokens[:, order], positions, self._mask, self._cache, store=store, select=wanted[None])
            logits = logits[order[wanted].argsort()]
            self.ahead_logits = self._finished(logits[length:])
            logits = logits[:length]
        if len(tokens) == 1:
            self._cache.replicate(0)
        return logits

    def forward_pair(self, states: np.ndarray, ahead: np.ndarray, start: int) -> tuple[Tensor, Tensor]:
        """Logits fp32 [R, L, V] and [N, L, V] of states int64 [R, L] of the open block at `start` and [N, L] of the
        next one.

        The first of either are the roots, which see each other and what surrounds both blocks, as stored. Every further
        state sees itself, the root of the other block, and the same surroundings. All are laid out in one row, whatever
        the layout, as batch rows would have to repeat the roots.
        """
        if start != self._opened or self.ahead_logits is None:
            raise ValueError("two blocks are decoded together once the first of them is open")
        shift, length = int(self._target.shift), states.shape[1]
        low, middle, high = start - shift, start + length - shift, start + 2 * length - shift
        both = torch.arange(low, start + 2 * length, device=self._device)
        own, behind = both[: length + shift], both[length:]
        canvas = self._canvas[0].clone()
        canvas[start : start + length] = torch.from_numpy(states[0]).to(self._device)
        canvas[start + length : start + 2 * length] = torch.from_numpy(ahead[0]).to(self._device)
        drafts, drafts_ahead = canvas.expand(len(states) - 1, -1).clone(), canvas.expand(len(ahead) - 1, -1).clone()
        drafts[:, start : start + length] = torch.from_numpy(states[1:]).to(self._device)
        drafts_ahead[:, start + length : start + 2 * length] = torch.from_numpy(ahead[1:]).to(self._device)
        row = torch.cat([canvas[both], drafts[:, own].flatten(), drafts_ahead[:, behind].flatten()])[None]
        positions = torch.cat([both, own.repeat(len(drafts)), behind.repeat(len(drafts_ahead))])
        unit = torch.cat([
            torch.zeros_like(both),
            1 + torch.arange(len(drafts), device=self._device).repeat_interleave(len(own)),
            1 + len(drafts) + torch.arange(len(drafts_ahead), device=self._device).repeat_interleave(len(behind)),
        ])  # fmt: skip
        mask = self._pair_masks.get((len(states), len(ahead)))
        if mask is None:
            mask = self._pair_mask(positions, unit, own, behind, len(drafts), length)
            self._pair_masks[len(states), len(ahead)] = mask
        current = (unit <= len(drafts)) & (positions >= low) & (positions < middle)
        coming = ((unit == 0) | (unit > len(drafts))) & (positions >= middle) & (positions < high)
        wanted = current | coming
        logits = self._finished(self._model(row, positions, mask, self._cache, select=wanted[None]))
        self.forwards += 1
        first = current[wanted]
        return logits[first].view(len(states), length, -1), logits[~first].view(len(ahead), length, -1)

    def _pair_mask(
        self, positions: Tensor, unit: Tensor, own: Tensor, behind: Tensor, drafts: int, length: int
    ) -> Tensor:
        """Who sees whom in `forward_pair`: additive [Q, stored + Q]; unit 0 holds the roots, then come drafts of either
        block."""
        stored = len(self._stored)
        seen = unit[:, None] == unit[None, :]
        for drafted, replaced in (((unit > 0) & (unit <= drafts), own), (unit > drafts, behind)):
            elsewhere = (unit == 0) & ((positions < replaced[0]) | (positions > replaced[-1]))
            seen |= drafted[:, None] & elsewhere[None, :]
        around = seen.new_ones(len(positions), stored)
        around[:, stored - length :] = False
        mask = torch.zeros(len(positions), stored + len(positions), device=self._device, dtype=self._target.dtype)
        return mask.masked_fill_(~torch.cat([around, seen], dim=1), -torch.inf)

    def _finished(self, logits: Tensor) -> Tensor:
        logits = logits.float()
        logits[..., self._target.mask_id] = -torch.inf
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
