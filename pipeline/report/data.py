"""Everything a report shows, read from one published snapshot of the warehouse and from the artifacts beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import warehouse
from pipeline.report.beside import BESIDE
from pipeline.report.items import Item
from pipeline.report.spot import SPOT
from pipeline.report.trajectory import TRAJECTORY
from workers.errors import UserError

if TYPE_CHECKING:
    import duckdb

Row = Mapping[str, Any]
BRIEF = ("nodes", "cells", "exactness", "differing", "rescored")
DETAIL = ("paired", "symptoms", "acceptance", "timing", "comparisons", "archived", "drift", "unpaired", "events")
ITEMS: tuple[Item, ...] = (*SPOT, *TRAJECTORY, *BESIDE)


@dataclass(frozen=True)
class Artifact:
    """A JSON file that a stage of the experiment wrote, and the label of its node."""

    label: str
    content: Any

    def name(self, kind: str) -> str:
        """Its target, and its drafter where it is that of one alone: what stands behind the kind of its node."""
        return f"/{self.label}".rpartition(f"/{kind}/")[2]


@dataclass(frozen=True)
class ReportData:
    """Rows of the queries of the same names (queries/*.sql), of the papers' items, JSON artifacts, and `problems` as
    sentences to print."""

    experiment: Row
    nodes: list[Row]
    cells: list[Row]
    paired: list[Row]
    exactness: list[Row]
    differing: list[Row]
    rescored: list[Row]
    symptoms: list[Row]
    acceptance: list[Row]
    timing: list[Row]
    comparisons: list[Row]
    archived: list[Row]
    drift: list[Row]
    unpaired: list[Row]
    events: list[Row]
    limited: int
    items: dict[Item, list[Row]]
    curves: list[Artifact]
    floors: list[Artifact]
    problems: list[str]

    @property
    def failed(self) -> list[Row]:
        """Nodes whose latest state is failed."""
        return [row for row in self.nodes if row["state"] == "failed"]


def read_report_data(home: Path, experiment: str, *, brief: bool = False) -> ReportData:
    """Read all of it, or with `brief` only what a summary needs, the other tables empty.

    Raises UserError for an unknown experiment, WarehouseError without a snapshot.
    """
    with warehouse.connect(home) as connection:
        submitted = _rows(connection, "experiment", experiment)
        if not submitted:
            known = connection.execute("SELECT DISTINCT name FROM experiments ORDER BY name").fetchall()
            names = ", ".join(name for (name,) in known) or "none"
            raise UserError(f"no experiment {experiment!r} in {home}; it holds: {names}")
        brief_tables = {name: _rows(connection, name, experiment) for name in BRIEF}
        other_tables = {name: [] if brief else _rows(connection, name, experiment) for name in DETAIL}
        items = {} if brief else {item: _item_rows(connection, item, experiment) for item in ITEMS}
        limited = _rows(connection, "limited", experiment)[0]["runs"]
        artifacts = _rows(connection, "artifacts", experiment)
    problems: list[str] = []
    return ReportData(
        experiment=submitted[0],
        **brief_tables,
        **other_tables,
        limited=limited,
        items=items,
        curves=_json_artifacts(home, artifacts, "train", "curve.json", problems),
        floors=_json_artifacts(home, artifacts, "calibrate-floor", "floor.json", problems),
        problems=problems,
    )


def _rows(connection: duckdb.DuckDBPyConnection, query: str, experiment: str) -> list[Row]:
    return _fetch(connection, (files("pipeline.report") / "queries" / f"{query}.sql").read_text("utf-8"), experiment)


def _item_rows(connection: duckdb.DuckDBPyConnection, item: Item, experiment: str) -> list[Row]:
    """None where an older program published the snapshot, without the view."""
    known = connection.execute("SELECT count(*) FROM duckdb_views() WHERE view_name = ?", [item.view]).fetchall()
    if known == [(0,)]:
        return []
    condition = f" AND {item.where}" if item.where else ""
    return _fetch(connection, f"SELECT * FROM {item.view} WHERE experiment = $experiment{condition}", experiment)


def _fetch(connection: duckdb.DuckDBPyConnection, sql: str, experiment: str) -> list[Row]:
    cursor = connection.execute(sql, {"experiment": experiment})
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _json_artifacts(home: Path, artifacts: list[Row], kind: str, name: str, problems: list[str]) -> list[Artifact]:
    found = []
    for row in artifacts:
        if row["kind"] != kind:
            continue
        path = home / row["path"] / name
        try:
            found.append(Artifact(row["label"], json.loads(path.read_text("utf-8"))))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not valid JSON"
            problems.append(
                f"{row['path']}/{name} of node {row['label']} cannot be read ({reason}), so what it holds is not shown."
            )
    return found
