"""`submit`: finds out what is missing, starts Ray only for that, and records what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from pipeline.control_files import announce, clear_cancel
from pipeline.graph import Graph, Node, build_graph
from pipeline.memory import check_memory
from pipeline.overlap import describe, pool_overlaps
from pipeline.paths import home_directory
from pipeline.progress import Display
from pipeline.recorder import Recorder, runs_of
from pipeline.report import markdown_summary
from pipeline.reruns import due, on_latest_device
from pipeline.schedule import State
from pipeline.spec import Spec, Suite
from pipeline.standing import Query, check_writable, missing_nodes, prepare_home, set_aside_damaged
from warehouse import Store, WarehouseError, connect

OK, FAILED, INTERRUPTED = 0, 1, 130


@dataclass(frozen=True)
class Submission:
    """How a submit ended. `counts`: nodes of the graph by what became of them; `report`: the HTML page, if any."""

    exit_code: int
    experiment: str
    home: Path
    counts: Mapping[str, int]
    report: Path | None


def submit(
    spec: Spec | Suite,
    home: str | Path | None = None,
    address: str | None = None,
    limit: int | None = None,
    dashboard: bool = True,
    console: Console | None = None,
    worker_class: Any = None,
) -> Submission:
    """Runs what is missing of an experiment and prints its summary; a second submit does nothing and starts nothing.

    address: an existing Ray cluster whose machines share `home`; else RAY_ADDRESS, else Ray is started here.
    limit: evaluate only the first so many samples; such runs are marked and kept out of the tables.
    worker_class: a `workers.actor.Worker` to use instead, for tests.
    Raises UserError or WarehouseError for what the caller has to fix before anything runs.
    """
    place = home_directory(home)
    shown = console or Console()
    graph = build_graph(spec, limit)
    check_writable(place)
    if _all_done(spec, graph, place):
        shown.print(f"{spec.name}: all {len(graph.nodes)} nodes are done, nothing to run", highlight=False)
        return _finish(spec, graph, place, shown, OK, {State.DONE.value: len(graph.nodes)}, make_report=False)
    check_memory(spec, address)
    with Store(place) as store:
        prepare_home(place)
        clear_cancel(place)
        recorder = Recorder(store, place, spec, graph)
        missing = _missing_intact(graph, place, recorder)
        work = missing or due(on_latest_device(recorder.runs()), graph, (), spec.outliers)[0]
        if work:
            announce(place, spec.name)  # before the plan can be read: `status` would take it for that of a dead submit
        recorder.begin(missing, limit)
        if any(node.kind in ("collect", "train") for node in missing):
            for pool, found in pool_overlaps(spec):
                recorder.event(
                    "warning" if any(one.ngrams for one in found) else "info", "overlap", describe(pool, found)
                )
                shown.print(describe(pool, found), highlight=False)
        counts = {State.DONE.value: len(graph.nodes) - len(missing)}
        code = OK
        if work:
            # Ray, and with it torch, is imported only now: a submit with nothing to do returns at once.
            from pipeline.execute import run_nodes

            with Display(shown, spec.name) as display:
                code, counts = run_nodes(spec, graph, missing, recorder, display, address, dashboard, worker_class)
        recorder.publish(force=True)
    if code == INTERRUPTED:
        shown.print(f"{spec.name}: interrupted, {counts['done']} of {len(graph.nodes)} nodes are done", highlight=False)
        return Submission(code, spec.name, place, counts, None)
    return _finish(spec, graph, place, shown, code, counts, make_report=True)


def snapshot_query(home: Path) -> Query | None:
    """Reads the published snapshot, None if there is none. The connection is closed with the last reference to it."""
    try:
        connection = connect(home)
    except WarehouseError:
        if (home / "snapshot.duckdb").exists():
            raise
        return None
    return lambda sql, params=None: connection.sql(sql, params=params).to_arrow_table()


def _all_done(spec: Spec | Suite, graph: Graph, home: Path) -> bool:
    """Whether the published snapshot holds everything, this experiment's plan included."""
    try:
        query = snapshot_query(home)
    except WarehouseError:  # a damaged snapshot: the store writes a new one
        return False
    if query is None or missing_nodes(graph, home, query):
        return False
    known = query("SELECT arg_max(spec_identity, seq) AS last FROM experiments WHERE name = ?", [spec.name]).to_pylist()
    return (
        known[0]["last"] == graph.identity
        and not due(on_latest_device(runs_of(graph, query)), graph, (), spec.outliers)[0]
    )


def _missing_intact(graph: Graph, home: Path, recorder: Recorder) -> list[Node]:
    """The nodes to run; an artifact that one of them reads and that is damaged is put aside and made again."""
    while True:
        missing = missing_nodes(graph, home, recorder.store.query)
        inside = {node.identity for node in missing}
        read = {identity for node in missing for identity in node.upstream} - inside
        damaged = set_aside_damaged(home, sorted(read))
        for identity, kept in damaged.items():
            label = graph.by_identity[identity].label
            recorder.event(
                "warning", "artifact", f"the files of {label} do not agree with their sha256, kept as {kept.name}"
            )
        if not damaged:
            return missing


def _finish(
    spec: Spec | Suite, graph: Graph, home: Path, console: Console, code: int, counts: Mapping[str, int], make_report: bool
) -> Submission:
    """Prints the summary, writes the report, and settles the exit code: an inexact run is a failure, also later."""
    report = home / "reports" / f"{spec.name}.html"
    if make_report:
        from pipeline.report import write_report

        report = write_report(home, spec.name)
    console.print(markdown_summary(home, spec.name), markup=False, highlight=False, soft_wrap=True)
    if report.exists():
        console.print(f"Report: {report}", markup=False, highlight=False, soft_wrap=True)
    query = snapshot_query(home)
    identities = [node.identity for node in graph.nodes if node.cell is not None]
    sql = "SELECT count(*) AS n FROM audit JOIN runs USING (run_id) WHERE failure AND list_contains(?, identity)"
    inexact = query(sql, [identities])["n"][0].as_py() if query else 0
    if inexact:
        text = f"{inexact} runs that should be exact differ from their control: see the view audit"
        console.print(text, style="red", markup=False, highlight=False)
    return Submission(code or (FAILED if inexact else OK), spec.name, home, counts, report if report.exists() else None)
