"""YAML 1.2 text as plain values that remember the line they came from, plus command-line overrides.

The composed node graph is read directly, because the usual loaders stop at the first duplicate key.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from workers.errors import UserError

KeyPath = tuple[str | int, ...]
Finding = tuple[KeyPath, str]

OVERRIDE = "--set "

_SCALARS = ("str", "int", "float", "bool", "null", "timestamp")
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Problem:
    """One mistake: where it is (`file:line` or the override), which setting, and what is wrong."""

    place: str
    path: str
    message: str
    line: int = 0

    @property
    def file(self) -> str:
        return self.place.removesuffix(f":{self.line}")

    def __str__(self) -> str:
        return f"{self.place}: {self.path}: {self.message}" if self.path else f"{self.place}: {self.message}"


class SpecError(UserError):
    """A spec that cannot be used; `problems` holds every mistake found, the message has one line for each."""

    def __init__(self, problems: list[Problem]) -> None:
        files = list(dict.fromkeys(problem.file for problem in problems))
        self.problems = sorted(dict.fromkeys(problems), key=lambda one: (files.index(one.file) * bool(one.line), one.line))
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True)
class Origin:
    """Where a setting comes from that is not in its document: an override (no line), or the spec that includes it."""

    place: str
    directory: Path
    line: int = 0


@dataclass
class Source:
    """A parsed document: `data` in plain Python values, `lines` the line of the key (or list item) at each path.

    `origins` says what else has set a path, which then replaces `file:line`.
    """

    name: str
    text: str
    directory: Path
    data: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, path: KeyPath, message: str) -> Problem:
        """The problem at `path`, placed at the nearest enclosing setting that exists."""
        for end in range(len(path), -1, -1):
            if origin := self.origins.get(path[:end]):
                return Problem(origin.place, show_path(path), message, origin.line)
            if path[:end] in self.lines:
                break
        return self.problem_on(self.lines.get(path[:end], 1), path, message)

    def problem_on(self, line: int, path: KeyPath, message: str) -> Problem:
        """The problem at `path` on a known line; an override has no lines."""
        if self.name.startswith(OVERRIDE):
            return Problem(self.name, show_path(path), message)
        return Problem(f"{self.name}:{line}", show_path(path), message, line)

    def contains(self, path: KeyPath) -> bool:
        return path in self.lines or path in self.origins

    def base_directory(self, path: KeyPath) -> Path:
        """Where a relative file name at `path` starts: the spec's directory, the working directory for an override."""
        origins = (self.origins.get(path[:end]) for end in range(len(path), -1, -1))
        return next((origin.directory for origin in origins if origin), self.directory)

    def origin(self, path: KeyPath) -> Origin:
        """Where the setting at `path`, which exists, is to be looked for by somebody who reads another document."""
        line = self.lines.get(path, 1)
        return self.origins.get(path) or Origin(f"{self.name}:{line}", self.directory, line)

    def part(self, path: KeyPath, name: str) -> Source:
        """The mapping at `path` as a document of its own, which keeps its lines."""
        data: Any = self.data
        for step in path:
            data = data[step]
        lines, origins = (
            {inner[len(path) :]: value for inner, value in table.items() if inner[: len(path)] == path}
            for table in (self.lines, self.origins)
        )
        return Source(name, "", self.directory, copy.deepcopy(data), lines, origins)


def show_path(path: KeyPath) -> str:
    """('exclude', 0, 'budget') as exclude[0].budget."""
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return shown.removeprefix(".")


def item_path(source: Source, key: str, index: int) -> KeyPath:
    """The path of one value of a setting that may be a list or a single value."""
    return (key, index) if source.contains((key, index)) else (key,)


def read_source(path: Path) -> Source:
    """Reads a spec file. Raises UserError if it cannot be read, SpecError if it is not YAML."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: no such spec file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot read the spec: {error}") from None
    return parse(text, str(path), path.resolve().parent)


def parse(text: str, name: str, directory: Path) -> Source:
    """Parses YAML text. Syntax errors raise SpecError; duplicate keys, tags and the like are left in `problems`."""
    source = Source(name, text, directory)
    root = _compose(text, name)
    source.data = {} if root is None else _convert(root, (), source, 1)
    if not isinstance(source.data, dict):
        raise SpecError([Problem(f"{name}:1", "", f"a spec is a mapping of settings, got {show(source.data)}", 1)])
    return source


def override(source: Source, assignment: str) -> None:
    """Applies one `key.sub=value` in place; the value is YAML. Raises SpecError that names the override."""
    key, equals, text = assignment.partition("=")
    origin = f"{OVERRIDE}{key.strip()}"
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise SpecError([Problem(f"{OVERRIDE}{assignment}", "", "write an override as key.sub=value")])
    parent, path = source.data, ()
    for part in parts[:-1]:
        step = _step(parent, part, path, origin)
        path += (step,)
        if isinstance(parent, dict) and step not in parent:
            parent[step] = {}
            source.origins[path] = Origin(origin, Path.cwd())
        parent = parent[step]
    step = _step(parent, parts[-1], path, origin)
    path += (step,)

    parsed = Source(origin, text, source.directory)
    node = _compose(text, origin)
    parent[step] = None if node is None else _convert(node, path, parsed, 1)
    for table in (source.lines, source.origins):
        for old in [old for old in table if old[: len(path)] == path]:
            del table[old]
    source.problems += parsed.problems
    source.origins.update({inner: Origin(origin, Path.cwd()) for inner in (path, *parsed.lines)})


def overlay(source: Source, over: Source, without: Collection[KeyPath]) -> None:
    """Puts the settings of `over`, except those at the paths `without`, over those of `source`, in place.

    Mappings are merged; anything else replaces what is there.
    """
    for key, value in over.data.items():
        _put(source, source.data, value, (key,), over, without)


def _put(
    source: Source, parent: dict[Any, Any], value: Any, path: KeyPath, over: Source, without: Collection[KeyPath]
) -> None:
    if path in without:
        return
    inside = parent.get(path[-1])
    if isinstance(value, dict) and isinstance(inside, dict):
        for key, inner in value.items():
            _put(source, inside, inner, (*path, key), over, without)
        return
    for table in (source.lines, source.origins):
        for old in [old for old in table if old[: len(path)] == path]:
            del table[old]
    source.origins[path] = over.origin(path)
    if isinstance(value, dict):
        parent[path[-1]] = {}
        _put(source, parent, value, path, over, without)
        return
    parent[path[-1]] = copy.deepcopy(value)
    below = [inner for table in (over.lines, over.origins) for inner in table if inner[: len(path)] == path]
    source.origins.update({inner: over.origin(inner) for inner in below})


def show(value: Any) -> str:
    """A value as its author would write it in YAML, shortened."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = f"'{value}'"
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{key}: {show(inner)}" for key, inner in value.items()) + "}"
    elif isinstance(value, (list, tuple)):
        text = "[" + ", ".join(map(show, value)) + "]"
    else:
        text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _compose(text: str, name: str) -> Node | None:
    try:
        return YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        line, reason = error.problem_mark.line + 1 if error.problem_mark else 1, error.problem
    except ReaderError as error:
        line, reason = text.count("\n", 0, error.position) + 1, error.reason
    raise SpecError([Source(name, text, Path()).problem_on(line, (), f"not valid YAML: {reason}")])


def _convert(node: Node, path: KeyPath, source: Source, line: int, parents: tuple[int, ...] = ()) -> Any:
    """Plain value of a node; records the line of every key below `path`, and what plain values cannot express."""
    source.lines[path] = line
    if id(node) in parents:
        source.problems.append(source.problem(path, "an alias may not contain itself"))
        return None
    parents += (id(node),)
    if isinstance(node, SequenceNode):
        return [
            _convert(item, path + (index,), source, item.start_mark.line + 1, parents)
            for index, item in enumerate(node.value)
        ]
    if isinstance(node, MappingNode):
        return _convert_mapping(node, path, source, parents)
    return _convert_scalar(node, path, source)


def _convert_mapping(node: MappingNode, path: KeyPath, source: Source, parents: tuple[int, ...]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value
        if not isinstance(key, str):
            source.problems.append(source.problem_on(line, path, "a key must be a plain word"))
            continue
        if key in mapping:
            message = f"duplicate key, first set on line {source.lines[path + (key,)]}"
            source.problems.append(source.problem_on(line, path + (key,), message))
            continue
        mapping[key] = _convert(value_node, path + (key,), source, line, parents)
    return mapping


def _convert_scalar(node: ScalarNode, path: KeyPath, source: Source) -> Any:
    kind = str(node.tag).removeprefix(_TAG)
    if kind not in _SCALARS:
        source.problems.append(source.problem(path, f"the tag {node.tag} is not supported"))
        return None
    if kind in ("str", "timestamp"):
        return node.value
    constructor = YAML(typ="safe", pure=True).constructor
    try:
        return getattr(constructor, f"construct_yaml_{kind}")(node)
    except (ValueError, KeyError, IndexError):
        source.problems.append(source.problem(path, f"{node.value!r} is not a valid {kind}"))
        return None


def _step(parent: Any, part: str, path: KeyPath, origin: str) -> str | int:
    """The key or list index that `part` means in `parent`; raises SpecError if it cannot have one."""
    if isinstance(parent, dict):
        return part
    if isinstance(parent, list) and part.isdigit() and int(part) < len(parent):
        return int(part)
    what = f"a list of {len(parent)}" if isinstance(parent, list) else show(parent)
    raise SpecError([Problem(origin, "", f"{show_path(path)} is {what}, so it has no '{part}'")])
