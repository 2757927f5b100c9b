"""Which caches a target can be decoded with, and which of them leave the target's distribution alone (no torch).

prefix: keys and values of finished blocks, exact where no block sees a later one. none: nothing is kept, every forward
computes the whole sequence; exact everywhere, and slow. approximate-prefix: everything before the block is encoded
once, when the block opens, and not refreshed while it is decoded (SPOT, appendix D.7; Fast-dLLM, arXiv 2505.22618).
dual: so is everything behind it. The last two are for full attention, where the prefix depends on the block and no
exact cache exists.
"""

from __future__ import annotations

CACHES = ("none", "prefix", "approximate-prefix", "dual")
EXACT_CACHES = ("none", "prefix")
AUTO = "auto"
_ALLOWED = {"block-causal": ("prefix", "none"), "full": ("approximate-prefix", "dual", "none")}


def resolve_cache(cache: str, attention: str) -> str:
    """The cache behind "auto": the usual one for that attention; any other name is itself."""
    return _ALLOWED[attention][0] if cache == AUTO else cache


def cache_problem(cache: str, attention: str) -> str | None:
    """Why a target of that attention cannot be decoded with a cache, and what to use; None if it can."""
    allowed = _ALLOWED[attention]
    if resolve_cache(cache, attention) in allowed:
        return None
    if cache not in CACHES:
        return f"'{cache}' is unknown; choose one of {', '.join(CACHES)}"
    if attention == "full":
        return f"'{cache}' needs block-causal attention, the target attends to the whole sequence; use {', '.join(allowed)}"
    return f"'{cache}' is for full attention, the target is block-causal; use {', '.join(allowed)}"
