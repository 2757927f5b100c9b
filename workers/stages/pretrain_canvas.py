"""Batches of masked-diffusion training on a whole canvas: prompt, answer and stop tokens, all of it seen by all of it.

Two rows in three are what the decoder shows the target: the blocks before one are clean, that one is partly masked, and
all behind it is masks. The third masks the whole answer at one rate, as LLaDA is trained (arXiv 2502.09992).
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from workers.stages.pretrain_data import DRILL_WEIGHT, FULL_MASK_SHARE, Batch, choose, hide, split_results
from workers.stages.pretrain_stream import WINDOW, Drill, Stream

CANVASES = (2, 3, 3, 3, 3, 4, 4, 4, 5, 8)
FAR_SHARE = 0.15


class CanvasCorpus:
    """Batches of a full-attention target, whose blocks lie behind the prompt's end."""

    def __init__(self, stream: Stream):
        self._stream = stream

    def batches(self, step: int, rows: int, block: int, second_phase: bool = False) -> list[Batch]:
        """Step `step`, rows of about one length together; `block`: length of the decoder-like rows' current block."""
        rng, stop_id = self._stream.rng(step), self._stream.stop_id
        groups: dict[int, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
        drills = []
        for row in self._stream.rows(step, rows, second_phase):
            if isinstance(row, Drill):
                drills += [(row.tokens, masks, masks) for masks in split_results(rng, row.results)]
                continue
            length = WINDOW * max(-(-len(row.answer) // WINDOW), int(rng.choice(CANVASES)))
            prompt = len(row.prompt)
            tokens = np.concatenate([row.prompt, row.answer])
            tokens = np.pad(tokens, (0, prompt + length - len(tokens)), constant_values=stop_id)
            for masks, labels in answer_masks(rng, length, block, len(row.answer)):
                whole = [np.pad(part, (prompt, 0)) for part in (masks, labels)]
                groups.setdefault(-(-len(tokens) // WINDOW), []).append((tokens, *whole))
        batches = [self._batch(members, 1.0) for _, members in sorted(groups.items())]
        return batches + ([self._batch(drills, DRILL_WEIGHT)] if drills else [])

    def _batch(self, members: list[tuple[np.ndarray, np.ndarray, np.ndarray]], weight: float) -> Batch:
        """Rows (tokens, where they are masked, where a loss is taken), padded to one length that nobody sees."""
        lengths = torch.tensor([len(tokens) for tokens, _, _ in members])
        longest = int(lengths.max())

        def padded(rows: list[np.ndarray], value: int) -> torch.Tensor:
            return torch.stack([F.pad(torch.from_numpy(r), (0, longest - len(r)), value=value) for r in rows])

        mask_id = self._stream.mask_id
        positions = torch.arange(longest)
        return Batch(
            padded([np.where(masks, mask_id, tokens) for tokens, masks, _ in members], self._stream.stop_id),
            positions,
            padded([np.where(wanted, tokens, -1) for tokens, _, wanted in members], -1),
            hide(positions < lengths[:, None])[:, None, None],
            weight,
        )


def answer_masks(
    rng: np.random.Generator, length: int, block: int, answer: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Three pairs, bool [length]: what is masked, and which of it counts in the loss.

    Two are decoder-like, at different blocks if the answer has two; of the masks behind the block a few count. The last
    is masked everywhere at one rate.
    """
    blocks = -(-min(answer + WINDOW, length) // block)  # the first block of filler takes its turn too
    pairs = []
    for current in rng.permutation(blocks)[:2]:
        start, end = current * block, min((current + 1) * block, length)
        masks = np.arange(length) >= end
        wanted = masks & (rng.random(length) < FAR_SHARE)
        if rng.random() < FULL_MASK_SHARE:
            masks[start:end] = True
        else:
            masks[start:end] = choose(rng, end - start, rng.uniform(0, 6) if rng.random() < 0.5 else 0.0)
        wanted[start:end] = masks[start:end]
        pairs.append((masks, wanted))
    anywhere = choose(rng, length, rng.uniform(0, 3) if rng.random() < 0.5 else 0.0)
    return [*pairs, (anywhere, anywhere)]
