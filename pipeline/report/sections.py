"""Sections of the page for tables and figures of the papers: all of them are made of rows of a view in one way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.report import plots
from pipeline.report.data import ITEMS, Row
from pipeline.report.figures import Figure, Key, Panel, line_key, ticks
from pipeline.report.items import Bars, Column, Item, Lines
from pipeline.report.numbers import MISSING, number, percent, signed, spread
from pipeline.report.shape import CONTROL, counts
from pipeline.report.style import DEEP, Style, assign_styles, method_rank

# Columns that split the rows of an item into tables, where its rows or columns do not show them.
SETTINGS = {
    "temperature": "T =",
    "target": "",
    "task": "",
    "generation_length": "length",
    "block_length": "block",
    "stop": "stop",
    "commit_rule": "commit rule",
    "cache": "cache",
    "layout": "layout",
    "split": "split",
    "device_class": "on",
    "n_samples": "samples:",
    "budget": "D =",
}
DIGITS = {"one": 1, "two": 2, "three": 3, "four": 4}
FORMS: dict[str, Callable[[Any], str]] = {
    **{name: lambda value, digits=digits: number(value, digits) for name, digits in DIGITS.items()},
    "times": lambda value: number(value, 2, "×"),
    "percent": percent,
    "signed": signed,
    "points": lambda value: MISSING if value is None else f"{signed(100 * value)} points",
    "signed_two": lambda value: signed(value, 2),
    "count": lambda value: MISSING if value is None else str(value),
    "figure": lambda value: MISSING if value is None else f"{value:.4g}".replace("-", "−"),
    "short": lambda value: MISSING if value is None else f"{value:g}",
    "flag": lambda value: MISSING if value is None else "yes" if value else "no",
    "list": lambda value: ", ".join(map(str, value or [])) or MISSING,
    "text": lambda value: MISSING if value is None else str(value),
    "method": str,
}
NUMBERS = ("count", "short", *DIGITS)  # forms that sort by value
LEFT = ("text", "method", "flag", "list")  # forms that read from the left
PALETTE = ("spot", "spiffy", "tree", "chain", "control")  # colours of lines that are no methods


@dataclass(frozen=True)
class Cell:
    """One cell: its text, spread and classes; `color` marks a method."""

    text: str
    spread: str = ""
    classes: str = ""
    color: str = ""
    best: bool = False


@dataclass(frozen=True)
class Pane:
    """One table of a section: `groups` is the upper head row (title and width), empty where there is one head row."""

    title: str
    groups: list[tuple[str, int]]
    lead: list[Column]
    head: list[Column]
    body: list[list[Cell]]
    note: str


@dataclass(frozen=True)
class Section:
    """An item with the rows of one experiment."""

    name: str
    item: Item
    figures: list[Figure]
    panes: list[Pane]

    @property
    def heading(self) -> str:
        """`Table 2: Main comparison`; the bare title for items of no paper."""
        return f"{self.item.labels[0]}: {self.item.title}" if self.item.labels else self.item.title

    @property
    def also(self) -> str:
        """The other items of the paper that have the same shape."""
        return ", ".join(self.item.labels[1:])


def build_sections(found: Mapping[Item, list[Row]]) -> list[Section]:
    """A section for every item that has rows, in the order of the registry."""
    sections = [_section(item, found[item]) for item in ITEMS if found.get(item)]
    return [section for section in sections if section.panes]


def not_measured(found: Mapping[Item, list[Row]]) -> dict[str, list[str]]:
    """Per paper that anything was measured of: its items without rows."""
    begun = {item.paper for item in ITEMS if found.get(item)} - {""}
    missing: dict[str, list[str]] = {}
    for item in ITEMS:
        if item.paper in begun and not found.get(item):
            missing.setdefault(item.paper, []).extend(item.labels)
    return missing


def anchor(item: Item) -> str:
    """The id of the item's section, unique on the page: `paper-` and its view."""
    return f"paper-{item.view.replace('_', '-')}"


def _section(item: Item, rows: list[Row]) -> Section:
    rows = [row for row in rows if any(_measured(column, row) for column in item.values)]
    shown = {column.name for column in (*item.keys, *item.values)} | {item.across, "budget"}
    panes = [_pane(item, title, group) for title, group in _settings(rows, set(SETTINGS) - shown)]
    figures = [_figure(item, plot, index, rows) for index, plot in enumerate(item.plots)]
    return Section(anchor(item), item, [figure for figure in figures if figure], panes)


def _settings(rows: list[Row], columns: Iterable[str]) -> list[tuple[str, list[Row]]]:
    """Rows by the values of those `columns` that they have and differ in, titled by these, in order of appearance."""
    names = [name for name in SETTINGS if rows and name in columns and name in rows[0]]
    varying = [name for name in names if len({row[name] for row in rows}) > 1]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in varying), []).append(row)

    def title(key: tuple[Any, ...]) -> str:
        values = [MISSING if v is None else f"{v:g}" if isinstance(v, float) else str(v) for v in key]
        return ", ".join(f"{SETTINGS[name]} {value}".strip() for name, value in zip(varying, values, strict=True))

    return [(title(key), group) for key, group in groups.items()]


def _pane(item: Item, title: str, rows: list[Row]) -> Pane:
    fixed = [key for key in item.keys if len(rows) > 1 and len({_plain(row[key.name]) for row in rows}) == 1]
    lead = [key for key in item.keys if key not in fixed or key.form == "method"]
    fixed = [key for key in fixed if key not in lead]
    lines: dict[tuple[Any, ...], dict[Any, Row]] = {}
    for row in _ordered(rows, lead):
        key = tuple(_plain(row[column.name]) for column in lead)
        lines.setdefault(key, {})[row[item.across] if item.across else None] = row
    across = sorted({place for line in lines.values() for place in line}) if item.across else [None]
    values = [column for column in item.values if any(_measured(column, row) for row in rows)]
    body = []
    for line in lines.values():
        cells = [_cell(column, next(iter(line.values()))) for column in lead]
        for place in across:
            entries = [_cell(column, line.get(place)) for column in values]
            first = replace(entries[0], classes=f"{entries[0].classes} first".strip()) if entries else None
            cells += [first, *entries[1:]] if first else []
        body.append(cells)
    groups = [(f"{place}", len(values)) for place in across] if item.across and values else []
    return Pane(title, groups, lead, values * len(across), body, _note(rows, fixed))


def _ordered(rows: list[Row], lead: list[Column]) -> list[Row]:
    """In the order of the leading columns: methods as in all tables, numbers by size, other values as in the view."""
    places: dict[str, dict[Any, int]] = {}
    for column in lead:
        values = dict.fromkeys(_plain(row[column.name]) for row in rows)
        if column.form == "method":
            values = sorted(values, key=method_rank)
        elif column.form in NUMBERS:
            values = sorted(values, key=lambda value: (value is not None, value))
        places[column.name] = {value: place for place, value in enumerate(values)}
    return sorted(rows, key=lambda row: [place[_plain(row[name])] for name, place in places.items()])


def _note(rows: list[Row], fixed: list[Column]) -> str:
    """How many samples and seeds are behind the table, and the columns that are the same in all its rows."""
    parts = []
    for name, noun in (("n_samples", "sample"), ("n_seeds", "seed")):
        if present := [row[name] for row in rows if row.get(name) is not None]:
            parts.append(counts(present, noun))
    told = [column for column in fixed if rows[0][column.name] is not None]
    parts += [f"{column.title} {FORMS[column.form](rows[0][column.name])}" for column in told]
    return ", ".join(parts)


def _measured(column: Column, row: Row) -> bool:
    """Whether the row has a value or a range there."""
    return any(name and row[name] is not None for name in (column.name, column.low, column.high))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _cell(column: Column, row: Row | None) -> Cell:
    classes = "name" if column.form in LEFT else ""
    if row is None:
        return Cell(MISSING, classes=classes)
    value = row[column.name]
    deviation = spread(row[column.std], DIGITS.get(column.form, 2)) if column.std and value is not None else ""
    text = FORMS[column.form](value)
    if column.low and row[column.low] != row[column.high]:
        low, high = (FORMS[column.form](row[name]) for name in (column.low, column.high))
        bounds = f"≤ {high}" if low == MISSING else f"≥ {low}" if high == MISSING else f"{low} to {high}"
        text, deviation = (bounds, "") if value is None else (text, f" {bounds}")
    color = assign_styles([value])[value].css if column.form == "method" else ""
    return Cell(text, deviation, classes, color, bool(column.best and row[column.best]))


def _figure(item: Item, plot: Lines | Bars, index: int, rows: list[Row]) -> Figure | None:
    name = f"{anchor(item)}-{index}"
    panels, legend = _bars(name, plot, rows) if isinstance(plot, Bars) else _lines(name, item, plot, rows)
    return Figure(name, plot.title, panels, legend, "") if panels else None


def _bars(name: str, plot: Bars, rows: list[Row]) -> tuple[list[Panel], list[Key]]:
    panels = []
    for index, (title, group) in enumerate(_settings(rows, set(SETTINGS) - {"budget"})):
        bars = [(str(row[plot.label]), {plot.value: row[plot.value]}) for row in group if row[plot.value] is not None]
        if bars:
            panels.append(Panel(title, plots.stacked_bars(f"{name}-{index}", bars, {plot.value: DEEP}, plot.x_label)))
    return panels, []


def _lines(name: str, item: Item, plot: Lines, rows: list[Row]) -> tuple[list[Panel], list[Key]]:
    rows = [row for row in rows if row[plot.x] is not None and plot.method in ("", row.get("method", ""))]
    rows = [row for row in rows if any(row[y] is not None for y in plot.y)]
    if len(plot.y) == 1 and not plot.method:
        methods = sorted({row["method"] for row in rows}, key=method_rank)
        styles = {(method, next(iter(plot.y))): style for method, style in assign_styles(methods).items()}
        legend = [line_key(method, style) for (method, _), style in styles.items()]
    else:
        styles = {("", y): assign_styles([method])[method] for y, method in zip(plot.y, PALETTE, strict=False)}
        legend = [line_key(label, styles["", y]) for y, label in plot.y.items()]
    panels = []
    for index, (title, group) in enumerate(_settings(rows, set(SETTINGS) - {plot.x, "budget"} | set(plot.panels))):
        series = [
            line
            for (method, y), style in styles.items()
            for line in _series([row for row in group if method in ("", row.get("method", ""))], item, plot.x, y, style)
        ]
        places = None if plot.diagonal else ticks(series)
        if plot.diagonal:
            control = assign_styles([CONTROL])[CONTROL]
            series.append(plots.Series(replace(control, marker=""), [0, 1], [0, 1]))
        svg = plots.lines(
            f"{name}-{index}", series, plot.x_label, plot.y_label, reference=plot.reference, x_ticks=places
        )
        panels.append(Panel(title, svg))
    return panels, legend


def _series(rows: list[Row], item: Item, x: str, y: str, style: Style) -> list[plots.Series]:
    """A line per combination of the item's other keys, where a method was measured in several ways."""
    groups: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    others = [column.name for column in item.keys if column.name not in (x, "budget", "mass_low", "mass_high")]
    for row in rows:
        if row[y] is not None:
            groups.setdefault(tuple(_plain(row[name]) for name in others), []).append((row[x], row[y]))
    lines = [sorted(group) for group in groups.values()]
    return [plots.Series(style, [x for x, _ in line], [y for _, y in line]) for line in lines]
