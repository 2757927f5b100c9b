"""A spec: one YAML file that says what is measured, validated as a whole, with every mistake reported at its line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, ValidationError

from pipeline import checks
from pipeline.drafter_settings import BUILT_IN, MADE_ON, STAGE_OPTIONS, Drafter
from pipeline.names import nearest
from pipeline.settings import (
    Cache,
    CommitRule,
    Control,
    Count,
    Data,
    Exclude,
    Execution,
    Label,
    Layout,
    Outliers,
    Positive,
    Section,
    Seed,
    Stop,
    Target,
    TargetRef,
    Temperature,
    many,
    one_or_more,
)
from pipeline.stage_settings import Stages, overridden
from pipeline.yaml_source import KeyPath, Problem, Source, SpecError, override, parse, read_source, show
from workers.targets.digest import HUB


class Spec(Section):
    """A validated spec. Every field of the grid is a tuple; `load_spec` is the only way to make one from a file."""

    name: Label
    target: one_or_more(Target)
    task: one_or_more(str)
    drafter: one_or_more(str)
    verifier: one_or_more(str) = ("auto",)
    budget: one_or_more(Positive) = ()
    temperature: one_or_more(Temperature) = (0.0,)
    seed: one_or_more(Seed) = (0,)
    samples: Count
    generation_length: one_or_more(Positive) = (256,)
    block_length: one_or_more(Positive) = (32,)
    stop: one_or_more(Stop) = ("fill",)
    padded: one_or_more(bool) = (False,)
    layout: one_or_more(Layout) = ("batch",)
    cache: one_or_more(Cache) = ("auto",)
    commit_rule: one_or_more(CommitRule) = ("single",)
    allow_code_execution: bool = False
    pretrain: bool = False
    data: Data = {}
    drafters: dict[Label, Drafter] = {}
    exclude: many(Exclude) = ()
    stages: Stages = Stages()
    execution: Execution = Execution()
    outliers: Outliers = Outliers()
    control: Control = Control()

    _source: Source = PrivateAttr()

    def drafter_settings(self, label: str) -> Drafter:
        """The drafter and options behind a label of the grid; KeyError for the control, which has none."""
        return self.drafters[label] if label in self.drafters else BUILT_IN[label]

    def stages_of(self, label: str) -> Stages:
        """The stage settings of one method: those of the spec, with what its drafter states of its own."""
        own = {name: getattr(self.drafter_settings(label), name, None) for name in STAGE_OPTIONS}
        return self.stages.model_copy(
            update={name: overridden(getattr(self.stages, name), given) for name, given in own.items() if given}
        )

    def target_of(self, place: TargetRef) -> TargetRef:
        """The target that a drafter names as where its artifacts are made: by its name, one of the spec if it has it."""
        own = {target.name: target for target in self.target}
        known = place.checkpoint is None and place.name in own
        return own[place.name] if known else TargetRef(name=place.name, checkpoint=place.checkpoint)

    @property
    def targets(self) -> list[TargetRef]:
        """All targets that some node loads: the ones of the grid, and those that artifacts of its drafters are made on."""
        used = [self.drafter_settings(label) for label in self.drafter if label != "none"]
        places = [getattr(drafter, name, None) for drafter in used for name in MADE_ON]
        return list(dict.fromkeys([*self.target, *(self.target_of(place) for place in places if place)]))

    @property
    def source(self) -> Source:
        """The text it was read from, with lines."""
        return self._source


def load_spec(path: str | Path, overrides: Iterable[str] = ()) -> Spec:
    """Reads and validates a spec file, after applying `key.sub=value` overrides.

    Raises SpecError (a UserError) with every mistake at once, UserError if the file cannot be read.
    """
    return _validate(read_source(Path(path)), overrides)


def parse_spec(text: str, name: str = "spec", directory: Path | None = None, overrides: Iterable[str] = ()) -> Spec:
    """`load_spec` for YAML text; relative file names start at `directory` (default: the working directory)."""
    return _validate(parse(text, name, directory or Path.cwd()), overrides)


# Stand-ins for required settings that are wrong, so that the remaining settings can still be checked together.
_STAND_INS = {"name": "spec", "target": "tiny-sdar", "task": "tiny-math", "drafter": "none", "samples": 1}


def _validate(source: Source, overrides: Iterable[str]) -> Spec:
    for assignment in overrides:
        override(source, assignment)
    source.data.setdefault("name", Path(source.name).stem)
    _resolve_checkpoints(source)
    _resolve_data(source)
    problems = list(source.problems)
    spec, broken = _build(source, problems)
    problems += checks.find_problems(spec, source, broken)
    if problems:
        raise SpecError(problems)
    return spec


def _resolve_checkpoints(source: Source) -> None:
    """Makes the directories of the document absolute, so that a spec works from any directory; a hub's names stay."""
    targets, drafters = source.data.get("target"), source.data.get("drafters")
    several = isinstance(targets, list)
    places: list[tuple[Any, KeyPath]] = [
        (target, ("target", index) if several else ("target",))
        for index, target in enumerate(targets if several else [targets])
    ]
    for label, options in drafters.items() if isinstance(drafters, dict) else ():
        if isinstance(options, dict):
            places += [(options.get(name), ("drafters", label, name)) for name in MADE_ON]
            places.append((options, ("drafters", label)))
    for place, path in places:
        for key in ("checkpoint", "order_model"):
            if isinstance(place, dict) and isinstance(place.get(key), str) and not place[key].startswith(HUB):
                place[key] = str(source.base_directory((*path, key)) / Path(place[key]).expanduser())


def _resolve_data(source: Source) -> None:
    """Makes the data files of the document absolute."""
    data = source.data.get("data")
    for name, value in data.items() if isinstance(data, dict) else ():
        holder, key, path = data, name, ("data", name)
        inner = (
            [(value, split, (*path, split)) for split in value] if isinstance(value, dict) else [(holder, key, path)]
        )
        for holder, key, path in inner:
            if isinstance(holder[key], str) and holder[key]:
                holder[key] = str(source.base_directory(path) / Path(holder[key]).expanduser())


def _build(source: Source, problems: list[Problem]) -> tuple[Spec, frozenset[str]]:
    """The spec, and the top-level settings that had to be left out of it because they are wrong."""
    readers: dict[int, type[Section]] = {}
    data = source.data
    broken: frozenset[str] = frozenset()
    try:
        spec = Spec.model_validate(data, context=readers)
    except ValidationError as error:
        details = error.errors(include_url=False)
        problems += [_problem(detail, source, readers) for detail in details]
        broken = frozenset(str(detail["loc"][0]) for detail in details)
        sound = {key: value for key, value in data.items() if key not in broken}
        spec = Spec.model_validate({**{key: _STAND_INS[key] for key in _STAND_INS if key not in sound}, **sound})
    spec._source = source
    return spec, broken


def _problem(detail: Any, source: Source, readers: dict[int, type[Section]]) -> Problem:
    """A pydantic error in the words of the spec, at its line."""
    kind, value = detail["type"], detail["input"]
    path, parent = _locate(detail["loc"], source)
    if kind == "extra_forbidden":
        known = readers[id(parent)].model_fields
        return source.problem(path, "unknown key" + nearest(str(path[-1]), known))
    if kind == "missing":
        return source.problem(path + (detail["loc"][-1],), "required, but missing")
    if kind == "union_tag_not_found":
        return source.problem(path + ("kind",), "required, but missing")
    if kind == "union_tag_invalid":
        tag = detail["ctx"]["tag"]
        return source.problem(path + ("kind",), f"unknown kind {show(tag)}" + nearest(tag, BUILT_IN))
    if isinstance(value, dict):  # a rule between settings of one section: the overridden one is to blame
        path = next((inner for inner in source.origins if inner[:-1] == path), path)
    message = detail["msg"].removeprefix("Input ")
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        message = "should be a mapping of settings"
    if kind == "tuple_type":
        message = "should be a list"
    if message.startswith("should"):
        message += f", got {show(value)}"
    if kind == "literal_error" and isinstance(value, str):
        message += nearest(value, re.findall(r"'([^']+)'", detail["ctx"]["expected"]))
    if isinstance(value, str) and "," in value:
        message += "; a list is written [a, b]"
    return source.problem(path, message)


def _locate(location: Iterable[str | int], source: Source) -> tuple[KeyPath, Any]:
    """The path of an error in the document, and the mapping or list that holds it.

    Parts that only pydantic knows (a union's tag, the index of a value that is not in a list) are dropped.
    """
    path: KeyPath = ()
    value = parent = source.data
    for part in location:
        inside = part in value if isinstance(value, dict) else isinstance(value, list) and part in range(len(value))
        if inside:
            path, parent, value = path + (part,), value, value[part]
    return path, parent
