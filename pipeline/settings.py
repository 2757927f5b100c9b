"""The sections of a spec as strict models: no unknown keys, no type conversions, defaults of the SPOT paper."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from pipeline.yaml_source import show
from workers.decoding.acceptance import parse_acceptance
from workers.decoding.rules import canonical_rule
from workers.errors import UserError


class Section(BaseModel):
    """A mapping of the spec. Notes in the validation context which model read which mapping, for key suggestions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _note_reader(cls, data: Any, info: ValidationInfo) -> Any:
        if isinstance(info.context, dict):
            info.context[id(data)] = cls
        return data


def wrong(message: str) -> PydanticCustomError:
    """A validation error with a message of ours, where braces are plain text."""
    return PydanticCustomError("setting", "{text}", {"text": message})


def as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,)


def distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise wrong("the list is empty")
    repeated = [
        InitErrorDetails(type=wrong(f"{show_item(value)} is listed twice"), loc=(index,), input=show_item(value))
        for index, value in enumerate(values)
        if value in values[:index]
    ]
    if repeated:
        raise ValidationError.from_exception_data("list", repeated)
    return values


def show_item(value: Any) -> str:
    return show(value.name if isinstance(value, TargetRef) else value)


def as_target(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _actors(value: Any) -> int | str:
    if value == "auto" or (type(value) is int and value > 0):
        return value
    raise wrong("should be 'auto' or a positive integer")


def _failure_threshold(value: Any) -> int | None:
    if value is None or (type(value) is int and value > 0):
        return value
    raise wrong("should be null (siblings always go on) or a positive integer, the number of failures that stops all")


def _unit(value: float) -> float:
    return value + 0.0  # -0.0 and 0.0 are one setting


Positive = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(gt=0, le=100_000)]  # of samples; planning reads each
Probability = Annotated[float, Field(ge=0, le=1)]
Temperature = Annotated[float, Field(ge=0), AfterValidator(_unit)]
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class TargetRef(Section):
    """A packaged target (`checkpoint` None) or the directory of one; `name` is a label, not part of its identity."""

    name: Label
    checkpoint: str | None = None

    @property
    def reference(self) -> str | dict[str, str]:
        """What `workers.targets.load_target` takes."""
        return self.name if self.checkpoint is None else {"checkpoint": self.checkpoint, "name": self.name}


def one_or_more(item: Any) -> Any:
    """The type of a setting that is one value or a list of distinct values."""
    return Annotated[tuple[item, ...], BeforeValidator(as_tuple), AfterValidator(distinct)]


def many(item: Any) -> Any:
    """The type of a setting that is a list, kept as a tuple."""
    return Annotated[
        tuple[item, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
    ]


def _data(value: Any) -> str | dict[str, str]:
    files = value if isinstance(value, dict) else {"": value}
    if not files or not all(isinstance(file, str) and file for file in files.values()):
        raise wrong("should be a file, or {test: FILE, train: FILE}")
    return value


Target = Annotated[TargetRef, BeforeValidator(as_target)]
Data = dict[Label, Annotated[Any, PlainValidator(_data)]]
Stop = Literal["fill", "eos"]
Layout = Literal["batch", "concat"]
Cache = Literal["auto", "none", "prefix", "approximate-prefix", "dual"]


def _commit_rule(text: str) -> str:
    try:
        return canonical_rule(text)
    except UserError as error:
        raise wrong(str(error)) from None


CommitRule = Annotated[str, AfterValidator(_commit_rule)]


def _full_form(verifier: str) -> str:
    try:
        return str(parse_acceptance(verifier))
    except UserError:
        return verifier


Verifier = Annotated[str, AfterValidator(_full_form)]


class Exclude(Section):
    """Cells to leave out: those that have one of the listed values in every named column."""

    target: one_or_more(str) | None = None
    task: one_or_more(str) | None = None
    drafter: one_or_more(str) | None = None
    verifier: one_or_more(Verifier) | None = None
    budget: one_or_more(int) | None = None
    temperature: one_or_more(Temperature) | None = None
    seed: one_or_more(int) | None = None
    padded: one_or_more(bool) | None = None
    layout: one_or_more(str) | None = None
    cache: one_or_more(str) | None = None
    commit_rule: one_or_more(CommitRule) | None = None
    stop: one_or_more(str) | None = None
    generation_length: one_or_more(int) | None = None
    block_length: one_or_more(int) | None = None

    @property
    def named(self) -> dict[str, tuple[Any, ...]]:
        return {key: value for key, value in self if value is not None}


class Execution(Section):
    """How the work is spread; never part of an identity."""

    actors: Annotated[int | str, PlainValidator(_actors)] = "auto"
    threads: Positive = 1
    failure_threshold: Annotated[int | None, PlainValidator(_failure_threshold)] = None


class Outliers(Section):
    """When a timing is repeated: robust z-score above `z` and at least `margin` away from its siblings' median."""

    z: Annotated[float, Field(gt=0)] = 3.5
    margin: Annotated[float, Field(ge=0)] = 0.25
    max_reruns: Annotated[int, Field(ge=0)] = 2


class Control(Section):
    """Whether every key with methods gets its control, and after how long a control is timed again."""

    include: bool = True
    retime_after_s: Annotated[float, Field(gt=0)] = 600.0
