"""Position-tree rejection sampling: the branches of a tree share one drawn token per position."""

from __future__ import annotations

from workers.verifiers.rejection import Rejection


def build() -> Rejection:
    return Rejection("pt-rejection", trees=True)
