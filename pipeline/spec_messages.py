"""Validation errors of pydantic in the words of a spec, each at its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.drafter_settings import BUILT_IN
from pipeline.names import nearest
from pipeline.settings import Section
from pipeline.yaml_source import KeyPath, Problem, Source, show


def problem_of(detail: Mapping[str, Any], source: Source, readers: Mapping[int, type[Section]]) -> Problem:
    """One entry of `ValidationError.errors`; `readers` tells which model read the mapping of that id."""
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
