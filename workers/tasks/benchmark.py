"""Benchmarks: published test sets as tasks, from a local file or the hub.

Splits, all disjoint: `test`, of which a spec evaluates the first so many; `calibration`, the same rows from number
100 on (SPOT evaluates the first 100 and calibrates on MBPP test samples 100-149, appendices D.5 and E); and `pool`,
the published training rows, where there are any. Sample ids name the published row, so a row has one id whatever
split it is read through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workers.errors import UserError
from workers.tasks.rows import Fields, Hub, Place, Row, read_file, read_hub
from workers.tasks.sample import Sample, Score, Task

CALIBRATION_FROM = 100

Data = "str | Mapping[str, str]"
Rows = Callable[[str], Sequence[tuple[Place, Row]]]


@dataclass(frozen=True)
class Benchmark:
    """How a published data set becomes a task.

    fields: what every row must have. build(rows, published): the samples of one published split ("test" or "train");
    rows(published) reads such a split. score: see Task. sort(row): the published split of a row, for data sets that
    come as one file with all of them; None if a single file is the test split.
    """

    name: str
    version: int
    executes_code: bool
    hub: Hub
    fields: Fields
    build: Callable[[Rows, str], list[Sample]]
    score: Callable[[Sample, str], Score]
    sort: Callable[[Row], str | None] | None = None
    needs: tuple[str, ...] = ()

    def task(self, data: str | Mapping[str, str] | None = None) -> Task:
        """The task on its data: a file, a file for each published split, or None for the hub. Reads nothing yet."""
        splits = ("pool", "calibration", "test") if "train" in self.hub.splits else ("calibration", "test")

        def samples(split: str, first: int, count: int) -> list[Sample]:
            if split not in splits:
                raise UserError(f"'{self.name}' has no {split} samples, only {' and '.join(splits)}")
            found = self.build(lambda published: self._rows(data, published), "train" if split == "pool" else "test")
            start = CALIBRATION_FROM if split == "calibration" else 0
            return found[start:][first : first + count]

        return Task(self.name, self.version, self.executes_code, splits, samples, self.score, self.needs)

    def _rows(self, data: str | Mapping[str, str] | None, published: str) -> Sequence[tuple[Place, Row]]:
        if data is None:
            return read_hub(self.hub, self.hub.splits[published], f"'{self.name}'", self.fields)
        if isinstance(data, Mapping):
            if published not in data:
                known = f"data: {{{self.name}: {{{published}: FILE}}}}"
                raise UserError(f"'{self.name}' needs its {published} rows; name their file with {known}")
            return read_file(data[published], f"'{self.name}'", self.fields)
        rows = read_file(data, f"'{self.name}'", self.fields)
        if self.sort is not None:
            rows = [(place, row) for place, row in rows if self.sort(row) == published]
            if not rows:
                raise UserError(f"{data}: no {published} rows of '{self.name}' in it")
        elif published != "test":
            hint = f"data: {{{self.name}: {{test: {data}, {published}: FILE}}}}"
            raise UserError(
                f"'{self.name}' needs its {published} rows, and a single file is its test split; write {hint}"
            )
        return rows


def unique(samples: Sequence[tuple[Place, Sample]]) -> list[Sample]:
    """The samples, if no two have the same id; raises UserError that names the places of two that have."""
    seen: dict[str, Place] = {}
    for place, sample in samples:
        if sample.id in seen:
            raise UserError(f"{place}: the same id as at {seen[sample.id]}: '{sample.id}'")
        seen[sample.id] = place
    return [sample for _, sample in samples]
