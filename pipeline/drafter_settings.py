"""The drafters of a spec and their options."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, model_validator

from pipeline.settings import Positive, Probability, Section, TargetRef, as_target, wrong
from pipeline.stage_settings import CalibrateFloor, CalibrateSpiffy, Collect, Train
from workers.decoding.trajectory_shape import node_count


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


class MadeOn(TargetRef):
    """The target that an artifact is made on: one of the spec by its name, a packaged one, or a directory. It decodes
    at `block_length` there, by default at that of the runs that use the artifact."""

    block_length: Positive | None = None


Elsewhere = Annotated[MadeOn, BeforeValidator(as_target)]


class Spiffy(Section):
    """Spiffy: the calibrated draft graph, cut to the budget, over the positions by their confidence or by the stale
    probability of the token drawn there, which counts the noise in. `calibrate_spiffy` replaces settings of the stage
    of that name for this drafter alone; `calibrated_on` takes the graph of another target."""

    kind: Literal["spiffy"]
    rank_by: Literal["confidence", "draw"] = "confidence"
    calibrate_spiffy: CalibrateSpiffy | None = None
    calibrated_on: Elsewhere | None = None


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
    temperature `tau`, drafts under the mass `floor` cut; `shape: chain` follows the best branch only.

    `collect`, `train` and `calibrate_floor` replace settings of the stages of these names for this drafter alone;
    `trained_on` takes the order model of another target, `order_model` one from a directory, `calibrated_on` the floor
    of another target."""

    kind: Literal["spot"]
    hedge: Hedge = 2
    hedge_below: Probability = 0.6
    tau: Annotated[float, Field(gt=0)] = 1.0
    floor: Annotated[float | str, PlainValidator(_floor)] = 0.0
    shape: Literal["tree", "chain"] = "tree"
    collect: Collect | None = None
    train: Train | None = None
    calibrate_floor: CalibrateFloor | None = None
    trained_on: Elsewhere | None = None
    calibrated_on: Elsewhere | None = None
    order_model: str | None = None

    @model_validator(mode="after")
    def _one_order_model(self) -> Spot:
        if self.order_model is not None:
            for name in ("trained_on", "train", "collect"):
                if getattr(self, name) is not None:
                    raise wrong(f"order_model is trained already, so {name} has no meaning beside it")
        return self


class Trajectory(Section):
    """Trajectory drafts, W x D by stale confidence. `variant` sets the size of its levels, `tokens` the hypotheses per
    position at the first of them; positions of stale confidence `tau` or more are in every draft (null: what the commit
    rule leaves is branched over as it is). `inter_blocks`: drafts of the next block, 0 for none; needs cache dual."""

    kind: Literal["trajectory"]
    width: Positive = 2
    depth: Positive = 2
    variant: Literal["hybrid", "top-2", "full", "duplicate"] = "hybrid"
    tokens: Annotated[int, Field(ge=1, le=4)] = 1
    tau: Annotated[float, Field(gt=0, le=1)] | None = None
    inter_blocks: Annotated[int, Field(ge=0, le=3)] = 0

    @property
    def nodes(self) -> int:
        """Most drafts per round."""
        return node_count(self.width, self.depth, self.variant) + self.inter_blocks


class Oracle(Section):
    """Peeks at the target's own continuation: a ceiling, not a method."""

    kind: Literal["oracle-position", "oracle-token", "oracle-joint"]


Drafter = Annotated[Chain | Oracle | Spot | Spiffy | Trajectory | Tree, Field(discriminator="kind")]


# Options of a drafter that say how and where its artifacts are made.
STAGE_OPTIONS = ("collect", "train", "calibrate_floor", "calibrate_spiffy")
MADE_ON = ("trained_on", "calibrated_on")

# What a built-in name means without options.
BUILT_IN = {
    "spot": Spot(kind="spot"),
    "spiffy": Spiffy(kind="spiffy"),
    "chain": Chain(kind="chain"),
    "tree": Tree(kind="tree"),
    "trajectory": Trajectory(kind="trajectory"),
    "oracle-position": Oracle(kind="oracle-position"),
    "oracle-token": Oracle(kind="oracle-token"),
    "oracle-joint": Oracle(kind="oracle-joint"),
}
