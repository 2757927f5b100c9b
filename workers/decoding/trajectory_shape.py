"""How many drafts a W x D trajectory tree has (no torch): "Trajectory-Level Speculative Decoding for Diffusion Language
Models", section 3.2, table 7 and appendix C.

The paper gives node counts beside its shapes and says little else. The level sizes here reproduce every count it gives:
hybrid W2D2(3) = 2 + 1 and W3D3(6) = 3 + 2 + 1; top-2 W2D2(4) = 2 + 2 and W4D3(8) = 4 + 2 + 2; full W2D2(4) and W3D3(9);
duplicated W2D2(4). A W1D3 tree of the next block is a chain.
"""

from __future__ import annotations

VARIANTS = ("hybrid", "top-2", "full", "duplicate")


def level_sizes(width: int, depth: int, variant: str) -> list[int]:
    """Most drafts of each level, 1 .. depth. hybrid: one fewer per level, at least one; top-2: two behind the first
    level; full, duplicate: `width` everywhere."""
    later = {"hybrid": [max(1, width - level) for level in range(depth)], "top-2": [width, *[2] * depth]}
    return later.get(variant, [width] * depth)[:depth]


def node_count(width: int, depth: int, variant: str) -> int:
    """Most drafts of one tree."""
    return sum(level_sizes(width, depth, variant))
