"""Drawing primitives: each returns one small SVG element, to be laid out side by side or in a column.

They fit a phone's width and have no colours of their own (`style.themed`), no fonts, no dates and no links.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from pipeline.report.style import INK, RULE, Style, themed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 3.5, 2.5  # inches of 72 units; the page scales them


@dataclass(frozen=True)
class Series:
    """A line: x, y and, where known, the half-length of an error bar (in the unit of y)."""

    style: Style
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float | None] = field(default=())


def lines(
    name: str,
    series: list[Series],
    x_label: str,
    y_label: str,
    *,
    reference: float | None = None,
    x_ticks: Sequence[float] | None = None,
    from_zero: bool = True,
) -> str:
    """Lines with markers and error bars; `reference` is a dashed horizontal line.

    With a single `x_ticks` there are no lines, and the points are put side by side above it.
    """
    drawn = series
    if x_ticks is not None and len(x_ticks) == 1:
        places = [0.12 * (index - (len(series) - 1) / 2) for index in range(len(series))]
        drawn = [replace(one, x=[place] * len(one.x)) for one, place in zip(series, places, strict=True)]

    def draw(axes: Axes) -> None:
        if reference is not None:
            axes.axhline(reference, color=INK, linewidth=1, linestyle=(0, (4, 3)), alpha=0.6)
        for one in drawn:
            axes.plot(
                one.x,
                one.y,
                color=one.style.light,
                linestyle=one.style.dash,
                marker=one.style.marker,
                markersize=5.5,
                linewidth=1.8,
            )
            bars = [(x, y, e) for x, y, e in zip(one.x, one.y, one.error, strict=False) if e]
            if bars:
                x, y, error = zip(*bars, strict=True)
                axes.errorbar(x, y, yerr=error, fmt="none", ecolor=one.style.light, elinewidth=1, capsize=2.5)
        if x_ticks is not None:
            places = x_ticks if len(x_ticks) > 1 else [0]
            axes.set_xticks(list(places), [f"{tick:g}" for tick in x_ticks])
        if drawn is not series:
            axes.set_xlim(-0.6, 0.6)
        if from_zero:
            highest = max(y + (e or 0) for one in drawn for y, e in zip_longest(one.y, one.error))
            axes.set_ylim(0, 1.08 * max(highest, reference or 0))
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.grid(axis="y", color=RULE, linewidth=0.8)

    return _panel(name, draw)


def stacked_bars(name: str, rows: list[tuple[str, dict[str, float]]], parts: dict[str, Style], x_label: str) -> str:
    """One horizontal bar a row, split into `parts`, the first part at the left."""

    def draw(axes: Axes) -> None:
        left = [0.0] * len(rows)
        for part, style in parts.items():
            widths = [values.get(part, 0.0) for _, values in rows]
            axes.barh(range(len(rows)), widths, left=left, height=0.68, color=style.light)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        axes.invert_yaxis()
        axes.set_xlabel(x_label)
        axes.set_xlim(left=0)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color=RULE, linewidth=0.8)

    return _panel(name, draw, height=0.75 + 0.2 * max(len(rows), 4))


def dots(name: str, rows: list[tuple[str, Style, Sequence[float]]], x_label: str) -> str:
    """One line of dots a row (a method), around a vertical line at zero."""

    def draw(axes: Axes) -> None:
        axes.axvline(0, color=INK, linewidth=1, alpha=0.6)
        for index, (_, style, values) in enumerate(rows):
            # Dots are spread by their order, not at random, so that the page is the same each time.
            spread = [index + 0.22 * ((k % 5) / 2 - 1) for k in range(len(values))]
            axes.plot(
                values,
                spread,
                linestyle="none",
                marker=style.marker if style.marker != "_" else "|",
                color=style.light,
                markersize=5,
                alpha=0.75,
            )
        axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(x_label)
        limit = max([abs(value) for _, _, values in rows for value in values] + [0.5]) * 1.15
        axes.set_xlim(-limit, limit)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color=RULE, linewidth=0.8)

    return _panel(name, draw, height=0.75 + 0.3 * max(len(rows), 3))


_DASHES = {"-": "", "--": "5 3", "-.": "5 2 1 2", ":": "1.5 2.5"}
_MARKERS = {
    "o": '<circle cx="14" cy="5" r="3.4"/>',
    "s": '<rect x="10.8" y="1.8" width="6.4" height="6.4"/>',
    "D": '<path d="M14 .8 18.2 5 14 9.2 9.8 5Z"/>',
    "^": '<path d="M14 1.2 18 8.4H10Z"/>',
    "v": '<path d="M14 8.8 18 1.6H10Z"/>',
}


def sample(style: Style) -> str:
    """A piece of a line of this style, for a legend."""
    dash = f' stroke-dasharray="{_DASHES[style.dash]}"' if _DASHES[style.dash] else ""
    line = f'<path d="M0 5H28" stroke="{style.css}" stroke-width="2" fill="none"{dash}/>'
    drawn = f'<g fill="{style.css}">{line}{_MARKERS.get(style.marker, "")}</g>'
    return f'<svg class="sample" viewBox="0 0 28 10" aria-hidden="true">{drawn}</svg>'


def _panel(name: str, draw: Callable[[Axes], None], height: float = HEIGHT) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": RULE,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "figure.dpi": 72,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return themed(_inline(buffer.getvalue(), name))


def _inline(svg: str, name: str) -> str:
    """The <svg> element alone, without a fixed size, its ids prefixed by `name` (ids are unique within a page)."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(
        r'<svg[^>]*?viewBox="([^"]*)"[^>]*>',
        r'<svg viewBox="\1" role="img" aria-hidden="true">',
        svg,
        count=1,
        flags=re.S,
    )
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-")
    # xlink is not declared within HTML; a plain href does the same there
    return re.sub(r'xlink:href="#', f'href="#{name}-', svg)
