"""The names a spec may use, and the nearest one to a name it may not use."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

VERIFIERS = ("auto", "greedy", "uncoupled", "coupled")


def nearest(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' with the closest known name, or the list of all of them."""
    known = list(known)
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else f"; valid here: {', '.join(known)}"
