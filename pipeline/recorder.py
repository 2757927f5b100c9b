"""Everything a submit writes to the warehouse, in the words of the task graph."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline import provenance
from pipeline.control_files import write_atomically
from pipeline.graph import Graph, Node
from pipeline.paths import artifact_path, submission_path
from pipeline.reruns import Measured, measured
from pipeline.spec import Spec, Suite
from pipeline.standing import manifest_digest, read_manifest
from warehouse import Store

PUBLISH_EVERY_S = 5.0
PUBLISH_SHARE = 0.05  # of the time at most; a large warehouse is published less often


class Recorder:
    """Writes one submit of `spec` into an open store."""

    def __init__(self, store: Store, home: Path, spec: Spec | Suite, graph: Graph) -> None:
        self.store = store
        self.home = home
        self.spec = spec
        self.graph = graph
        self._versions = provenance.versions()
        self._commit = provenance.git_commit()
        self._unpublished = True
        self._publish_at = 0.0

    def begin(self, missing: list[Node], limit: int | None) -> None:
        """Records the experiment and its nodes; those that earlier submits left running are planned again."""
        name = self.spec.name
        first, *others = self.spec.files.items()
        text = "\n".join([first[1], *(f"# --- {name}\n{text}" for name, text in others)])
        self.store.add_experiment(
            name, text, self.graph.identity, provenance.command_line(), self._versions, self._commit
        )
        self.store.plan_nodes(name, [_plan_row(node) for node in self.graph.nodes])
        document = {"document": self.spec.source.data, "limit": limit}
        write_atomically(submission_path(self.home, name), json.dumps(document, indent=1))
        recorded = self.store.query("SELECT identity, state FROM nodes WHERE experiment = ?", [name]).to_pylist()
        states = {row["identity"]: row["state"] for row in recorded}
        waiting = {node.identity for node in missing}
        for node in self.graph.nodes:
            state = states.get(node.identity)
            manifest = None if node.cell is not None else read_manifest(artifact_path(self.home, node.identity))
            if node.identity in waiting:
                if state in ("running", "done"):
                    self.state(node, "planned", message="interrupted" if state == "running" else "its output is gone")
            elif manifest is not None:
                self.artifact(node, manifest)
            if node.identity not in waiting and state != "done" and (node.cell is not None or manifest is not None):
                self.state(node, "done", message="made by an earlier submit", summary=(manifest or {}).get("summary"))
        self.publish(force=True)

    def state(self, node: Node, state: str, **about: Any) -> None:
        self.store.node_state(self.spec.name, node.identity, state, **about)
        self._unpublished = True

    def artifact(self, node: Node, manifest: Mapping[str, Any]) -> None:
        size = sum(about["bytes"] for about in manifest["files"].values())
        path = artifact_path(self.home, node.identity).relative_to(self.home)
        self.store.add_artifact(
            node.identity, node.kind, path, size, manifest_digest(dict(manifest)), manifest["summary"]
        )

    def run(self, node: Node, run_id: str, attempt: int, outcome: Any, facts: Mapping[str, Any]) -> None:
        """Records one measurement: durable and in the warehouse when this returns."""
        cell = node.cell or {}
        figures = {key: value for key, value in outcome.result.summary.items() if value is not None}
        run = {
            **cell,
            **figures,
            "floor_setting": str(cell["floor"]),
            "run_id": run_id,
            "experiment": self.spec.name,
            "identity": node.identity,
            "seed": node.seed,
            "attempt": attempt,
            "limited": node.limited,
            "split": node.params["split"],
            "sample_digest": node.determinants["samples"][0],
            "target_digest": node.determinants.get("target") or node.inputs["target"],
            "device_class": facts["device_class"],
            "dtype": facts["dtype"],
            "started_at": outcome.started_at,
            "git_commit": self._commit,
            "versions": {**self._versions, **facts},
        }
        self.store.add_run(run, outcome.result.samples, outcome.result.rounds, outcome.result.blocks)
        self._unpublished = True

    def archive(self, run_id: str, reason: str, successor: str) -> None:
        self.store.archive_run(run_id, reason, successor)
        self.event("info", "rerun", f"{run_id} archived for {successor}: {reason}", run_id)

    def event(self, level: str, kind: str, message: str, run_id: str | None = None) -> None:
        self.store.event(self.spec.name, level, kind, message, run_id)
        self._unpublished = True

    def runs(self) -> list[Measured]:
        """All runs of the graph's measurements, archived ones included."""
        return runs_of(self.graph, self.store.query)

    def differing_samples(self, run_id: str, control: str) -> list[str]:
        """Ids of the samples whose tokens differ between a run and its control, the node of identity `control`."""
        sql = """SELECT s.sample_id FROM samples AS s JOIN samples AS c USING (sample_id)
            WHERE s.run_id = ? AND s.tokens <> c.tokens AND c.run_id = (
                SELECT run_id FROM runs WHERE identity = ? AND status = 'ok'
                    AND device_class = (SELECT device_class FROM runs WHERE run_id = ?)
                ORDER BY attempt DESC LIMIT 1
            ) ORDER BY s.sample_id"""
        return self.store.query(sql, [run_id, control, run_id])["sample_id"].to_pylist()

    def publish(self, force: bool = False) -> None:
        """Shows readers the present state, unless that was done a moment ago or nothing has changed."""
        if not force and (not self._unpublished or time.monotonic() < self._publish_at):
            return
        begin = time.monotonic()
        self.store.publish()
        end = time.monotonic()
        self._unpublished = False
        self._publish_at = end + max(PUBLISH_EVERY_S, (end - begin) / PUBLISH_SHARE)


def runs_of(graph: Graph, query: Any) -> list[Measured]:
    """All runs of a graph's measurements; `query` reads the store or a snapshot."""
    sql = """SELECT run_id, identity, attempt, status, reason, tok_s, device_class, sample_set, target_digest,
        started_at, wall_s FROM runs WHERE list_contains(?, identity) ORDER BY identity, attempt"""
    identities = [node.identity for node in graph.nodes if node.cell is not None]
    return measured(query(sql, [identities]).to_pylist(), graph)


def _plan_row(node: Node) -> dict[str, Any]:
    return {
        "identity": node.identity,
        "kind": node.kind,
        "label": node.label,
        "upstream": list(node.upstream),
        "params": node.determinants,
    }
