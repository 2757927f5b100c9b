"""What a home already holds of a task graph.

A run counts as done if the warehouse holds it with status ok, an artifact if its directory agrees with its manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.graph import Graph, Node
from pipeline.paths import DIRECTORIES, artifact_path
from pipeline.plan import NodeState, PlanRow, plan
from workers.errors import UserError

MANIFEST = "manifest.json"

Query = Callable[..., pa.Table]  # (sql, params) -> rows, of the open store or of a snapshot


def plan_rows(graph: Graph, home: Path, query: Query | None) -> list[PlanRow]:
    """What a submit would do with each node, and why; `query` None if there is no warehouse yet."""
    previous = _previous(graph, query) if query else {}
    return plan(graph, known_states(graph, home, query), previous)


def missing_nodes(graph: Graph, home: Path, query: Query | None) -> list[Node]:
    """The nodes to run, upstream first."""
    return [
        graph.by_identity[row.identity] for row in plan(graph, known_states(graph, home, query)) if row.action == "run"
    ]


def known_states(graph: Graph, home: Path, query: Query | None) -> dict[str, NodeState]:
    """What is known of each node: done if its output is really there, else the latest recorded state."""
    states = {}
    if query:
        sql = """SELECT identity, arg_max(state, seq) AS state, arg_max(coalesce(message, ''), seq) AS message,
            greatest(count(*) FILTER (state = 'running'), 1) AS attempt FROM node_states GROUP BY identity"""
        for row in query(sql).to_pylist():
            state = "unfinished" if row["state"] == "done" else row["state"]  # done only if the checks below agree
            states[row["identity"]] = NodeState(state, row["attempt"], row["message"])
        for row in query(
            "SELECT identity, max(attempt) AS attempt FROM runs WHERE status = 'ok' GROUP BY identity"
        ).to_pylist():
            states[row["identity"]] = NodeState("done", row["attempt"] + 1)
    for node in graph.nodes:
        if node.cell is None and read_manifest(artifact_path(home, node.identity)):
            states[node.identity] = NodeState("done", states[node.identity].attempt if node.identity in states else 1)
    return states


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest of an artifact whose files are all there with their sizes, else None."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        sizes = {name: (directory / name).stat().st_size for name in manifest["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return manifest if all(sizes[name] == about["bytes"] for name, about in manifest["files"].items()) else None


def manifest_digest(manifest: dict[str, Any]) -> str:
    """One sha256 for all files of an artifact."""
    return hashlib.sha256(json.dumps(manifest["files"], sort_keys=True).encode()).hexdigest()


def set_aside_damaged(home: Path, identities: Iterable[str]) -> dict[str, Path]:
    """Renames artifacts that lack a manifest or differ from its sha256; returns identity -> new name."""
    moved = {}
    for identity in identities:
        directory = artifact_path(home, identity)
        if directory.exists() and not _intact(directory):
            moved[identity] = directory.with_name(f"{identity}.bad-{time.time_ns()}")
            directory.rename(moved[identity])
    return moved


def prepare_home(home: Path) -> None:
    """Creates the directories of a home and clears what killed workers left half done. UserError if it cannot."""
    try:
        for name in DIRECTORIES:
            (home / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(_not_writable(home, error.strerror)) from None
    for leftover in (home / "artifacts").glob(".tmp-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for leftover in (home / "progress").iterdir():
        leftover.unlink(missing_ok=True)
    for journal in (home / "journal").glob("*.jsonl"):
        finished = (home / "records" / f"{journal.stem}.parquet", artifact_path(home, journal.stem))
        if any(path.exists() for path in finished):  # the driver was killed between the two
            journal.unlink(missing_ok=True)


def check_writable(home: Path) -> None:
    """UserError if nothing can be written to `home`; creates nothing."""
    place = home.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise UserError(_not_writable(home, f"{place} is a file"))
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(_not_writable(home, f"no permission in {place}"))


def _previous(graph: Graph, query: Query) -> dict[str, dict[str, Any]]:
    """Label -> determinants of the node that had this label in the latest plan before, whatever the experiment."""
    sql = "SELECT label, arg_max(params, seq) AS params FROM node_plans WHERE list_contains(?, label) GROUP BY label"
    rows = query(sql, [[node.label for node in graph.nodes]]).to_pylist()
    return {row["label"]: json.loads(row["params"]) for row in rows if row["params"]}


def _intact(directory: Path) -> bool:
    manifest = read_manifest(directory)
    return manifest is not None and all(
        _sha256(directory / name) == about["sha256"] for name, about in manifest["files"].items()
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _not_writable(home: Path, why: str | None) -> str:
    return f"cannot write to {home}: {why}; choose another directory with --home or DRAFTHOUSE_HOME"
