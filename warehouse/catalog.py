"""What the warehouse offers to SQL: tables and views with the comments of their .sql files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

# In order of creation: a view may use those before it.
VIEWS = (
    "runs", "nodes", "t_quantiles", "run_rounds", "run_blocks", "controls", "paired", "unpaired", "outliers", "drift",
    "audit", "selected", "cells", "main_table", "comparisons", "acceptance_by_block", "timing_split",
    "rejection_checks", "stale_order_by_block", "stale_coverage", "first_rejections", "acceptance_calibration",
    "temperature_sweep", "stopping", "control_drift", "ratio_intervals", "drafters", "method_cells", "spot_table_02",
    "spot_table_21", "spot_table_01", "spot_table_03", "spot_table_04", "spot_table_05", "spot_table_06",
    "spot_table_07", "spot_table_15", "spot_table_16", "spot_table_17", "spot_table_20", "spot_table_22",
    "spot_figure_2a", "spot_figure_2b", "spot_figure_3", "spot_figure_4", "spot_figure_5a", "spot_figure_5b",
    "capacity_probe", "noise_aware_spiffy", "trajectory_metrics", "trajectory_table_02", "trajectory_table_04",
    "trajectory_table_05", "trajectory_figure_5", "trajectory_table_10", "trajectory_table_11", "measured_quantities",
    "scoreboard",
)  # fmt: skip


@dataclass(frozen=True)
class TableDocument:
    """`kind` is "table" or "view", `columns` maps each column to its meaning, `rows` may be unknown."""

    name: str
    kind: str
    summary: str
    columns: dict[str, str]
    rows: int | None = None


def documents() -> list[TableDocument]:
    """Every view and table with its documentation, views first."""
    found = [*(_document(name, "view", view_sql(name)) for name in VIEWS), *table_documents()]
    return list({document.name: document for document in found}.values())


def view_sql(name: str) -> str:
    """The file that defines view `name`."""
    return (files("warehouse") / "views" / f"{name}.sql").read_text("utf-8")


def table_documents() -> list[TableDocument]:
    """The base tables, documented by the schema files; a later file may add columns to an earlier table."""
    entries = sorted((files("warehouse") / "schema").iterdir(), key=lambda entry: entry.name)
    texts = [entry.read_text("utf-8") for entry in entries if entry.name.endswith(".sql")]
    headers = dict.fromkeys(re.findall(r"^-- (\w+): ", "\n".join(texts), re.M))
    return [_document(name, "table", "\n".join(texts)) for name in headers if name != "view_state"]


def _document(name: str, kind: str, text: str) -> TableDocument:
    """Parse `-- name: summary` and the indented `--   column   meaning` lines below it, continued lines included.

    A second header of the same name adds columns.
    """
    headers = re.findall(rf"^-- {name}: ((?:.|\n)*?)\n(?!--)", text, re.M)
    summary: list[str] = []
    columns: dict[str, str] = {}
    current = None
    for line in "\n".join(headers[:1] + [header.partition("\n")[2] for header in headers[1:]]).splitlines():
        body = line.removeprefix("--")
        if match := re.match(r"   (\w+(?:, \w+)*) {2,}(\S.*)", body):
            names = match[1].split(", ")
            columns |= dict.fromkeys(names, match[2])
            current = names
        elif current and body.startswith("    "):
            columns |= {column: f"{columns[column]} {body.strip()}" for column in current}
        elif not current:
            summary.append(body.strip())
    return TableDocument(name, kind, " ".join(summary), columns)
