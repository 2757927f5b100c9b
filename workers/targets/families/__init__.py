"""The families of published checkpoints that can be loaded, by name (no torch)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workers.errors import UserError
from workers.targets.families.dream import DREAM
from workers.targets.families.family import Family
from workers.targets.families.llada import LLADA
from workers.targets.families.llada2 import LLADA2
from workers.targets.families.sdar import SDAR

FAMILIES = {family.name: family for family in (SDAR, LLADA2, LLADA, DREAM)}


def family_of(published: Mapping[str, Any], where: str) -> Family:
    """The family a config.json belongs to; raises UserError if it is none of the known ones."""
    model_type = published.get("model_type", SDAR.model_type)
    for family in FAMILIES.values():
        if family.model_type == model_type:
            return family
    known = ", ".join(f"{family.model_type!r} ({family.name})" for family in FAMILIES.values())
    raise UserError(f"{where}: model_type is {model_type!r}; known are {known}")


def family_of_tensors(names: Iterable[str]) -> Family | None:
    """The family whose mark is among published tensor names, None if there is none."""
    names = set(names)
    return next((family for family in FAMILIES.values() if family.mark in names), None)


__all__ = ["FAMILIES", "Family", "family_of", "family_of_tensors"]
