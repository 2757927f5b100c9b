"""The grid of a spec: every combination of its lists, less what it excludes, plus the controls the methods need."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipeline.facts import attention
from pipeline.settings import Exclude
from workers.decoding.acceptance import is_subset, parse_acceptance
from workers.decoding.caches import resolve_cache

if TYPE_CHECKING:
    from pipeline.spec import Spec

# What a run shares with its control. A round without drafts has one replica, so its layout means nothing.
CONTROL_KEY = ("target", "task", "temperature", "stop", "generation_length", "block_length", "cache", "commit_rule")


@dataclass(frozen=True)
class Cell:
    """One point of the grid: everything that identifies a measurement but the seed. Columns as in the warehouse."""

    target: str
    task: str
    method: str
    drafter: str
    verifier: str
    budget: int
    floor: float | str
    padded: bool
    temperature: float
    commit_rule: str
    cache: str
    layout: str
    stop: str
    generation_length: int
    block_length: int

    @property
    def is_control(self) -> bool:
        return self.drafter == "none"

    @property
    def control_key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, column) for column in CONTROL_KEY)

    @property
    def columns(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Run:
    """One cell with one seed: one evaluate node."""

    cell: Cell
    seed: int


def expand(spec: Spec) -> list[Run]:
    """All runs of a spec, grouped by control key: the controls of every seed first, then the methods seed by seed."""
    methods = [run for run in dict.fromkeys(_methods(spec)) if not _excluded(run, spec.exclude)]
    wanted = {(run.cell.control_key, run.seed) for run in methods} if spec.control.include else set()
    controls = [
        run
        for run in dict.fromkeys(_controls(spec))
        if (run.cell.control_key, run.seed) in wanted or ("none" in spec.drafter and not _excluded(run, spec.exclude))
    ]
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in controls + methods:
        groups.setdefault(run.cell.control_key, []).append(run)
    return list(itertools.chain.from_iterable(groups.values()))


def unmatched(spec: Spec) -> list[int]:
    """Positions of the `exclude` entries that match no cell of the full grid."""
    runs = list(_methods(spec)) + (list(_controls(spec)) if "none" in spec.drafter else [])
    return [index for index, entry in enumerate(spec.exclude) if not any(_matches(run, entry) for run in runs)]


def _methods(spec: Spec) -> Iterator[Run]:
    """The product of all lists for every drafter but `none`, seeds before drafters before budgets."""
    labels = [label for label in spec.drafter if label != "none"]
    for shared in _shared(spec):
        for seed, label, budget, verifier, padded, layout in itertools.product(
            spec.seed, labels, spec.budget, spec.verifier, spec.padded, spec.layout
        ):
            settings = spec.drafter_settings(label)
            cell = Cell(
                **shared,
                method=label,
                drafter=settings.kind,
                verifier=canonical_verifier(verifier, shared["temperature"]),
                budget=budget,
                floor=getattr(settings, "floor", 0.0),
                padded=padded,
                layout=layout,
            )
            yield Run(cell, seed)


def _controls(spec: Spec) -> Iterator[Run]:
    """The draft-free run of every control key and seed."""
    for shared in _shared(spec):
        cell = Cell(
            **shared,
            method="control",
            drafter="none",
            verifier="none",
            budget=0,
            floor=0.0,
            padded=False,
            layout="batch",
        )
        yield from (Run(cell, seed) for seed in spec.seed)


def _shared(spec: Spec) -> Iterator[dict[str, Any]]:
    values: Mapping[str, Iterable[Any]] = {
        "target": [target.name for target in spec.target],
        **{column: getattr(spec, column) for column in CONTROL_KEY[1:]},
    }
    kinds = {target.name: attention(target) for target in spec.target}
    for combination in itertools.product(*values.values()):
        shared = dict(zip(values, combination, strict=True))
        yield {**shared, "cache": resolve_cache(shared["cache"], kinds[shared["target"]])}


def canonical_verifier(verifier: str, temperature: float) -> str:
    """At temperature 0 all exact verifiers are the greedy one; `auto` is the coupled one above. The acceptance rules of
    trajectories are themselves at any temperature, in their full form."""
    if is_subset(verifier):
        return str(parse_acceptance(verifier))
    if temperature == 0:
        return "greedy"
    return "coupled" if verifier == "auto" else verifier


def _excluded(run: Run, entries: Iterable[Exclude]) -> bool:
    return any(_matches(run, entry) for entry in entries)


def _matches(run: Run, entry: Exclude) -> bool:
    values = {**run.cell.columns, "drafter": run.cell.method, "seed": run.seed}
    return all(values[column] in allowed for column, allowed in entry.named.items())
