"""Commit rules by name: how many positions the target fills after one forward (no torch).

single: the most confident masked position (SPOT). threshold:TAU: that one, and all others of confidence TAU or more.
factor:F: those of the n most confident positions that hold 1 - F / (n + 1) or more at every rank n up to theirs, the
first in any case (both Fast-dLLM, arXiv 2505.22618; released code stops at the first rank that fails, but commits
everything where only the last one does: an accident of its loop that is not copied here). top-k:K: the K most confident
(LLaDA).

Against `single` every other rule is lossy: it fills positions that depend on each other from one distribution.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from workers.errors import UserError

DEFAULT_THRESHOLD = 0.9
FORMS = ("single", "threshold:TAU", "top-k:K", "factor:F")
LOSSLESS_RULES = ("single",)
_DEFAULTS = {"single": None, "threshold": DEFAULT_THRESHOLD, "top-k": None, "factor": 1.0}
_NUMBER = re.compile(r"\d+(\.\d+)?")


class Rule(NamedTuple):
    """A rule and its parameter: TAU, K or F; None for `single`."""

    name: str
    value: float | int | None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}:{self.value}"


def parse_rule(text: str) -> Rule:
    """The rule written as in `FORMS`; `threshold` is threshold:0.9, `factor` is factor:1.0. Raises UserError."""
    name, colon, number = text.partition(":")
    if name not in _DEFAULTS:
        raise UserError(f"'{text}' is unknown; choose one of {', '.join(FORMS)}")
    if not colon:
        if name == "top-k":
            raise UserError("'top-k' needs how many positions to fill, as in top-k:2")
        return Rule(name, _DEFAULTS[name])
    if name == "single":
        raise UserError(f"'{text}': single takes no number")
    if not _NUMBER.fullmatch(number):
        raise UserError(f"'{text}': what follows the colon should be a number")
    value = float(number)
    if name == "top-k":
        if value < 1 or value != int(value):
            raise UserError(f"'{text}': K should be a whole number from 1 on")
        return Rule(name, int(value))
    if value <= 0 or (name == "threshold" and value > 1):
        limits = "above 0, at most 1" if name == "threshold" else "above 0"
        raise UserError(f"'{text}': the number should be {limits}")
    return Rule(name, value)


def canonical_rule(text: str) -> str:
    """The full form of a rule, as in the cell column `commit_rule`. Raises UserError."""
    return str(parse_rule(text))


def threshold_of(rule: str) -> float:
    """The confidence from which positions count as certain under a rule; that of Fast-dLLM where it has none."""
    name, value = parse_rule(rule)
    return float(value) if name == "threshold" else DEFAULT_THRESHOLD
