"""Inputs of the order model: what the stale conditionals of a block and a hypothetical prefix look like.

One module serves training and drafting, so that both see the same numbers. Everything is vectorised over B roots,
K prefixes and M masked positions, and nothing depends on tokens, text or hidden states (SPOT, section 4.2): an order
model works with any target.

Positions always come in the target's own order of preference: falling confidence, ties to the lowest index. Rank is
then the row number, and the rank among positions not yet taken is a running count.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

TOP = 32
# From here on 1 - p is below half the spacing of fp32 at 1, p rounds to 1, and the target picks by index alone.
SATURATED_LOG_DOUBT = -17.33
FREQUENCIES = (1.0, 0.5, 0.25, 0.125)
SUMMARY_FEATURES = 14 + 2 + 2 + 2 + 2 * len(FREQUENCIES)
PATH_FEATURES = 2 + 4 + 8
RANKS = 32


@dataclass(frozen=True)
class Roots:
    """B block states to draft from, each with M masked positions in rank order.

    probs [B, M, TOP] stale probabilities, descending, rounded through fp16 as they are stored; log_doubt [B, M] =
    log(1 - p1), likewise; index [B, M] int64 position in the block; last [B] int64 position of the most recent commit,
    which the stale conditionals have not seen, or -1; block_length L.
    """

    probs: Tensor
    log_doubt: Tensor
    index: Tensor
    last: Tensor
    block_length: int


def pad_top(probs: Tensor) -> Tensor:
    """Widen probabilities [..., k] of a small vocabulary to TOP columns by zeros."""
    missing = TOP - probs.shape[-1]
    return torch.nn.functional.pad(probs, (0, missing)) if missing > 0 else probs[..., :TOP]


def occupancy(roots: Roots) -> Tensor:
    """Bool [B, L]: filled at the root."""
    filled = torch.ones(roots.index.shape[0], roots.block_length, dtype=torch.bool, device=roots.index.device)
    return filled.scatter_(1, roots.index, False)


def nearness(occupied: Tensor, index: Tensor, edge: float) -> Tensor:
    """1 / distance to the nearest occupied position, left then right: fp32 [..., M, 2].

    occupied [..., L] bool, index [..., M]. A block's left edge counts as occupied if `edge` is 1 (the prefix is
    filled), its right edge never does.
    """
    length = occupied.shape[-1]
    grid = torch.arange(length, device=occupied.device)
    left = torch.where(occupied, grid, -1).cummax(-1).values
    left = torch.nn.functional.pad(left, (1, 0), value=-1)[..., :length]  # strictly to the left
    right = torch.where(occupied, grid, length).flip(-1).cummin(-1).values.flip(-1)
    right = torch.nn.functional.pad(right, (0, 1), value=length)[..., 1:]
    left, right = left.gather(-1, index), right.gather(-1, index)
    near_left = 1.0 / (index - left)
    near_right = 1.0 / (right - index)
    if not edge:
        near_left = near_left * (left >= 0)
    return torch.stack([near_left, near_right * (right < length)], dim=-1)


def static_size(top: int) -> int:
    """Number of static features with the `top` largest probabilities."""
    return 2 * top + SUMMARY_FEATURES


def static_features(roots: Roots, top: int = TOP) -> Tensor:
    """What does not change while drafting: fp32 [B, M, static_size(top)].

    Top probabilities raw and log, eight summary statistics (top-1, top-2, margin, entropy, mass of the top 32,
    index in block, masked fraction, confidence rank), log(1 - p1), its saturation and the log margin, the gaps to the
    best and to the next position, the filled neighbours, the place of the last commit, and the index as waves.
    """
    probs, index, length = roots.probs, roots.index, roots.block_length
    batch, masked = index.shape
    logs = probs.clamp_min(1e-7).log()
    doubt = roots.log_doubt.clamp_min(SATURATED_LOG_DOUBT)
    place = index / length
    rank = torch.arange(masked, device=index.device, dtype=torch.float32).expand(batch, masked)
    following = torch.cat([doubt[:, 1:], doubt[:, -1:]], dim=1) - doubt
    summary = [
        probs[..., 0],
        probs[..., 1],
        probs[..., 0] - probs[..., 1],
        -(probs * logs).sum(-1),
        probs.sum(-1),
        place,
        torch.full_like(place, masked / length),
        rank / length,
        doubt / 8,
        (doubt <= SATURATED_LOG_DOUBT).float(),
        (logs[..., 0] - logs[..., 1]) / 8,
        (doubt - doubt[:, :1]) / 8,
        following / 8,
        1.0 / (1.0 + rank),
    ]
    last = roots.last[:, None]
    offset = index - last
    known = (last >= 0).float()
    waves = [f(index * w) for w in FREQUENCIES for f in (torch.sin, torch.cos)]
    return torch.cat(
        [
            probs[..., :top],
            logs[..., :top] / 8,
            torch.stack(summary, dim=-1),
            nearness(occupancy(roots), index, edge=1.0),
            torch.stack([known / offset.clamp_min(1) * (offset > 0), known / (-offset).clamp_min(1) * (offset < 0)], -1),
            torch.stack([offset.eq(1) * known, offset.eq(-1) * known], dim=-1),
            torch.stack(waves, dim=-1),
        ],
        dim=-1,
    )


def remaining_rank(taken: Tensor) -> Tensor:
    """Rank among the positions not taken: int64 [B, K, M] from taken bool [B, K, M] in rank order; taken ones get 0."""
    return ((~taken).cumsum(-1) - 1).clamp_min(0)


def path_features(roots: Roots, taken: Tensor) -> Tensor:
    """What K hypothetical prefixes change: fp32 [B, K, M, PATH_FEATURES] from taken bool [B, K, M].

    The taken flag and depth / L of the paper; then, relative to the prefix, nearness to filled positions and to those
    filled since the stale forward, rank and confidence gap among what remains.
    """
    batch, prefixes, masked = taken.shape
    length = roots.block_length
    index = roots.index[:, None, :].expand(-1, prefixes, -1)
    doubt = roots.log_doubt.clamp_min(SATURATED_LOG_DOUBT)[:, None, :].expand(-1, prefixes, -1)
    fresh = torch.zeros(batch, prefixes, length, dtype=torch.bool, device=taken.device).scatter_(2, index, taken)
    filled = fresh | occupancy(roots)[:, None, :]
    bonus = torch.zeros(batch, length + 1, dtype=torch.bool, device=taken.device)
    bonus.scatter_(1, roots.last.remainder(length + 1)[:, None], True)  # -1 lands in the spare column
    fresh = fresh | bonus[:, None, :length]
    rank = remaining_rank(taken)
    best = doubt.masked_fill(taken, 0.0).amin(-1, keepdim=True)
    near = nearness(filled, index, edge=1.0)
    near_fresh = nearness(fresh, index, edge=0.0)
    flags = torch.stack(
        [
            taken.float(),
            (taken.sum(-1, keepdim=True) / length).expand(-1, -1, masked),
            rank.eq(0).float(),
            1.0 / (1.0 + rank),
            (doubt - best) / 8,
            rank / length,
            near_fresh[..., 0].eq(1).float(),
            near_fresh[..., 1].eq(1).float(),
            near[..., 0].eq(1).float(),
            near[..., 1].eq(1).float(),
        ],
        dim=-1,
    )
    return torch.cat([flags, near, near_fresh], dim=-1)
