"""How far experiments are, read from the snapshot and the driver's heartbeat. Changes nothing."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.control_files import Beat, read_beat
from pipeline.driver import snapshot_query
from pipeline.paths import log_path, submission_path
from pipeline.progress import duration
from pipeline.spec import Spec, Suite, parse_spec
from pipeline.tables import aligned
from workers.errors import UserError

STATES = ("done", "running", "planned", "interrupted", "failed", "blocked", "cancelled")


@dataclass(frozen=True)
class ExperimentStatus:
    """One experiment. `live`: a driver works on it now; without one, nodes left as running count as interrupted."""

    name: str
    submitted_at: str
    live: bool
    finished: bool
    counts: dict[str, int]
    problems: list[dict[str, str]]
    running: list[dict[str, Any]]
    time_left_s: float | None
    dashboard: str | None

    @property
    def failed(self) -> bool:
        return bool(self.counts.get("failed") or self.counts.get("blocked"))


def read_status(home: Path, name: str | None = None) -> list[ExperimentStatus]:
    """The experiments of a home, the latest first. UserError for an unknown name."""
    beat = read_beat(home)
    live = beat if beat is not None and beat.alive else None
    query = snapshot_query(home)
    if query is None:
        return []
    sql = "SELECT name, max(recorded_at) AS submitted_at FROM experiments GROUP BY name ORDER BY submitted_at DESC"
    known = {row["name"]: row["submitted_at"] for row in query(sql).to_pylist()}
    if name is not None and name not in known:
        raise UserError(f"no experiment '{name}' in {home}; it holds: {', '.join(known) or 'none'}")
    nodes = query("SELECT experiment, kind, label, state, message FROM nodes").to_pylist()
    return [
        _status(
            each,
            known[each].isoformat(sep=" ", timespec="seconds"),
            [n for n in nodes if n["experiment"] == each],
            live,
        )
        for each in known
        if name in (None, each)
    ]


def show_status(found: list[ExperimentStatus], home: Path, form: str) -> str:
    """The statuses as text for people, CSV or JSON."""
    if form == "json":
        return json.dumps([asdict(each) for each in found], indent=1)
    if form == "csv":
        rows = [
            [each.name, str(each.live).lower(), *(str(each.counts.get(state, 0)) for state in STATES)] for each in found
        ]
        return "\n".join(",".join(row) for row in [["experiment", "live", *STATES], *rows])
    if not found:
        return f"nothing has been submitted to {home} yet"
    return "\n\n".join(map(_describe, found))


def find_logs(home: Path, node: str | None, experiment: str | None) -> list[tuple[str, Path]]:
    """(label, log file) of the nodes that `node` means, or of all failed ones. UserError if there are none."""
    query = snapshot_query(home)
    if query is None:
        raise UserError(f"nothing has been submitted to {home} yet")
    rows = query("SELECT experiment, label, identity, state FROM nodes ORDER BY updated_at").to_pylist()
    rows = [row for row in rows if experiment in (None, row["experiment"])]
    if node is None:
        rows = [row for row in rows if row["state"] == "failed"]
    else:
        start = node.rsplit("-", 1)[0] if "-" in node and "/" not in node else node
        rows = [row for row in rows if row["label"] == node or row["identity"].startswith(start)]
    if not rows:
        what = (
            "no node has failed" if node is None else f"no node '{node}'; `sql \"select label from nodes\"` lists them"
        )
        raise UserError(f"logs: {what}")
    return list({row["identity"]: (row["label"], log_path(home, row["identity"])) for row in rows}.values())


def stored_submission(home: Path, name: str | None) -> tuple[Spec | Suite, int | None]:
    """The spec and the limit of an experiment's latest submit."""
    name = experiment_name(home, name)
    path = submission_path(home, name)
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError):
        raise UserError(f"retry: no stored spec of '{name}' in {home}; submit its file again") from None
    return parse_spec(json.dumps(stored["document"], indent=1), str(path)), stored["limit"]


def experiment_name(home: Path, name: str | None) -> str:
    """The named experiment, or the one submitted last. UserError if there is none."""
    found = read_status(home, name)
    if not found:
        raise UserError(f"nothing has been submitted to {home} yet")
    return found[0].name


def _status(name: str, submitted_at: str, nodes: list[dict[str, Any]], beat: Beat | None) -> ExperimentStatus:
    live = beat is not None and beat.experiment == name
    states = ["interrupted" if node["state"] == "running" and not live else node["state"] for node in nodes]
    problems = [
        {"label": node["label"], "state": node["state"], "message": node["message"] or ""}
        for node in nodes
        if node["state"] in ("failed", "blocked")
    ]
    return ExperimentStatus(
        name=name,
        submitted_at=submitted_at,
        live=live,
        finished=not live and all(node["state"] == "done" for node in nodes if node["kind"] == "evaluate"),
        counts=dict(Counter(states)),
        problems=problems,
        running=beat.running if live else [],
        time_left_s=beat.time_left_s if live else None,
        dashboard=beat.dashboard if live else None,
    )


def _describe(status: ExperimentStatus) -> str:
    state = "running" if status.live else "finished" if status.finished else "stopped; submit or retry goes on"
    counts = ", ".join(f"{status.counts[state]} {state}" for state in STATES if status.counts.get(state))
    lines = [
        f"{status.name}: {state}, submitted {status.submitted_at} UTC",
        f"  {sum(status.counts.values())} nodes: {counts}",
    ]
    if status.time_left_s is not None:
        lines.append(f"  about {duration(status.time_left_s)} left")
    if status.dashboard:
        lines.append(f"  Ray dashboard: {status.dashboard}")
    if status.running:
        rows = [[item["worker"], item["label"], _progress(item), duration(item["seconds"])] for item in status.running]
        lines += ["  " + line for line in aligned(["worker", "node", "progress", "time"], rows).splitlines()]
    if status.problems:
        rows = [[item["state"], item["label"], item["message"]] for item in status.problems]
        lines += ["  " + line for line in aligned(["state", "node", "message"], rows).splitlines()]
        lines.append("  `python -m pipeline logs --failed` shows the tracebacks")
    return "\n".join(lines)


def _progress(item: dict[str, Any]) -> str:
    if not item.get("total"):
        return ""
    rate = item.get("figures", {}).get("tok_s")
    return f"{item['done']}/{item['total']}" + ("" if rate is None else f", {rate:.0f} tok/s")
