"""Inputs of the order model: what the stale conditionals of a block and a hypothetical prefix look like.

One module serves training and drafting, so that both see the same numbers. Everything is vectorised over B roots,
K prefixes and M masked positions, on the host: the arrays are small. Nothing depends on tokens, text or hidden states
(SPOT, section 4.2), so that an order model works with any target.

Positions always come in the target's own order of preference: falling confidence, ties to the lowest index. Rank is
then the row number, and the rank among positions not yet taken is a running count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from workers.decoding.conditionals import Conditionals

TOP = 32
# From here on 1 - p is below half the spacing of fp32 at 1, p rounds to 1, and the target picks by index alone.
SATURATED_LOG_DOUBT = -17.33
WAVES = np.array([1.0, 0.5, 0.25, 0.125], dtype=np.float32)
SUMMARY_FEATURES = 14
PLACE_FEATURES = 8 + 2 * len(WAVES)
PATH_FEATURES = 14
RANKS = 32


@dataclass(frozen=True)
class Roots:
    """B block states to draft from, each with M masked positions in order of preference.

    probs fp16 [B, M, TOP] stale probabilities, descending, zero-padded; log_doubt fp16 [B, M] = log(1 - p1); index
    int64 [B, M] position in the block; last int64 [B] position of the most recent commit, which the stale conditionals
    have not seen, and last_doubt fp16 [B] its log(1 - p1); block_length L.
    """

    probs: np.ndarray
    log_doubt: np.ndarray
    index: np.ndarray
    last: np.ndarray
    last_doubt: np.ndarray
    block_length: int


def preference(stale: Conditionals, masked: np.ndarray) -> np.ndarray:
    """The masked positions int64 [M] in the target's order: falling fp32 confidence, ties to the lowest index."""
    index = np.flatnonzero(masked)
    confidence = stale.confidence.cpu().numpy()[index]
    return index[np.argsort(-confidence, kind="stable")]


def root_of(stale: Conditionals, index: np.ndarray, last: int) -> Roots:
    """The view of one root whose masked positions are `index` [M] in order of preference; fp16, as collected shards are."""
    top = stale.top_probs.half().cpu().numpy()[index]
    doubt = stale.log_doubt.half().cpu().numpy()
    block_length = stale.logits.shape[0]
    return Roots(pad_top(top)[None], doubt[index][None], index[None], np.array([last]), doubt[[last]], block_length)


def pad_top(probs: np.ndarray) -> np.ndarray:
    """Widen probabilities [..., k] of a small vocabulary to TOP columns by zeros."""
    missing = TOP - probs.shape[-1]
    return probs if missing == 0 else np.pad(probs, [(0, 0)] * (probs.ndim - 1) + [(0, missing)])


def static_size(top: int) -> int:
    """Number of static features with the `top` largest probabilities."""
    return 2 * top + SUMMARY_FEATURES + PLACE_FEATURES


def static_features(roots: Roots, top: int = TOP) -> np.ndarray:
    """What does not change while drafting: fp32 [B, M, static_size(top)].

    Top probabilities raw and log; eight summary statistics (top-1, top-2, margin, entropy, mass of the top 32, index in
    block, masked fraction, confidence rank); log(1 - p1), whether it is saturated, the log margin, the gaps to the best
    and to the next position, the reciprocal rank; filled neighbours, the last commit's place and doubt, the index as
    waves.
    """
    probs, index, length = roots.probs.astype(np.float32), roots.index, roots.block_length
    batch, masked = index.shape
    logs = np.log(np.maximum(probs, 1e-7))
    doubt = clamped(roots.log_doubt)
    rank = np.arange(masked, dtype=np.float32)
    features = np.empty((batch, masked, static_size(top)), dtype=np.float32)
    features[..., :top] = probs[..., :top]
    features[..., top : 2 * top] = logs[..., :top] / 8

    summary = features[..., 2 * top : 2 * top + SUMMARY_FEATURES]
    summary[..., 0] = probs[..., 0]
    summary[..., 1] = probs[..., 1]
    summary[..., 2] = probs[..., 0] - probs[..., 1]
    summary[..., 3] = -(probs * logs).sum(-1)
    summary[..., 4] = probs.sum(-1)
    summary[..., 5] = index / length
    summary[..., 6] = masked / length
    summary[..., 7] = rank / length
    summary[..., 8] = doubt / 8
    summary[..., 9] = doubt <= SATURATED_LOG_DOUBT
    summary[..., 10] = (logs[..., 0] - logs[..., 1]) / 8
    summary[..., 11] = (doubt - doubt[:, :1]) / 8
    summary[..., 12] = np.diff(doubt, axis=1, append=doubt[:, -1:]) / 8
    summary[..., 13] = 1 / (1 + rank)

    place = features[..., 2 * top + SUMMARY_FEATURES :]
    place[..., 0:2] = nearness(filled_at(roots), index, prefix_filled=True)
    offset = index - roots.last[:, None]
    place[..., 2] = np.where(offset > 0, 1 / np.maximum(offset, 1), 0)
    place[..., 3] = np.where(offset < 0, 1 / np.maximum(-offset, 1), 0)
    place[..., 4] = offset == 1
    place[..., 5] = offset == -1
    place[..., 6] = (last_doubt := clamped(roots.last_doubt)[:, None]) / 8
    place[..., 7] = (doubt - last_doubt) / 8
    angles = index[..., None] * WAVES
    place[..., 8 : 8 + len(WAVES)] = np.sin(angles)
    place[..., 8 + len(WAVES) :] = np.cos(angles)
    return features


def path_features(roots: Roots, taken: np.ndarray) -> np.ndarray:
    """What K hypothetical prefixes change: fp32 [B, K, M, PATH_FEATURES] from taken bool [B, K, M].

    The taken flag and depth / L of the paper; then, relative to the prefix, rank and confidence gap among what remains,
    and nearness to positions that are filled, or have been filled since the stale forward.
    """
    length, index = roots.block_length, roots.index[:, None, :]
    doubt = clamped(roots.log_doubt)[:, None, :]
    fresh = np.zeros((*taken.shape[:2], length), dtype=bool)
    np.put_along_axis(fresh, np.broadcast_to(index, taken.shape), taken, axis=2)
    filled = fresh | filled_at(roots)[:, None, :]
    np.put_along_axis(fresh, roots.last[:, None, None], True, axis=2)
    rank = remaining_rank(taken)

    features = np.empty((*taken.shape, PATH_FEATURES), dtype=np.float32)
    features[..., 0] = taken
    features[..., 1] = taken.sum(-1, keepdims=True) / length
    features[..., 2] = rank == 0
    features[..., 3] = 1 / (1 + rank)
    features[..., 4] = (doubt - np.where(taken, 0, doubt).min(-1, keepdims=True)) / 8
    features[..., 5] = rank / length
    features[..., 6:8] = nearness(filled, index, prefix_filled=True)
    features[..., 8:10] = nearness(fresh, index, prefix_filled=False)
    features[..., 10:14] = features[..., 6:10] == 1  # direct neighbours
    return features


def remaining_rank(taken: np.ndarray) -> np.ndarray:
    """Rank among the positions not taken, int64 [..., M] from taken bool [..., M]; of no meaning at taken ones."""
    return np.maximum((~taken).cumsum(-1) - 1, 0)


def clamped(log_doubt: np.ndarray) -> np.ndarray:
    """log(1 - p1) as fp32, cut where p1 rounds to 1."""
    return np.maximum(log_doubt.astype(np.float32), SATURATED_LOG_DOUBT)


def filled_at(roots: Roots) -> np.ndarray:
    """Bool [B, L]: filled at the root."""
    filled = np.ones((len(roots.index), roots.block_length), dtype=bool)
    np.put_along_axis(filled, roots.index, False, axis=1)
    return filled


def nearness(filled: np.ndarray, index: np.ndarray, prefix_filled: bool) -> np.ndarray:
    """1 / distance from each position to the nearest filled one, left then right, 0 if there is none: fp32 [..., M, 2].

    filled bool [..., L]; index [..., M]. What lies left of the block counts as filled if `prefix_filled`.
    """
    length = filled.shape[-1]
    grid = np.arange(length)
    nowhere = 1e9
    left = np.full((*filled.shape[:-1], length), -1.0 if prefix_filled else -nowhere, dtype=np.float32)
    right = np.full_like(left, nowhere)
    left[..., 1:] = np.maximum.accumulate(np.where(filled, grid, left[..., :1]), axis=-1)[..., :-1]
    right[..., :-1] = np.minimum.accumulate(np.where(filled, grid, nowhere)[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    shape = (*filled.shape[:-1], index.shape[-1])
    index = np.broadcast_to(index, shape)
    near = np.empty((*shape, 2), dtype=np.float32)
    near[..., 0] = 1 / (index - np.take_along_axis(left, index, -1))
    near[..., 1] = 1 / (np.take_along_axis(right, index, -1) - index)
    near[near < 1e-6] = 0
    return near
