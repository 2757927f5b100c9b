"""Groups rows of the warehouse into what a page shows: settings, labels, the main table with its best values marked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pipeline.report.data import Row
from pipeline.report.style import method_rank

SETTING = (
    "temperature",
    "target",
    "stop",
    "generation_length",
    "block_length",
    "commit_rule",
    "cache",
    "layout",
    "device_class",
    "split",
)
OPTIONS = ("verifier", "floor", "padded")  # told apart in a label only where a method has more than one
CONTROL = "control"
MARKS = {
    "†": "not distribution-preserving and other tokens than its control, so its NFE is not comparable",
    "‡": "not distribution-preserving, but with the tokens of the control of the same cache and commit rule: its NFE "
    "is comparable with that control's",
}


@dataclass(frozen=True)
class Setting:
    """Everything that is the same for all methods of one table, its task aside."""

    key: tuple[Any, ...]
    title: str


@dataclass(frozen=True)
class Entry:
    """One cell of the grid in the main table; ranks are 1 (best), 2 (second) or None."""

    row: Row
    nfe_rank: int | None = None
    ratio_rank: int | None = None

    @property
    def ratio_std(self) -> float | None:
        """Spread of the ratio over seeds; None for the control, whose ratio to itself is 1 by definition."""
        return None if self.row["method"] == CONTROL else self.row["ratio_std"]


@dataclass(frozen=True)
class Line:
    """One line of the main table: a method at a budget, with an entry per task (missing where not measured)."""

    method: str
    label: str
    budget: int
    entries: dict[str, Entry]

    @property
    def mark(self) -> str:
        """A key of MARKS where a run of this line does not keep the target's distribution, else nothing."""
        inexact = [entry.row for entry in self.entries.values() if entry.row["distribution_preserving"] is False]
        if not inexact:
            return ""
        # An approximate cache or a commit rule of several positions makes the control inexact as well.
        shared = all(row["method"] == CONTROL or row["tokens_match_min"] == 1 for row in inexact)
        return "‡" if shared else "†"


@dataclass(frozen=True)
class MainTable:
    """The counterpart of one block of SPOT's Table 2: one setting, one column per task, lines grouped by budget."""

    setting: Setting
    tasks: list[str]
    accuracy: dict[str, tuple[float, float] | None]
    lines: list[Line]

    @property
    def marks(self) -> dict[str, str]:
        """The marks that its lines carry, explained."""
        carried = {line.mark for line in self.lines}
        return {mark: text for mark, text in MARKS.items() if mark in carried}

    @property
    def seeds(self) -> str:
        return counts((entry.row["n_seeds"] for line in self.lines for entry in line.entries.values()), "seed")

    @property
    def samples(self) -> str:
        return counts((entry.row["n_samples"] for line in self.lines for entry in line.entries.values()), "sample")


def counts(numbers: Iterable[int], noun: str) -> str:
    low, high = min(found := list(numbers)), max(found)
    return f"{low}–{high} {noun}s" if low != high else f"{high} {noun}{'' if high == 1 else 's'}"


def settings_of(rows: Iterable[Row]) -> list[Setting]:
    """The distinct settings, titled by the temperature and by whatever else differs between them."""
    keys = sorted(
        {setting_key(row) for row in rows},
        key=lambda key: tuple((value is None, str(type(value)), value) for value in key),
    )
    varying = [index for index in range(1, len(SETTING)) if len({key[index] for key in keys}) > 1]
    names = {"generation_length": "length", "block_length": "block"}

    def title(key: tuple[Any, ...]) -> str:
        parts = [f"T = {key[0]:g}"]
        parts += [f"{names.get(SETTING[index], SETTING[index].replace('_', ' '))} {key[index]}" for index in varying]
        return ", ".join(parts)

    return [Setting(key, title(key)) for key in keys]


def setting_key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in SETTING)


def in_setting(rows: Iterable[Row], setting: Setting, task: str | None = None) -> list[Row]:
    """Rows of the setting, and of the task if one is named."""
    return [row for row in rows if setting_key(row) == setting.key and (task is None or row["task"] == task)]


def labels(rows: list[Row]) -> dict[tuple[Any, ...], str]:
    """Label per (method, verifier, floor, padded): the method, plus those options that it has more than one of."""
    seen: dict[str, set[tuple[Any, ...]]] = defaultdict(set)
    for row in rows:
        seen[row["method"]].add(tuple(row[name] for name in OPTIONS))
    found = {}
    for method, options in seen.items():
        varying = [index for index in range(len(OPTIONS)) if len({option[index] for option in options}) > 1]
        for option in options:
            found[method, *option] = " ".join([method, *(_option(OPTIONS[index], option[index]) for index in varying)])
    return found


def label_key(row: Row) -> tuple[Any, ...]:
    return (row["method"], *(row[name] for name in OPTIONS))


def _option(name: str, value: Any) -> str:
    if name == "padded":
        return "padded" if value else "unpadded"
    if name == "floor":
        return "γ = calibrated" if value is None else f"γ = {value:g}"
    return str(value)


def main_tables(cells: list[Row]) -> list[MainTable]:
    """One table per setting; within each task and budget the two best exact methods are ranked, the control apart."""
    return [_main_table(setting, in_setting(cells, setting)) for setting in settings_of(cells)]


def _main_table(setting: Setting, rows: list[Row]) -> MainTable:
    tasks = sorted({row["task"] for row in rows})
    names = labels(rows)
    nfe_ranks = _ranks(rows, "nfe", 1, largest=False)
    ratio_ranks = _ranks(rows, "ratio", 2, largest=True)
    lines: dict[tuple[Any, ...], Line] = {}
    for row in sorted(rows, key=lambda row: (row["budget"], method_rank(row["method"]), names[label_key(row)])):
        key = (row["budget"], label_key(row))
        line = lines.setdefault(key, Line(row["method"], names[label_key(row)], row["budget"], {}))
        line.entries[row["task"]] = Entry(row, nfe_ranks.get(id(row)), ratio_ranks.get(id(row)))
    accuracy = {task: _span(row["accuracy"] for row in rows if row["task"] == task) for task in tasks}
    return MainTable(setting, tasks, accuracy, list(lines.values()))


def _ranks(rows: list[Row], column: str, digits: int, *, largest: bool) -> dict[int, int]:
    """1 and 2 for the best and second value per task and budget, values that print alike ranking alike."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["method"] != CONTROL and row["distribution_preserving"] and row[column] is not None:
            groups[row["task"], row["budget"]].append(row)
    ranks = {}
    for group in groups.values():
        if len(group) < 2:
            continue
        values = sorted({round(row[column], digits) for row in group}, reverse=largest)
        for row in group:
            place = values.index(round(row[column], digits))
            if place < 2:
                ranks[id(row)] = place + 1
    return ranks


def _span(values: Iterable[float | None]) -> tuple[float, float] | None:
    present = [value for value in values if value is not None]
    return (min(present), max(present)) if present else None
