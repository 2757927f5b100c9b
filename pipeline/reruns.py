"""Which measurements have to be repeated: outliers among siblings, controls timed long ago or elsewhere. Pure rules.

A repetition is a new attempt of the same run. Once it is recorded the earlier attempt is archived with its reason and
its successor; nothing is overwritten, and the latest attempt counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timezone
from typing import Any

from pipeline.graph import Graph, Node, control_key
from pipeline.settings import Outliers
from warehouse import RunTiming, find_outliers

RETIMED = "re-timed"


@dataclass(frozen=True)
class Measured:
    """One run of the warehouse, as far as these rules look at it; `group` is what it shares with its siblings."""

    run_id: str
    identity: str
    attempt: int
    status: str
    reason: str | None
    tok_s: float | None
    device_class: str | None
    ended_at: float
    group: tuple[Any, ...]


@dataclass(frozen=True)
class Rerun:
    """Measure `identity` again, then archive `replaces` for `reason`."""

    identity: str
    replaces: str
    reason: str


def measured(rows: Iterable[Mapping[str, Any]], graph: Graph) -> list[Measured]:
    """Rows of the view `runs` as `Measured`; siblings share cell, samples, target and device class."""
    found = []
    for row in rows:
        cell = graph.by_identity[row["identity"]].cell or {}
        group = (*cell.values(), row["sample_set"], row["target_digest"], row["device_class"])
        ended_at = row["started_at"].replace(tzinfo=timezone.utc).timestamp() + (row["wall_s"] or 0.0)
        about = {
            key: row[key] for key in ("run_id", "identity", "attempt", "status", "reason", "tok_s", "device_class")
        }
        found.append(Measured(**about, ended_at=ended_at, group=group))
    return found


def due(
    runs: Collection[Measured], graph: Graph, open_: Collection[str], rules: Outliers
) -> tuple[list[Rerun], list[Rerun]]:
    """Repetitions due now, and those that would be but for `max_reruns`.

    `open_` holds the identities that are still to be measured: a cell is judged once all its seeds are there.
    """
    ok = [run for run in runs if run.status == "ok"]
    unsettled = {_cell(graph.by_identity[identity]) for identity in open_}
    used = Counter(
        run.identity for run in runs if run.status == "archived" and (run.reason or "").startswith("outlier")
    )
    settled = {run.run_id: run for run in ok if _cell(graph.by_identity[run.identity]) not in unsettled}
    timings = [RunTiming(run.run_id, run.group, run.tok_s) for run in settled.values() if run.tok_s is not None]
    wanted = [
        Rerun(settled[outlier.run_id].identity, outlier.run_id, outlier.reason)
        for outlier in find_outliers(timings, rules.z, rules.margin)
    ]
    return (
        [rerun for rerun in wanted if used[rerun.identity] < rules.max_reruns],
        [rerun for rerun in wanted if used[rerun.identity] >= rules.max_reruns],
    )


def on_latest_device(runs: Collection[Measured]) -> list[Measured]:
    """The runs on devices like that of the latest run: the ones that a submit from the same machine could repeat."""
    latest = max(runs, key=lambda run: run.ended_at, default=None)
    return [run for run in runs if latest is not None and run.device_class == latest.device_class]


def controls_of(graph: Graph) -> dict[str, str]:
    """Identity of each method run -> identity of its control in the graph, where there is one."""
    controls = {_control_key(node): node.identity for node in graph.nodes if node.is_control}
    methods = [node for node in graph.nodes if node.cell is not None and not node.is_control]
    return {node.identity: controls[_control_key(node)] for node in methods if _control_key(node) in controls}


def controls_to_add(
    methods: Iterable[str],
    controls: Mapping[str, str],
    runs: Collection[Measured],
    open_: Collection[str],
    device_class: str,
) -> list[str]:
    """Controls that are done, but on other devices than the one these methods will run on."""
    here = {run.identity for run in runs if run.status == "ok" and run.device_class == device_class}
    wanted = dict.fromkeys(controls[method] for method in methods if method in controls)
    return [control for control in wanted if control not in here and control not in open_]


def drift_reason(before: float | None, after: float | None) -> str:
    """Why a control that was timed again is archived."""
    return f"{RETIMED}: drift {after / before - 1:+.1%}" if before and after else RETIMED


def _cell(node: Node) -> tuple[Any, ...]:
    return (*(node.cell or {}).values(), *control_key(node))


def _control_key(node: Node) -> tuple[Any, ...]:
    return (*control_key(node), node.seed)
