"""Rows as text: aligned columns for people, CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any

FORMATS = ("table", "csv", "json")


def render(columns: Sequence[str], rows: Sequence[Sequence[Any]], form: str) -> str:
    """The rows in one of FORMATS. JSON is a list of objects. NULL is empty in CSV and null in JSON, as is NaN there."""
    if form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_csv_cell(value) for value in row] for row in rows)
        return text.getvalue().rstrip("\n")
    if form == "json":
        objects = [{name: _plain(value) for name, value in zip(columns, row, strict=True)} for row in rows]
        return json.dumps(objects, indent=1, default=str, ensure_ascii=False)
    return aligned(
        columns,
        [[_text_cell(value) for value in row] for row in rows],
        [_is_number(rows, i) for i in range(len(columns))],
    )


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool] | None = None) -> str:
    """Columns two spaces apart under a header and a rule; `right` says which ones are flush right."""
    right = right or [False] * len(columns)
    widths = [max([len(name), *(len(row[index]) for row in rows)]) for index, name in enumerate(columns)]
    lines = [columns, ["-" * width for width in widths], *rows]
    shown = (
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        )
        for line in lines
    )
    return "\n".join(line.rstrip() for line in shown)


def _text_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.5g}" if abs(value) < 1e5 else f"{value:.0f}"
    return " ".join(_csv_cell(value).split())


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        return json.dumps(_plain(value), default=str, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _is_number(rows: Sequence[Sequence[Any]], index: int) -> bool:
    values = [row[index] for row in rows if row[index] is not None]
    return bool(values) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
