"""Commit rules: which positions the target fills after one forward."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

CommitRule = Callable[[np.ndarray, np.ndarray], np.ndarray]


def single(confidence: np.ndarray, masked: np.ndarray) -> np.ndarray:
    """The most confident masked position, ties to the lowest index (SPOT, equation 1).

    confidence fp32 [R, L]; masked bool [R, L]; returns bool [R, L]. A row without masks commits nothing.
    """
    best = np.where(masked, confidence, -1.0).argmax(axis=-1)
    committed = np.zeros_like(masked)
    committed[np.arange(len(best)), best] = True
    return committed & masked


COMMIT_RULES: dict[str, CommitRule] = {"single": single}
