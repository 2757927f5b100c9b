"""The driver loop: gives nodes to workers on Ray, records what comes back, repeats what was timed badly."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from pipeline.cluster import Ended, Lost, Pool, launcher, pool_size, running_ray
from pipeline.control_files import cancel_requested
from pipeline.graph import Graph, Node
from pipeline.interrupt import on_interrupt
from pipeline.names import LAW_ONLY
from pipeline.paths import artifact_path, input_paths, journal_path, log_path, progress_path, run_id
from pipeline.progress import Display
from pipeline.recorder import Recorder
from pipeline.reruns import RETIMED, Measured, Rerun, controls_of, controls_to_add, drift_reason, due
from pipeline.schedule import Scheduler, State, Task
from pipeline.spec import Spec, Suite
from pipeline.watch import Watch
from workers.actor import Order, Outcome, Worker

TICK_S = 0.5
MAX_LOSSES = 2
INTERRUPTED = 130


def run_nodes(
    spec: Spec | Suite,
    graph: Graph,
    missing: list[Node],
    recorder: Recorder,
    display: Display,
    address: str | None,
    dashboard: bool,
    worker_class: type[Worker] | None,
) -> tuple[int, dict[str, int]]:
    """Runs the missing nodes and what follows from them; returns the exit code and the nodes by final state."""
    address = address or os.environ.get("RAY_ADDRESS")
    threads, slots = spec.execution.threads, spec.execution.actors
    run = Execution(spec, graph, missing, recorder, display)
    try:
        display.note(f"{spec.name}: {len(missing)} of {len(graph.nodes)} nodes to run; starting Ray")
        with running_ray(address, None if slots == "auto" else slots, threads, dashboard) as url:
            run.watch.dashboard = url
            if url:
                display.note(f"Ray dashboard: {url}{_token_hint()}")
            size = pool_size(slots, threads)
            pool = Pool(launcher(worker_class or Worker, threads, size, address), size)
            with on_interrupt(run.stop):
                run.loop(pool)
    except KeyboardInterrupt:  # Ctrl+C before the loop, or a second one during it
        run.stopping = "interrupted"
    finally:
        run.close()
    failed = run.scheduler.count(State.FAILED, State.BLOCKED, State.CANCELLED) or run.inexact
    return INTERRUPTED if run.stopping else 1 if failed else 0, run.counts()


class Execution:
    """The state of one submit while it runs. Tasks are keyed by run id (measurements) or identity (artifacts)."""

    def __init__(self, spec: Spec | Suite, graph: Graph, missing: list[Node], recorder: Recorder, display: Display) -> None:
        self.spec = spec
        self.graph = graph
        self.recorder = recorder
        self.home = recorder.home
        self.watch = Watch(spec.name, recorder.home, display)
        self.scheduler = Scheduler(max_failures=spec.execution.failure_threshold, max_losses=MAX_LOSSES)
        self.stopping = ""
        self.inexact = 0
        self._missing = missing
        self._nodes: dict[str, Node] = {}  # by task key
        self._reruns: dict[str, Rerun] = {}  # by task key
        self._tried: set[str] = set()  # run ids that were measured again in this submit
        self._attempts: dict[str, int] = {}  # next attempt by identity
        self._timed_at: dict[str, float] = {}  # when a control was timed last, by identity
        self._controls = controls_of(graph)
        self._device_class = ""

    def loop(self, pool: Pool) -> None:
        """Returns when all is settled, or soon after `stopping` is set."""
        while not pool.idle and not self._must_stop():  # measurements depend on the device, so wait to see one
            self._handle(pool.wait(TICK_S))
            self._tick(pool)
        if not self.stopping:
            self._device_class = next(seat.facts for seat in pool.seats if seat.facts)["device_class"]
            self._schedule_missing()
        while not self.scheduler.finished and not self._must_stop():
            for task, worker in self.scheduler.assign(pool.idle):
                self._start(task, worker, pool)
            self._handle(pool.wait(TICK_S))
            self._tick(pool)
        pool.stop()

    def stop(self) -> None:
        """Asks the loop to end; what runs is given up, what is recorded stays."""
        self.stopping = "interrupted"
        self.watch.note("stopping; the same command goes on from here")

    def close(self) -> None:
        """Settles what is still open, so that no node is left as running in the warehouse."""
        why = self.stopping or "the submit ended early"
        for key, state in list(self.scheduler.states.items()):
            if state is State.RUNNING:
                self.scheduler.abandon(key, why)
                self._record(key, "cancelled", message=why)
        self._record_stopped(self.scheduler.cancel(why))
        self.watch.beat("finished", self.counts())

    def counts(self) -> dict[str, int]:
        """Nodes of the graph by state; repetitions count apart, under 'reruns'."""
        first = [key for key in self.scheduler.states if key not in self._reruns]
        states = [self.scheduler.states[key].value for key in first]
        counts = {state: states.count(state) for state in dict.fromkeys(states)}
        counts["done"] = counts.get("done", 0) + len(self.graph.nodes) - len(self._missing)
        return counts | {"reruns": len(self._reruns)}

    # --- what to run

    def _schedule_missing(self) -> None:
        runs = self.recorder.runs()
        for run in runs:
            self._attempts[run.identity] = max(self._attempts.get(run.identity, 0), run.attempt + 1)
            if run.status == "ok" and run.device_class == self._device_class:
                self._timed_at[run.identity] = run.ended_at
        missing = {node.identity for node in self._missing}
        elsewhere = controls_to_add([*missing], self._controls, runs, missing, self._device_class)
        self._missing = [*(self.graph.by_identity[identity] for identity in elsewhere), *self._missing]
        for node in self._missing:
            self._add(node)
        self._add_reruns()

    def _add(self, node: Node, rerun: Rerun | None = None) -> str:
        """Schedules one node, behind its control if that is still to be measured."""
        key = node.identity
        if node.cell is not None:
            attempt = self._attempts.setdefault(node.identity, 0)
            self._attempts[node.identity] += 1
            key = run_id(node.identity, attempt)
        control = self._controls.get(node.identity)
        after = {other for other, waiting in self._nodes.items() if waiting.identity == control and self._open(other)}
        needs = {identity for identity in node.upstream if identity in self.scheduler.tasks}
        self._nodes[key] = node
        if rerun is not None:
            self._reruns[key] = rerun
            self._tried.add(rerun.replaces)
        target = (
            json.dumps([node.params["target"], node.params.get("block_length")]) if "target" in node.params else None
        )
        self.scheduler.add(Task(key, (node.priority,), frozenset(needs), frozenset(after), target, node.label))
        return key

    def _add_reruns(self) -> None:
        """Repeats outliers of the cells that are complete; those beyond the limit are only reported."""
        open_ = {node.identity for key, node in self._nodes.items() if node.cell is not None and self._open(key)}
        wanted, beyond = due(self._runs_here(), self.graph, open_, self.spec.outliers)
        for rerun in wanted:
            node = self.graph.by_identity[rerun.identity]
            if rerun.replaces not in self._tried and all(artifact_path(self.home, i).exists() for i in node.upstream):
                self._add(node, rerun)
                self.watch.note(f"again  {node.label}: {rerun.reason}", "yellow")
                self.recorder.event(
                    "warning", "outlier", f"{node.label} is measured again: {rerun.reason}", rerun.replaces
                )
        for rerun in beyond:
            if rerun.replaces not in self._tried:
                self._tried.add(rerun.replaces)
                label = self.graph.by_identity[rerun.identity].label
                text = f"{label} still deviates after {self.spec.outliers.max_reruns} repetitions"
                self.watch.note(text, "yellow")
                self.recorder.event("warning", "outlier", f"{text}: {rerun.reason}", rerun.replaces)

    def _retime_control(self, method: Node) -> None:
        """Times the control of a method again if that was long ago: machines drift."""
        control = self._controls.get(method.identity)
        timed_at = self._timed_at.get(control or "")
        if timed_at is None or time.time() - timed_at <= self.spec.control.retime_after_s:
            return
        if any(node.identity == control and self._open(key) for key, node in self._nodes.items()):
            return
        replaced = [run.run_id for run in self._runs_here() if run.identity == control and run.status == "ok"]
        if replaced:
            self._timed_at[control] = time.time()
            self._add(self.graph.by_identity[control], Rerun(control, replaced[-1], RETIMED))

    def _runs_here(self) -> list[Measured]:
        """The runs on devices like those of this submit: no other can be repeated here."""
        return [run for run in self.recorder.runs() if run.device_class == self._device_class]

    # --- what happens

    def _start(self, task: Task, worker: str, pool: Pool) -> None:
        node = self._nodes[task.key]
        pool.give(worker, self._order(task.key, node, worker), task.target)
        self._record(task.key, "running", actor=worker)

    def _order(self, key: str, node: Node, worker: str) -> Order:
        return Order(
            key=key,
            kind=node.kind,
            label=node.label,
            params=node.params,
            inputs=input_paths(self.home, node),
            log=log_path(self.home, node.identity),
            progress=progress_path(self.home, worker),
            artifact=artifact_path(self.home, node.identity) if node.cell is None else None,
            journal=journal_path(self.home, key) if _resumes(node) else None,
        )

    def _handle(self, events: list[Ended | Lost]) -> None:
        for event in events:
            if isinstance(event, Lost):
                self._lost(event)
            elif event.outcome.error is not None:
                self._failed(event.order.key, event.outcome.error)
            else:
                self._done(event.order.key, event.outcome, event.facts)

    def _done(self, key: str, outcome: Outcome, facts: Mapping[str, Any]) -> None:
        node = self._nodes[key]
        self.watch.took(node, outcome.seconds)
        if node.cell is None:
            self.recorder.artifact(node, outcome.manifest or {})
        else:
            attempt = int(key.rsplit("-", 1)[1])
            self.recorder.run(node, key, attempt, outcome, facts)
        journal_path(self.home, key).unlink(missing_ok=True)
        self.scheduler.done(key)
        self._record(key, "done", actor=facts["worker"], summary=outcome.summary)
        self.watch.note(f"done   {node.label}  {_figures(outcome)}")
        if node.cell is not None:
            self._measured(key, node, outcome, facts)

    def _measured(self, key: str, node: Node, outcome: Outcome, facts: Mapping[str, Any]) -> None:
        """What follows from a new measurement: archiving what it replaces, the audit, further repetitions."""
        self._timed_at[node.identity] = time.time()
        rerun = self._reruns.get(key)
        if rerun is not None:
            before = next(run.tok_s for run in self.recorder.runs() if run.run_id == rerun.replaces)
            reason = drift_reason(before, outcome.summary["tok_s"]) if rerun.reason == RETIMED else rerun.reason
            self.recorder.archive(rerun.replaces, reason, key)
        self._audit(key, node, outcome, facts)
        if not node.is_control:
            self._retime_control(node)
        self._add_reruns()

    def _audit(self, key: str, node: Node, outcome: Outcome, facts: Mapping[str, Any]) -> None:
        """Compares the tokens of an exact method with those of its control."""
        control = self._controls.get(node.identity)
        # Also where the cache or the commit rule is an approximation: the control has the same.
        exact = outcome.summary.get("drafts_exact", outcome.summary["distribution_preserving"])
        if control is None or node.cell["verifier"] in LAW_ONLY or not exact:
            return
        differing = self.recorder.differing_samples(key, control)
        if not differing:
            return
        text = f"{node.label} differs from its control in {len(differing)} samples, first {differing[0]}"
        exact_expected = facts["dtype"] == "float32"
        self.inexact += exact_expected
        self.watch.note(text, "red" if exact_expected else "yellow")
        self.recorder.event("error" if exact_expected else "warning", "exactness", text, key)

    def _failed(self, key: str, message: str) -> None:
        node = self._nodes[key]
        stopped = self.scheduler.fail(key, message)
        self._record(key, "failed", message=message)
        self.watch.note(f"FAILED {node.label}: {message}  (python -m pipeline logs {node.label})", "red")
        self._record_stopped(stopped)

    def _lost(self, event: Lost) -> None:
        if event.order is None:
            self.watch.note(event.message, "yellow")
            return
        key, label = event.order.key, event.order.label
        stopped = self.scheduler.lose(key, event.message)
        self.recorder.event("warning", "worker", f"{event.message}, it was running {label}")
        if stopped is None:
            self._record(key, "planned", message=event.message)
            tries = f"retry {self.scheduler.losses[key]} of {MAX_LOSSES}"
            self.watch.note(f"lost   {label}: {event.message}; {tries}", "yellow")
        else:
            self._record(key, "failed", message=self.scheduler.messages[key])
            self.watch.note(f"FAILED {label}: {self.scheduler.messages[key]}", "red")
            self._record_stopped(stopped)

    def _record_stopped(self, keys: list[str]) -> None:
        for key in keys:
            self._record(key, self.scheduler.states[key].value, message=self.scheduler.messages[key])

    def _record(self, key: str, state: str, **about: Any) -> None:
        """Records the state of a node. A repetition that fails leaves its node done: the earlier run stands."""
        if key in self._reruns and state in ("failed", "blocked", "cancelled", "planned"):
            state, about["message"] = "done", f"repetition: {about.get('message')}"
        self.recorder.state(self._nodes[key], state, **about)

    # --- what is shown

    def _must_stop(self) -> bool:
        if not self.stopping and cancel_requested(self.home):
            self.stopping = "cancelled"
        return bool(self.stopping)

    def _tick(self, pool: Pool) -> None:
        counts = self.counts()
        counts["done"] += sum(self.scheduler.states[key] is State.DONE for key in self._reruns)
        waiting = [self._nodes[key] for key, state in self.scheduler.states.items() if state is State.WAITING]
        busy = [(seat, self._nodes[seat.order.key]) for seat in pool.busy]
        self.watch.look(len(self.graph.nodes) + len(self._reruns), counts, waiting, busy, len(pool.seats))
        self.recorder.publish()

    def _open(self, key: str) -> bool:
        return not self.scheduler.states[key].settled


def _resumes(node: Node) -> bool:
    """Whether a killed node goes on from a journal. A control does not: it is timed in one piece."""
    return node.kind == "pretrain" or (node.cell is not None and not node.is_control)


def _token_hint() -> str:
    if os.environ.get("RAY_AUTH_MODE") == "disabled":
        return ""
    return " (it asks for the token that `ray get-auth-token` prints)"


def _figures(outcome: Outcome) -> str:
    figures = [f"{outcome.seconds:.1f} s"]
    for name, unit in (("nfe", "NFE"), ("tok_s", "tok/s")):
        if isinstance(outcome.summary.get(name), (int, float)):
            figures.append(f"{outcome.summary[name]:.1f} {unit}")
    return "  ".join(figures)
