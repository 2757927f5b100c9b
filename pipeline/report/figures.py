"""The figures of the report: which rows become which panels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.report import plots
from pipeline.report.captions import TEXTS
from pipeline.report.data import Artifact, ReportData, Row
from pipeline.report.shape import CONTROL, in_setting, label_key, labels, setting_key, settings_of
from pipeline.report.style import DEEP, PALE, TEAL, Style, assign_styles, method_rank

Styles = Mapping[str, Style]


@dataclass(frozen=True)
class Key:
    """One entry of a figure's legend: a colour (CSS) or, for lines, a small SVG `sample` of the line."""

    label: str
    color: str
    sample: str = ""


@dataclass(frozen=True)
class Panel:
    """One plot of a figure: a title and an SVG element."""

    title: str
    svg: str


@dataclass(frozen=True)
class Figure:
    """A figure: its panels, legend and caption; `name` is unique on the page."""

    name: str
    title: str
    panels: list[Panel]
    legend: list[Key]
    caption: str


def build_figures(data: ReportData) -> dict[str, Figure]:
    """Every figure that the data allows, by name; a figure without data is left out."""
    styles = assign_styles(sorted({row["method"] for row in data.cells}))
    made = [
        _nfe(data, styles),
        _ratio(data, styles),
        _bought(data, styles),
        _by_block(data, styles),
        _answer_cut(data),
        _timing(data),
        _seed_spread(data, styles),
        *[_learning(curve, index, len(data.curves)) for index, curve in enumerate(data.curves)],
    ]
    return {figure.name: figure for figure in made if figure is not None}


def _figure(name: str, panels: list[Panel], legend: list[Key], suffix: str = "", **values: Any) -> Figure | None:
    if not panels:
        return None
    title, caption = TEXTS[name]
    return Figure(name + suffix, title, panels, legend, caption.format(**values))


def _nfe(data: ReportData, styles: Styles) -> Figure | None:
    panels = []
    for number, title, rows in _panels(data.cells):
        series = _series(_drafted(rows), styles, "budget", "nfe", "nfe_std")
        control = [row["nfe"] for row in rows if row["method"] == CONTROL and row["nfe"] is not None]
        if series:
            title += f" (control {control[0]:.1f})" if control else ""
            svg = plots.lines(f"nfe-{number}", series, "budget D", "NFE per sample", x_ticks=ticks(series))
            panels.append(Panel(title, svg))
    return _figure("nfe", panels, _legend(data.cells, styles))


def _ratio(data: ReportData, styles: Styles) -> Figure | None:
    panels = []
    for number, title, rows in _panels(data.cells):
        if series := _series(_drafted(rows), styles, "budget", "ratio", "ratio_std"):
            svg = plots.lines(
                f"ratio-{number}", series, "budget D", "throughput ratio", reference=1.0, x_ticks=ticks(series)
            )
            panels.append(Panel(title, svg))
    return _figure("ratio", panels, _legend(data.cells, styles))


def _bought(data: ReportData, styles: Styles) -> Figure | None:
    panels = []
    pooled = _over_blocks(data.acceptance)
    for number, title, rows in _panels(pooled):
        series = _series(rows, styles, "drafted_per_round", "accepted_per_round")
        svg = plots.lines(f"bought-{number}", series, "drafts verified per round", "drafts accepted per round")
        panels.append(Panel(title, svg))
    return _figure("bought", panels, _legend(pooled, styles))


def _by_block(data: ReportData, styles: Styles) -> Figure | None:
    budget = _common_budget(data.acceptance)
    panels = []
    chosen = [row for row in data.acceptance if row["budget"] == budget]
    for number, title, rows in _panels(chosen):
        series = _series(rows, styles, "block", "accepted_per_round")
        svg = plots.lines(f"block-{number}", series, "block", "drafts accepted per round", x_ticks=ticks(series))
        panels.append(Panel(title, svg))
    return _figure("block", panels, _legend(chosen, styles), budget=budget)


def _answer_cut(data: ReportData) -> Figure | None:
    parts = {"nfe_answer": DEEP, "nfe_after": PALE}
    panels = []
    for number, title, rows in _panels([row for row in data.cells if row["nfe_after"] is not None]):
        panels.append(Panel(title, plots.stacked_bars(f"answer-{number}", _bars(rows), parts, "NFE per sample")))
    return _figure("answer", panels, [Key("up to the first stop id", DEEP.css), Key("after it (filler)", PALE.css)])


def _timing(data: ReportData) -> Figure | None:
    parts = {"forward_ms": DEEP, "draft_ms": TEAL, "other_ms": PALE}
    panels = []
    for number, title, rows in _panels([row for row in data.timing if row["other_ms"] is not None]):
        panels.append(
            Panel(title, plots.stacked_bars(f"timing-{number}", _bars(rows), parts, "ms per generated token"))
        )
    legend = [Key("target forward", DEEP.css), Key("drafting", TEAL.css), Key("rest of the loop", PALE.css)]
    return _figure("timing", panels, legend)


def _seed_spread(data: ReportData, styles: Styles) -> Figure | None:
    drafted = _drafted(data.paired)
    panels = []
    for title, name, deviations in (
        ("NFE per sample, T > 0", "seed-nfe", _deviations([row for row in drafted if row["temperature"] > 0], "nfe")),
        ("throughput ratio", "seed-ratio", _deviations(drafted, "throughput_ratio")),
    ):
        rows = [(method, styles[method], deviations[method]) for method in sorted(deviations, key=method_rank)]
        if rows:
            panels.append(Panel(title, plots.dots(name, rows, "% away from the mean of its cell")))
    return _figure("seeds", panels, _legend(drafted, styles))


def _deviations(runs: list[Row], column: str) -> dict[str, list[float]]:
    """Per method, how many per cent each run is away from the mean over the seeds of its cell."""
    found: dict[str, list[float]] = defaultdict(list)
    for group in _cells([row for row in runs if row[column]]):
        mean = sum(row[column] for row in group) / len(group)
        if len(group) > 1:
            found[group[0]["method"]] += [100 * (row[column] / mean - 1) for row in group]
    return found


def _learning(curve: Artifact, index: int, of: int) -> Figure | None:
    epochs = [row for row in curve.content if row.get("accuracy") is not None]
    if not epochs:
        return None
    model, stale = (assign_styles([name])[name] for name in ("spot", CONTROL))
    suffix = f"-{index}" if index else ""

    def over_epochs(key: str, style: Style, factor: float = 1) -> plots.Series:
        points = [(row["epoch"], factor * row[key]) for row in epochs if row.get(key) is not None]
        return plots.Series(style, [x for x, _ in points], [y for _, y in points])

    def over_depths(key: str, style: Style) -> plots.Series:
        points = [(depth, 100 * value) for depth, value in enumerate(epochs[-1][key]) if value is not None]
        return plots.Series(style, [x for x, _ in points], [y for _, y in points])

    accuracy = [over_epochs("accuracy", model, 100), over_epochs("baseline", stale, 100)]
    depths = [over_depths("accuracy_by_depth", model), over_depths("baseline_by_depth", stale)]
    losses = [over_epochs("loss", stale), over_epochs("held_out_loss", model)]
    panels = [
        Panel(title, plots.lines(f"learn-{name}{suffix}", series, x_label, y_label, from_zero=False))
        for title, name, series, x_label, y_label in (
            ("Held-out next-commit accuracy", "epoch", accuracy, "epoch", "accuracy, %"),
            ("By depth, after the last epoch", "depth", depths, "commits already drafted", "accuracy, %"),
            ("Loss (dashed: training)", "loss", losses, "epoch", "nats per commit"),
        )
    ]
    legend = [line_key("order model", model), line_key("stale confidence (baseline)", stale)]
    figure = _figure("learning", panels, legend, suffix)
    return replace(figure, title=f"{figure.title}: {curve.name('train')}") if of > 1 else figure


def _panels(rows: list[Row]) -> Iterable[tuple[int, str, list[Row]]]:
    """One panel per setting and task that has rows: number, title, rows."""
    settings = settings_of(rows)
    places = [
        (setting, task) for setting in settings for task in sorted({row["task"] for row in in_setting(rows, setting)})
    ]
    for number, (setting, task) in enumerate(places):
        yield number, f"{task}, {setting.title}", in_setting(rows, setting, task)


def _series(rows: list[Row], styles: Styles, x: str, y: str, error: str | None = None) -> list[plots.Series]:
    """A line per label, along x."""
    grouped: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row[y] is not None and row[x] is not None:
            grouped[label_key(row)].append(row)
    made = []
    for key in sorted(grouped, key=lambda key: (method_rank(key[0]), str(key))):
        group = sorted(grouped[key], key=lambda row: row[x])
        errors = [row[error] for row in group] if error else []
        made.append(plots.Series(styles[key[0]], [row[x] for row in group], [row[y] for row in group], errors))
    return made


def _bars(rows: list[Row]) -> list[tuple[str, Row]]:
    """Rows of a bar chart with their labels in reading order: the control first, then by method, label and budget."""
    names = labels(rows)
    ordered = sorted(rows, key=lambda row: (method_rank(row["method"]), names[label_key(row)], row["budget"]))
    return [(names[label_key(row)] + (f" D{row['budget']}" if row["budget"] else ""), row) for row in ordered]


def _cells(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows grouped by the cell they belong to."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[(*setting_key(row), row["task"], row["budget"], label_key(row))].append(row)
    return list(groups.values())


def _over_blocks(rows: list[Row]) -> list[Row]:
    """Rows by block, pooled into one per cell: means weighted by the rounds behind them."""
    pooled = []
    for group in _cells(rows):
        rounds = sum(row["drafted_rounds"] for row in group)
        means = {
            name: sum(row[name] * row["drafted_rounds"] for row in group) / rounds
            for name in ("drafted_per_round", "accepted_per_round")
        }
        pooled.append({**group[0], **means})
    return pooled


def _common_budget(rows: list[Row]) -> int | None:
    """The budget that most methods were measured at; the smallest of several."""
    methods: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        methods[row["budget"]].add(row["method"])
    return min(methods, key=lambda budget: (-len(methods[budget]), budget), default=None)


def ticks(series: list[plots.Series]) -> list[float]:
    """The x values that occur, thinned to at most nine."""
    values = sorted({x for one in series for x in one.x})
    return values[:: max(1, -(-len(values) // 9))]


def _drafted(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["method"] != CONTROL]


def _legend(rows: Iterable[Row], styles: Styles) -> list[Key]:
    methods = sorted({row["method"] for row in rows} - {CONTROL}, key=method_rank)
    return [line_key(method, styles[method]) for method in methods]


def line_key(label: str, style: Style) -> Key:
    return Key(label, style.css, plots.sample(style))
