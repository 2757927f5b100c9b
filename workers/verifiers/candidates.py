"""Token hypotheses taken from the stale conditionals."""

from __future__ import annotations

import numpy as np
import torch

from workers.decoding.conditionals import Conditionals
from workers.drafters import Hedge


def most_probable(stale: Conditionals, hedge: Hedge) -> tuple[np.ndarray, np.ndarray]:
    """The stale argmax, and the next best tokens where the stale top-1 probability is below `hedge.below`."""
    if hedge.size == 1:
        return stale.tokens.cpu().numpy()[:, None], stale.confidence.cpu().numpy()[:, None]
    tokens = stale.top_tokens[:, : hedge.size].cpu().numpy().copy()
    probs = stale.top_probs[:, : hedge.size].cpu().numpy().copy()
    # Top-k leaves ties in any order; the target breaks them to the lowest id.
    first = stale.tokens.cpu().numpy()
    rows, columns = np.nonzero(tokens == first[:, None])
    tokens[rows, columns] = tokens[rows, 0]
    tokens[:, 0] = first
    certain = probs[:, 0] >= hedge.below
    tokens[certain, 1:] = -1
    probs[certain, 1:] = 0
    return tokens, probs


def perturbed(
    stale: Conditionals, temperature: float, noise_rows: torch.Tensor, hedge: Hedge
) -> tuple[np.ndarray, np.ndarray]:
    """The stale draw under the target's own noise, argmax of log p / T + G (SPOT, equation 4); no hedges."""
    drawn = torch.add(noise_rows, stale.logits, alpha=1 / temperature).argmax(dim=-1, keepdim=True)
    tokens = np.full((len(drawn), hedge.size), -1, dtype=np.int64)
    probs = np.zeros((len(drawn), hedge.size), dtype=np.float32)
    tokens[:, :1] = drawn.cpu().numpy()
    probs[:, :1] = stale.log_probs.gather(-1, drawn).exp().cpu().numpy()
    return tokens, probs
