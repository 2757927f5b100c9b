"""Which prompts of which task or pool a stage reads: a stream of prompts dealt to the members of a mixture in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# The split a stage reads of a task that is named without one.
STAGE_SPLITS = {
    "collect": "pool",
    "calibrate_spiffy": "calibration",
    "calibrate_floor": "calibration",
    "check_rejection": "calibration",
}


def deal(mixture: Iterable[str] | Mapping[str, int], split: str, start: int, stop: int) -> list[dict[str, Any]]:
    """Prompts `start` to `stop` (exclusive) of a stream, as one pool {task, split, first, count} per member.

    mixture: NAME, or NAME/SPLIT for another split than `split`; with weights, a member gets so many of every round,
    spread evenly over it.
    """
    return list(shares(mixture, split, start, stop).values())


def shares(mixture: Iterable[str] | Mapping[str, int], split: str, start: int, stop: int) -> dict[str, dict[str, Any]]:
    """`deal` by member; one that gets nothing is left out."""
    weights = mixture if isinstance(mixture, Mapping) else dict.fromkeys(mixture, 1)
    turns = _turns(weights)
    pools = {}
    for entry in weights:
        places = [turn for turn, chosen in enumerate(turns) if chosen == entry]
        first, end = (
            index // len(turns) * len(places) + sum(place < index % len(turns) for place in places)
            for index in (start, stop)
        )
        if end > first:
            task, own = member(entry, split)
            pools[entry] = {"task": task, "split": own, "first": first, "count": end - first}
    return pools


def member(entry: str, split: str) -> tuple[str, str]:
    """The task and split that NAME or NAME/SPLIT means."""
    name, slash, own = entry.partition("/")
    return name, own if slash else split


def _turns(weights: Mapping[str, int]) -> list[str]:
    """One round of a mixture: each name as often as its weight says, spread evenly (smooth weighted round-robin)."""
    total, due = sum(weights.values()), dict.fromkeys(weights, 0)
    turns = []
    for _ in range(total):
        for name, weight in weights.items():
            due[name] += weight
        chosen = max(due, key=due.__getitem__)  # the first of equals
        due[chosen] -= total
        turns.append(chosen)
    return turns
