"""A spec: one YAML file that says what is measured, validated as a whole, with every mistake reported at its line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, ValidationError

from pipeline import checks, grid
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
    as_tuple,
    many,
    one_or_more,
)
from pipeline.spec_messages import problem_of
from pipeline.stage_settings import Stages, overridden
from pipeline.yaml_source import KeyPath, Problem, Source, SpecError, item_path, overlay, override, parse, read_source, show
from workers.errors import UserError
from workers.targets.digest import HUB


class Spec(Section):
    """A validated spec. Every field of the grid is a tuple; `load_spec` is the only way to make one from a file.

    check_logits: methods also record how far their logits lie from those of a forward without drafts
    (rounds.logit_error).
    """

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
    check_logits: bool = False
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
    def parts(self) -> list[tuple[str, Spec]]:
        """The specs with grids in it, this one, each with what its labels start with."""
        return [("", self)]

    @property
    def files(self) -> dict[str, str]:
        """The text of the file it was read from, by name."""
        return {self._source.name: self._source.text}

    @property
    def source(self) -> Source:
        """The text it was read from, with lines."""
        return self._source


class Suite(Section):
    """Several specs as one experiment: those of `include`, files or whole specs, in this order.

    Every other setting of its document replaces that of each member (mappings are merged), as an override does.
    `execution`, `outliers` and the re-timing of controls are the suite's own.
    """

    name: Label
    include: one_or_more(Any)
    execution: Execution = Execution()
    outliers: Outliers = Outliers()
    control: Control = Control()

    _members: list[Spec | Suite] = PrivateAttr()
    _source: Source = PrivateAttr()

    @property
    def parts(self) -> list[tuple[str, Spec]]:
        """The specs with grids in it, each with what its labels start with: its name, unless it is the only one."""
        several = len(self._members) > 1
        return [
            (f"{member.name}/" * several + start, spec) for member in self._members for start, spec in member.parts
        ]

    @property
    def files(self) -> dict[str, str]:
        """The texts of all files it was read from, by name, its own first."""
        found = {self._source.name: self._source.text}
        for member in self._members:
            found |= {name: text for name, text in member.files.items() if name not in found}
        return found

    @property
    def source(self) -> Source:
        """Its text, with lines, and as data the document with all members in place."""
        return self._source


def load_spec(path: str | Path, overrides: Iterable[str] = ()) -> Spec | Suite:
    """Reads and validates a spec file, after applying `key.sub=value` overrides.

    Raises SpecError (a UserError) with every mistake at once, UserError if the file cannot be read.
    """
    return _check_reach(_load(read_source(Path(path)), overrides, (Path(path).resolve(),)))


def parse_spec(
    text: str, name: str = "spec", directory: Path | None = None, overrides: Iterable[str] = ()
) -> Spec | Suite:
    """`load_spec` for YAML text; relative file names start at `directory` (default: the working directory)."""
    return _check_reach(_load(parse(text, name, directory or Path.cwd()), overrides))


def _load(source: Source, overrides: Iterable[str] = (), files: tuple[Path, ...] = ()) -> Spec | Suite:
    """`files`: those that are being read, the outermost first."""
    for assignment in overrides:
        override(source, assignment)
    source.data.setdefault("name", Path(source.name).stem)
    return _load_suite(source, files) if "include" in source.data else _validate(source)


def _load_suite(source: Source, files: tuple[Path, ...]) -> Suite:
    readers: dict[int, type[Section]] = {}
    problems = list(source.problems)
    own = {key: value for key, value in source.data.items() if key in Suite.model_fields}
    try:
        suite = Suite.model_validate(own, context=readers)
    except ValidationError as error:
        problems += [problem_of(detail, source, readers) for detail in error.errors(include_url=False)]
    members: dict[str, Spec | Suite] = {}
    for index, item in enumerate(as_tuple(own["include"])):
        path = item_path(source, "include", index)
        try:
            part, inside = _member(source, item, index, path, files)
            overlay(part, source, without={("name",), ("include",), *_strangers(part, source)})
            member = _load(part, files=inside)
        except SpecError as error:
            problems += error.problems
            continue
        except UserError as error:
            problems.append(source.problem(path, str(error)))
            continue
        if member.name in members:
            problems.append(source.problem(path, f"two members are called '{member.name}'; give one another name"))
        members[member.name] = member
    if problems:
        raise SpecError(problems)
    suite._members = list(members.values())
    suite._source = replace(source, data={**own, "include": [member.source.data for member in suite._members]})
    return suite


def _strangers(part: Source, source: Source) -> list[KeyPath]:
    """Drafters of which a suite states only some options, no kind, and which this member does not have."""
    stated, own = source.data.get("drafters"), part.data.get("drafters")
    if not isinstance(stated, dict) or "include" in part.data:
        return []
    known = {*BUILT_IN, *(own if isinstance(own, dict) else ())}
    return [
        ("drafters", label)
        for label, options in stated.items()
        if isinstance(options, dict) and "kind" not in options and label not in known
    ]


def _check_reach(spec: Spec | Suite) -> Spec | Suite:
    """Raises SpecError for options of a drafter that no member of a suite has."""
    source = spec.source
    paths = (path for path in (*source.lines, *source.origins) if path[:1] == ("drafters",) and len(path) > 1)
    stated = dict.fromkeys(path[:2] for path in paths)
    known = {label for _, part in spec.parts for label in part.drafters}
    problems = [
        source.problem(path, f"no member has a drafter '{path[1]}'" + nearest(str(path[1]), known))
        for path in stated
        if path[1] not in known
    ]
    if problems:
        raise SpecError(problems)
    return spec


def _member(
    source: Source, item: Any, index: int, path: KeyPath, files: tuple[Path, ...]
) -> tuple[Source, tuple[Path, ...]]:
    """The document of one entry of `include`, and the files that are being read with it."""
    if isinstance(item, dict):
        part = source.part(path, source.name)
        part.data.setdefault("name", f"part-{index + 1}")
        return part, files
    if not isinstance(item, str):
        raise UserError(f"should be a spec file or a spec, got {show(item)}")
    file = (source.base_directory(path) / Path(item).expanduser()).resolve()
    if file in files:
        raise UserError(f"{item} includes itself")
    part = read_source(file)
    part.name = str(Path(os.path.relpath(file)) if file.is_relative_to(Path.cwd()) else file)
    return part, (*files, file)


# Stand-ins for required settings that are wrong, so that the remaining settings can still be checked together.
_STAND_INS = {"name": "spec", "target": "tiny-sdar", "task": "tiny-math", "drafter": "none", "samples": 1}


def _validate(source: Source) -> Spec:
    drafters = source.data.get("drafters")
    for label, options in drafters.items() if isinstance(drafters, dict) else ():
        if label in BUILT_IN and isinstance(options, dict):
            options.setdefault("kind", label)
    _resolve_checkpoints(source)
    _resolve_data(source)
    problems = list(source.problems)
    spec, broken = _build(source, problems)
    problems += checks.find_problems(spec, source, broken)
    if problems:
        raise SpecError(problems)
    if idle := grid.unmatched(spec):  # of columns that an override has narrowed
        source.data["exclude"] = [entry for index, entry in enumerate(source.data["exclude"]) if index not in idle]
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
        problems += [problem_of(detail, source, readers) for detail in details]
        broken = frozenset(str(detail["loc"][0]) for detail in details)
        sound = {key: value for key, value in data.items() if key not in broken}
        spec = Spec.model_validate({**{key: _STAND_INS[key] for key in _STAND_INS if key not in sound}, **sound})
    spec._source = source
    return spec, broken
