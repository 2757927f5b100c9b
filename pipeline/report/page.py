"""The HTML page: data, tables and figures put into the template."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.report.data import Artifact, ReportData, Row
from pipeline.report.figures import build_figures
from pipeline.report.findings import gaps, headlines
from pipeline.report.numbers import interval, moment, number, percent, signed, span, spread
from pipeline.report.sections import LEFT, build_sections, not_measured
from pipeline.report.shape import CONTROL, main_tables
from pipeline.report.style import assign_styles, css_variables, method_rank

TEMPLATES = Path(__file__).parent / "templates"
FACTS = (
    "target",
    "task",
    "method",
    "budget",
    "temperature",
    "verifier",
    "stop",
    "generation_length",
    "block_length",
    "device_class",
)


def file_name(experiment: str) -> str:
    """<experiment>.html; a name that is no safe file name is reduced to safe letters and told apart by a digest."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}", experiment):
        return f"{experiment}.html"
    letters = re.sub(r"[^A-Za-z0-9_-]+", "-", experiment)[:100].strip("-") or "experiment"
    return f"{letters}-{hashlib.sha256(experiment.encode()).hexdigest()[:8]}.html"


def render(data: ReportData) -> str:
    """The page as text. All values are escaped; only the SVG of our own figures is inserted as it is."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "number": number,
        "percent": percent,
        "signed": signed,
        "interval": interval,
        "span": span,
        "moment": moment,
    }
    environment.filters |= {"spread": spread, "mark": lambda rank: {1: "best", 2: "second"}.get(rank, "")}
    environment.globals["left"] = LEFT
    environment.globals["css_variables"] = css_variables
    figures = build_figures(data)
    methods = [row["method"] for rows in (data.cells, data.exactness, data.comparisons, data.archived) for row in rows]
    return environment.get_template("page.html.j2").render(
        name=data.experiment["name"],
        data=data,
        facts=_facts(data),
        versions=_versions(data.experiment["versions"]),
        gaps=gaps(data),
        headlines=headlines(data),
        tables=main_tables(data.cells),
        figures=figures,
        learning=[name for name in figures if name.startswith("learning")],
        comparisons=_one_direction(data.comparisons),
        cuts=_cuts(data.cells),
        exactness=sorted(
            data.exactness,
            key=lambda row: (row["target"], row["temperature"], method_rank(row["method"]), row["verifier"]),
        ),
        control_share=_control_share(data.timing),
        sections=build_sections(data.items),
        not_measured=not_measured(data.items),
        floors=[_floor(artifact) for artifact in data.floors],
        styles=assign_styles(methods),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
    )


def _facts(data: ReportData) -> list[tuple[str, str]]:
    """What was run, from the runs themselves; settings in the order of FACTS, each with its distinct values."""
    names = {
        "task": "tasks",
        "method": "methods",
        "budget": "budgets D",
        "temperature": "temperatures",
        "verifier": "verifiers",
        "generation_length": "generation length",
        "block_length": "block length",
        "device_class": "device",
    }
    facts = []
    for column in FACTS:
        values = {row[column] for row in data.cells if row[column] is not None}
        if column in ("budget", "verifier"):
            values -= {0, "none"}
        key = method_rank if column == "method" else None
        if values:
            facts.append(
                (
                    names.get(column, column),
                    ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in sorted(values, key=key)),
                )
            )
    seeds = sorted({row["seed"] for row in data.paired})
    counts = sorted({row["n_samples"] for row in data.cells})
    if seeds:
        facts += [
            ("seeds", ", ".join(map(str, seeds))),
            ("samples per run", ", ".join(map(str, counts))),
            ("runs", str(len(data.paired))),
        ]
    done = sum(row["state"] == "done" for row in data.nodes)
    if data.nodes:
        facts.append(("nodes done", f"{done} of {len(data.nodes)}"))
    experiment = data.experiment
    commit = experiment["git_commit"]
    facts.append(("submitted (UTC)", moment(experiment["submitted_at"])))
    if commit:
        facts.append(("commit", commit[:12] + (" with local changes" if commit.endswith("+dirty") else "")))
    facts.append(("command", experiment["command"] or ""))
    return facts


def _versions(text: str | None) -> str:
    try:
        versions = json.loads(text or "{}")
    except ValueError:
        return text or ""
    return (
        "\n".join(f"{name} {version}" for name, version in sorted(versions.items()))
        if isinstance(versions, Mapping)
        else str(text)
    )


def _one_direction(rows: list[Row]) -> list[Row]:
    """Each pair of methods once, the one that comes first in every table judged against the other."""
    ordered = [row for row in rows if method_rank(row["method"]) < method_rank(row["other"])]
    return sorted(ordered, key=lambda row: (method_rank(row["method"]), method_rank(row["other"])))


def _cuts(cells: list[Row]) -> list[Row]:
    rows = [
        row
        for row in cells
        if row["method"] != CONTROL and row["cut_answer"] is not None and row["cut_after"] is not None
    ]
    return sorted(rows, key=lambda row: (row["temperature"], row["task"], row["budget"], method_rank(row["method"])))


def _control_share(timing: list[Row]) -> str | None:
    rows = [row for row in timing if row["method"] == CONTROL and row["total_ms"] and row["forward_ms"] is not None]
    shares = [row["forward_ms"] / row["total_ms"] for row in rows]
    return span((min(shares), max(shares))) if shares else None


def _floor(artifact: Artifact) -> dict[str, Any]:
    """The calibration grid as rows by floor and columns by budget."""
    content = artifact.content
    grid = {(row["floor"], row["budget"]): row["ratio"] for row in content["grid"]}
    budgets = sorted({budget for _, budget in grid})
    cost = content["cost"]
    how = "by the clock"
    if cost != "measured":
        how = (
            f"by a declared cost (a plain forward is 1, each further replica {cost['replica']:g}, each drafting level "
            f"{cost['level']:g}), so that the choice does not depend on the machine"
        )
    return {
        "label": artifact.label,
        "chosen": f"{content['floor']:g}",
        "budgets": budgets,
        "rows": [
            {
                "floor": f"{floor:g}",
                "chosen": floor == content["floor"],
                "mean": content["mean_ratio"].get(str(floor)),
                "ratios": [grid.get((floor, budget)) for budget in budgets],
            }
            for floor in sorted({floor for floor, _ in grid})
        ],
        "note": f"Judged on {content['samples']} samples {how}; tie band {100 * content['tie_band']:g} %.",
    }
