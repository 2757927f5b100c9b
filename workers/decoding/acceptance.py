"""Acceptance rules of the trajectory paper by name (no torch); what they do is in `workers.verifiers.subset`.

subset-top-1: every token a draft adds is the most probable one of its parent's forward. subset-top-k:K: it is among the
K most probable. subset-threshold:TAU: its probability there is TAU or more. `:longest` behind any of them takes the
longest accepted path instead of the first. Whether the target would have filled these positions now is not asked, so
all are lossy.
"""

from __future__ import annotations

from typing import NamedTuple

from workers.errors import UserError

FORMS = ("subset-top-1", "subset-top-k:K", "subset-threshold:TAU")
_DEFAULTS = {"subset-top-1": None, "subset-top-k": 3, "subset-threshold": 0.9}
_LONGEST = "longest"


class Acceptance(NamedTuple):
    """A rule, its K or TAU (None for subset-top-1), and whether the longest path is taken."""

    name: str
    value: float | int | None
    longest: bool

    def __str__(self) -> str:
        return self.name + (f":{self.value}" if self.value is not None else "") + f":{_LONGEST}" * self.longest


def is_subset(text: str) -> bool:
    """Whether a verifier is one of these, well-formed or not."""
    return text.partition(":")[0] in _DEFAULTS


def parse_acceptance(text: str) -> Acceptance:
    """The rule written as in `FORMS`; K is 3 and TAU 0.9 by default. Raises UserError."""
    name, *rest = text.split(":")
    if name not in _DEFAULTS:
        raise UserError(f"verifier '{text}' is unknown; choose one of {', '.join(FORMS)}")
    longest = rest[-1:] == [_LONGEST]
    rest = rest[: len(rest) - longest]
    if not rest:
        return Acceptance(name, _DEFAULTS[name], longest)
    if name == "subset-top-1" or len(rest) > 1:
        raise UserError(f"verifier '{text}': write {name}{'' if name == 'subset-top-1' else ':NUMBER'} or add :longest")
    try:
        value = int(rest[0]) if name == "subset-top-k" else float(rest[0])
    except ValueError:
        raise UserError(f"verifier '{text}': '{rest[0]}' should be a number") from None
    if name == "subset-top-k" and value < 1:
        raise UserError(f"verifier '{text}': K should be a whole number from 1 on")
    if name == "subset-threshold" and not 0 < value <= 1:
        raise UserError(f"verifier '{text}': TAU should be above 0, at most 1")
    return Acceptance(name, value, longest)
