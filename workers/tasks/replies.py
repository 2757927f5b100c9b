"""Reading a reply: where it ends, and the program in it."""

from __future__ import annotations

import re

# A fence that a reply opens but does not close runs to its end.
FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)


def before_stop(text: str, stops: tuple[str, ...]) -> str:
    """The text up to the first of the stop strings."""
    return text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]


def fenced(text: str, wanted: str = "") -> str | None:
    """The first fenced block that holds `wanted`, else the first one; None if there is no fence."""
    blocks = FENCE.findall(text)
    return next((block for block in blocks if wanted in block), blocks[0] if blocks else None)
