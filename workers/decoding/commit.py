"""Commit rules: which positions the target fills after one forward."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from workers.decoding.rules import parse_rule

# confidence fp32 [R, L], masked bool [R, L] -> the masked positions to fill, bool [R, L]; at least one where any is left.
CommitRule = Callable[[np.ndarray, np.ndarray], np.ndarray]


def single(confidence: np.ndarray, masked: np.ndarray) -> np.ndarray:
    """The most confident masked position, ties to the lowest index (SPOT, equation 1).

    confidence fp32 [R, L]; masked bool [R, L]; returns bool [R, L]. A row without masks commits nothing.
    """
    best = np.where(masked, confidence, -1.0).argmax(axis=-1)
    committed = np.zeros_like(masked)
    committed[np.arange(len(best)), best] = True
    return committed & masked


def threshold(confidence: np.ndarray, masked: np.ndarray, tau: float) -> np.ndarray:
    """All masked positions of confidence `tau` or more, and the most confident one (Fast-dLLM)."""
    return (masked & (confidence >= tau)) | single(confidence, masked)


def top_k(confidence: np.ndarray, masked: np.ndarray, k: int) -> np.ndarray:
    """The `k` most confident masked positions, ties to the lowest index."""
    return masked & (_ranks(confidence, masked) < k)


def factor(confidence: np.ndarray, masked: np.ndarray, f: float) -> np.ndarray:
    """The most confident masked positions as long as that of rank n = 1, 2, ... has a confidence of 1 - f / (n + 1) or
    more, the first in any case (Fast-dLLM, parallel decoding by factor)."""
    ranks = _ranks(confidence, masked)
    fails = masked & (ranks > 0) & (confidence < 1 - f / (ranks + 2))
    first = np.where(fails, ranks, ranks.shape[-1]).min(axis=-1, keepdims=True)
    return masked & (ranks < first)


def _ranks(confidence: np.ndarray, masked: np.ndarray) -> np.ndarray:
    """int64 [R, L]: 0 for the most confident masked position, ties to the lowest index; unmasked positions come last."""
    order = np.argsort(np.where(masked, -confidence, 1.0), axis=-1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(order.shape[-1]), order.shape), axis=-1)
    return ranks


def commit_rule(text: str) -> CommitRule:
    """The rule of that name and parameter (`workers.decoding.rules`). Raises UserError."""
    name, value = parse_rule(text)
    if name == "single":
        return single
    rules = {
        "threshold": partial(threshold, tau=value),
        "top-k": partial(top_k, k=value),
        "factor": partial(factor, f=value),
    }
    return rules[name]
