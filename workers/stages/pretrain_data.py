"""Batches of block-diffusion training: two complementary noisy copies of the answer's blocks and one clean copy.

Layout of a row (arXiv 2503.09573, its vectorised training): [noisy 1 | noisy 2 | clean]. Block b of a noisy copy sees
the clean blocks before b and itself; the clean copy is block-causal and lacks its last block, which nobody sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from workers.stages.pretrain_stream import DRILL_WINDOWS, WINDOW, Drill, Stream
from workers.targets.transformer import Attention

MIN_RATE, MAX_RATE = 0.05, 0.95
FULL_MASK_SHARE = 0.1
FILLER_SHARE = 0.12
DRILL_WEIGHT = 4.0


@dataclass(frozen=True)
class Batch:
    """Rows of one shape; tokens [N, Q], positions [Q], labels [N, Q] with -1 where no loss is taken.

    `weight`: how much a label counts in the loss.
    """

    tokens: Tensor
    positions: Tensor
    labels: Tensor
    attention: Attention | Tensor
    weight: float


class TwoCopyAttention:
    """Attention of the layout for blocks of `block` tokens (WINDOW, or a divisor of it early in the training).

    The noisy copies hold the windows first .. windows - 1. Only the parts that may be seen are computed.
    """

    def __init__(self, first: int, windows: int, block: int):
        self.noisy = (windows - first) * WINDOW
        clean = torch.arange(windows * WINDOW - block) // block
        noisy = torch.arange(first * WINDOW, windows * WINDOW) // block
        self.before = hide(clean[None, :] < noisy[:, None]).repeat(2, 1)
        self.own = hide(noisy[:WINDOW, None] == noisy[None, :WINDOW])
        self.clean = hide(clean[None, :] <= clean[:, None])

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch, heads, _, width = q.shape
        split = 2 * self.noisy
        q = q * width**-0.5
        windows = (batch, heads, split // WINDOW, WINDOW, width)
        own_q, own_k, own_v = (part[:, :, :split].reshape(windows) for part in (q, k, v))
        q, noisy_q = q[:, :, split:], q[:, :, :split]
        k, v = k[:, :, split:], v[:, :, split:]
        before = noisy_q @ k.mT + self.before
        own = (own_q @ own_k.mT + self.own).reshape(batch, heads, split, WINDOW)
        weights = torch.cat([before, own], dim=-1).softmax(dim=-1)
        before, own = weights.split([k.shape[2], WINDOW], dim=-1)
        own = own.reshape(batch, heads, -1, WINDOW, WINDOW) @ own_v
        mixed = before @ v + own.reshape(batch, heads, split, width)
        return torch.cat([mixed, (q @ k.mT + self.clean).softmax(dim=-1) @ v], dim=2)


def hide(seen: Tensor) -> Tensor:
    """0 where seen, -inf elsewhere, bf16."""
    return torch.zeros(seen.shape, dtype=torch.bfloat16).masked_fill(~seen, float("-inf"))


class Corpus:
    """Batches of a block-causal target."""

    def __init__(self, stream: Stream):
        self._stream = stream

    def batches(self, step: int, rows: int, block: int, second_phase: bool = False) -> list[Batch]:
        """Step `step` as one batch for each shape of row."""
        rng, stop_id = self._stream.rng(step), self._stream.stop_id
        groups: dict[tuple[int, int], list] = {}
        drills = []
        for row in self._stream.rows(step, rows, second_phase):
            if isinstance(row, Drill):
                drills.append(row)
                continue
            tokens = np.concatenate([row.prompt, row.answer])
            windows = -(-len(tokens) // WINDOW) + filler_windows(rng)
            tokens = np.pad(tokens, (0, windows * WINDOW - len(tokens)), constant_values=stop_id)
            first = len(row.prompt) // WINDOW
            groups.setdefault((first, windows), []).append((tokens, len(row.prompt)))
        batches = []
        for (first, windows), members in sorted(groups.items()):
            pairs = [masked_pair(rng, windows - first, prompt - first * WINDOW, second_phase) for _, prompt in members]
            batches.append(self._batch(first, windows, block, [row for row, _ in members], pairs))
        if drills:
            pairs = [split_results(rng, drill.results) for drill in drills]
            rows_ = [drill.tokens for drill in drills]
            batches.append(self._batch(0, DRILL_WINDOWS, block, rows_, pairs, DRILL_WEIGHT))
        return batches

    def _batch(self, first: int, windows: int, block: int, rows: list, pairs: list, weight: float = 1.0) -> Batch:
        """Rows of clean tokens [windows * WINDOW] under their pairs of masks over the windows from `first` on."""
        clean = windows * WINDOW - block
        start = first * WINDOW
        tokens, labels = [], []
        for row, pair in zip(rows, pairs):
            masks = np.stack(pair)
            noisy = np.where(masks, self._stream.mask_id, row[start:])
            tokens.append(np.concatenate([noisy.reshape(-1), row[:clean]]))
            labels.append(np.concatenate([np.where(masks, row[start:], -1).reshape(-1), np.full(clean, -1)]))
        noisy_positions = np.arange(start, windows * WINDOW)
        positions = np.concatenate([noisy_positions, noisy_positions, np.arange(clean)])
        return Batch(
            torch.from_numpy(np.stack(tokens)),
            torch.from_numpy(positions),
            torch.from_numpy(np.stack(labels)),
            TwoCopyAttention(first, windows, block),
            weight,
        )


def filler_windows(rng: np.random.Generator) -> int:
    """Whole windows of stop tokens after the answer: seldom one to three, rarely up to eight."""
    if rng.random() >= FILLER_SHARE:
        return 0
    return int(rng.integers(1, 4) if rng.random() < 0.95 else rng.integers(4, 9))


def masked_pair(
    rng: np.random.Generator, windows: int, prompt_tail: int, late_first: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the two noisy copies, bool [windows * WINDOW]: complements, except where a window starts fully masked.

    Half of the windows lose their late positions first, as in decoding, where early positions tend to be committed
    first. With `late_first` they do so in both copies: a complement would show a solution's end and hide its beginning.
    """
    first, second = (np.zeros((windows, WINDOW), dtype=bool) for _ in range(2))
    for window in range(windows):
        free = np.arange(prompt_tail if window == 0 else 0, WINDOW)
        if late_first and rng.random() < 0.5:
            first[window, free] = choose(rng, len(free), rng.uniform(1, 6))
            second[window, free] = choose(rng, len(free), rng.uniform(1, 6))
            continue
        chosen = choose(rng, len(free), rng.uniform(0, 3) if rng.random() < 0.5 else 0.0)
        if rng.random() < FULL_MASK_SHARE:
            first[window, free] = True
            second[window, free] = chosen
        else:
            first[window, free] = chosen
            second[window, free] = ~chosen
    return first.reshape(-1), second.reshape(-1)


def choose(rng: np.random.Generator, free: int, slope: float) -> np.ndarray:
    """A random subset of `free` positions, bool, of a uniform rate; the larger the slope, the later the positions."""
    keys = rng.random(free) + slope * np.arange(free) / max(free, 1)
    count = int(np.clip(round(rng.uniform(MIN_RATE, MAX_RATE) * free), min(1, free), free))
    chosen = np.zeros(free, dtype=bool)
    chosen[np.argsort(keys)[free - count :]] = True
    return chosen


def split_results(rng: np.random.Generator, results: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of a drill's two copies: each result in one of them, nothing else."""
    first = results & (rng.random(len(results)) < 0.5)
    return first, results & ~first
