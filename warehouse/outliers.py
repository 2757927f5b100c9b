"""Which runs were timed badly: a robust rule over siblings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

MIN_SIBLINGS = 3
_MAD_TO_SIGMA = 1.4826  # of a normal distribution


@dataclass(frozen=True)
class RunTiming:
    """Speed of one run. `group` holds what siblings share: the cell, the sample set and the device class."""

    run_id: str
    group: tuple
    tok_s: float


@dataclass(frozen=True)
class Outlier:
    """A run that deviates: `z` in robust standard deviations, `relative` = tok_s / median - 1, `reason` to archive."""

    run_id: str
    z: float
    relative: float
    reason: str


def find_outliers(runs: Iterable[RunTiming], z: float, margin: float) -> list[Outlier]:
    """Runs whose tok_s is off the median of their siblings, themselves included, by more than both limits.

    The robust z-score is |tok_s - median| / (1.4826 * MAD), and `margin` is the least relative deviation from the
    median that matters: seeds of a quiet machine agree so well that z alone would flag noise. A MAD of zero gives an
    infinite z. With fewer than 3 siblings nothing is flagged, since two that differ do not tell which of them is off.
    Returns outliers in the order of `runs`.
    """
    if z <= 0 or margin < 0:
        raise ValueError(f"outlier limits need z > 0 and margin >= 0, got z={z}, margin={margin}")
    runs = list(runs)
    siblings: dict[tuple, list[float]] = defaultdict(list)
    for run in runs:
        siblings[run.group].append(run.tok_s)
    found = (_judge(run, siblings[run.group], z, margin) for run in runs)
    return [outlier for outlier in found if outlier is not None]


def _judge(run: RunTiming, speeds: Sequence[float], z: float, margin: float) -> Outlier | None:
    if len(speeds) < MIN_SIBLINGS:
        return None
    middle = median(speeds)
    sigma = _MAD_TO_SIGMA * median(abs(speed - middle) for speed in speeds)
    deviation = abs(run.tok_s - middle)
    if deviation <= margin * middle or deviation <= z * sigma:
        return None
    score = deviation / sigma if sigma else float("inf")
    relative = run.tok_s / middle - 1 if middle else float("inf")
    where = f"{relative:+.1%} off the median of {len(speeds)} siblings"
    reason = f"outlier: {run.tok_s:.4g} tok/s is {where} (robust z {score:.1f})"
    return Outlier(run.run_id, score, relative, reason)
