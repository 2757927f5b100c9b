"""The sections of a spec that set up the stages before evaluation."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo

from pipeline.settings import Count, Positive, Section, Seed, Temperature, as_tuple, distinct, one_or_more, wrong


def _mixture(value: Any) -> Any:
    """A name, or a list of them, as shares of one each."""
    if isinstance(value, dict):
        if not value:
            raise wrong("the mapping is empty")
        return value
    names = distinct(as_tuple(value))
    return dict.fromkeys(names, 1) if all(isinstance(name, str) for name in names) else value


def _cost(value: Any, info: ValidationInfo) -> DeclaredCost | str:
    if value == "measured":
        return value
    if not isinstance(value, dict):
        raise wrong("should be 'measured' or {replica: ..., level: ...}")
    return DeclaredCost.model_validate(value, context=info.context)


# Tasks or pools, as NAME or NAME/SPLIT, and how many of the prompts each gives in turn.
Mixture = Annotated[dict[str, Annotated[int, Field(gt=0, le=1000)]], BeforeValidator(_mixture)]


class Pretrain(Section):
    """Rebuilds the weights of a packaged target."""

    seed: Seed = 0
    steps: Positive | None = None


class Collect(Section):
    """Draft-free trajectories that the order model learns from; `prompts` are dealt to the tasks and pools in turn."""

    task: Mixture = {"tiny-math": 1, "tiny-code": 1}
    prompts: Count = 15_000
    shard_prompts: Positive = 250
    batch: Positive = 64
    generation_length: Positive = 256


class Train(Section):
    """The order model (SPOT, section 4.1): its size, the optimiser, and the trajectories held out."""

    layers: Positive = 3
    width: Positive = 128
    heads: Positive = 8
    root_layers: Annotated[int, Field(ge=0)] = 0
    top: Annotated[int, Field(ge=1, le=32)] = 32
    d_max: Annotated[int, Field(ge=0)] = 7
    epochs: Positive = 10
    optimizer: Literal["adam", "muon"] = "adam"
    lr: Annotated[float, Field(gt=0)] = 3e-4
    batch: Positive = 256
    prefixes: Positive = 4
    examples_per_epoch: Positive | None = None
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    held_out_examples: Positive = 20_000
    seed: Seed = 0


class CalibrateSpiffy(Section):
    """The draft graph of Spiffy: at most `nodes` nodes, from the next `lookahead` commits of `prompts` prompts; a node
    is scored by its count, plus those of its parents if `accumulation` is degree-1, as published. Above `temperature` 0
    the trajectories are sampled, and only the tokens drawn there count, as drafts hold no other ones."""

    task: Mixture = {"tiny-math": 1, "tiny-code": 1}
    prompts: Count = 50
    nodes: Positive = 24
    lookahead: Positive = 6
    accumulation: Literal["degree-1", "none"] = "degree-1"
    token_ranks: Positive = 8
    temperature: Temperature = 0.0
    batch: Positive = 16
    generation_length: Positive = 256


class DeclaredCost(Section):
    """Cost of a round in plain forwards: 1 + replica x drafts, plus `level` for each drafting level."""

    replica: Annotated[float, Field(ge=0)]
    level: Annotated[float, Field(ge=0)]


class CalibrateFloor(Section):
    """The mass floor of SPOT-gamma: best mean ratio over `budgets`, the smaller floor if within `tie_band`."""

    task: Mixture = {"tiny-math": 1, "tiny-code": 1}
    prompts: Count = 50
    grid: one_or_more(Annotated[float, Field(ge=0, lt=1)]) = (0.0, 0.02, 0.05, 0.1, 0.2)
    budgets: one_or_more(Positive) = (8, 12, 20)
    tie_band: Annotated[float, Field(ge=0, lt=1)] = 0.03
    cost: Annotated[Any, PlainValidator(_cost)] = "measured"  # or DeclaredCost
    generation_length: Positive = 256


class CheckRejection(Section):
    """Rejection verifiers against the target's law (SPOT, section B.4): at `states` states of `prompts` prompts,
    `draws` of the accept-residual rule and `walks` of whole rounds per proposal."""

    task: Mixture = {"tiny-math": 1, "tiny-code": 1}
    prompts: Count = 4
    states: Positive = 8
    draws: Annotated[int, Field(ge=2**18)] = 2**20  # with fewer, chance alone exceeds the paper's 0.002
    walks: Positive = 300
    batch: Positive = 8
    generation_length: Positive = 64
    seed: Seed = 0


class Stages(Section):
    pretrain: Pretrain = Pretrain()
    collect: Collect = Collect()
    train: Train = Train()
    calibrate_spiffy: CalibrateSpiffy = CalibrateSpiffy()
    calibrate_floor: CalibrateFloor = CalibrateFloor()
    check_rejection: CheckRejection = CheckRejection()


Stage = TypeVar("Stage", bound=Section)


def overridden(stage: Stage, own: Stage | None) -> Stage:
    """`stage` with those settings replaced that `own` states."""
    return stage.model_copy(update={name: getattr(own, name) for name in own.model_fields_set}) if own else stage
