"""The drafters of a spec and their options."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator

from pipeline.settings import Positive, Probability, Section, wrong


def _floor(value: Any) -> float | str:
    if value == "calibrated":
        return value
    if type(value) in (int, float) and 0 <= value < 1:
        return float(value)
    raise wrong("should be a probability from 0 up to, not including, 1, or 'calibrated'")


def _hedge(value: int) -> int:
    if value not in (1, 2, 4):
        raise wrong("should be 1, 2 or 4")
    return value


Hedge = Annotated[int, AfterValidator(_hedge)]


class Spiffy(Section):
    """Spiffy: the calibrated draft graph, cut to the budget."""

    kind: Literal["spiffy"]


class Tree(Section):
    """BlockSpec-style tree, best-first over the stale confidences; hedges as in SPOT where asked."""

    kind: Literal["tree"]
    hedge: Hedge = 1
    hedge_below: Probability = 0.6


class Chain(Section):
    """SSD: one chain of `depth` drafts in confidence order."""

    kind: Literal["chain"]
    depth: Positive = 4


class Spot(Section):
    """SPOT: `hedge` token hypotheses where the stale top-1 probability is below `hedge_below`, order model at
    temperature `tau`, drafts under the mass `floor` cut; `shape: chain` follows the best branch only."""

    kind: Literal["spot"]
    hedge: Hedge = 2
    hedge_below: Probability = 0.6
    tau: Annotated[float, Field(gt=0)] = 1.0
    floor: Annotated[float | str, PlainValidator(_floor)] = 0.0
    shape: Literal["tree", "chain"] = "tree"


class Oracle(Section):
    """Peeks at the target's own continuation: a ceiling, not a method."""

    kind: Literal["oracle-position", "oracle-token", "oracle-joint"]


Drafter = Annotated[Chain | Oracle | Spot | Spiffy | Tree, Field(discriminator="kind")]


# What a built-in name means without options.
BUILT_IN = {
    "spot": Spot(kind="spot"),
    "spiffy": Spiffy(kind="spiffy"),
    "chain": Chain(kind="chain"),
    "tree": Tree(kind="tree"),
    "oracle-position": Oracle(kind="oracle-position"),
    "oracle-token": Oracle(kind="oracle-token"),
    "oracle-joint": Oracle(kind="oracle-joint"),
}
