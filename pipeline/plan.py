"""What a submit would do: for every node of a graph whether it runs, and why. Pure; the caller knows what is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.graph import Graph, Node
from pipeline.yaml_source import show


@dataclass(frozen=True)
class NodeState:
    """What is known of an identity: `state` of its latest attempt, 'done' only where its output is really there."""

    state: str
    attempt: int = 1
    message: str = ""


@dataclass(frozen=True)
class PlanRow:
    """One line of a plan. action: run, done (nothing to do), skip (nobody needs its output) or blocked."""

    label: str
    kind: str
    identity: str
    action: str
    reason: str


def plan(
    graph: Graph,
    states: Mapping[str, NodeState],
    previous: Mapping[str, Mapping[str, Any]] | None = None,
    retry_failed: bool = True,
) -> list[PlanRow]:
    """One row per node, in the order of the graph.

    states: what is known by identity; nodes without an entry never ran. previous: label -> determinants of the node
    that had this label before, to name the setting that changed. With retry_failed False a failed node blocks what
    reads it.
    """
    wanted = _needed(graph, states)
    rows: dict[str, PlanRow] = {}
    for node in graph.nodes:
        action, reason = _decide(
            node, states.get(node.identity), wanted, rows, (previous or {}).get(node.label), retry_failed
        )
        rows[node.identity] = PlanRow(node.label, node.kind, node.identity, action, reason)
    return list(rows.values())


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The settings in which two `determinants` differ, as 'lr: 0.001 -> 0.0003'; digests only by name."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    named = {"target": "the target's weights", "version": "the stage's code"}
    found = []
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) == new.get(key):
            continue
        section, _, setting = key.partition(".")
        if section == "params":
            found.append(f"{setting}: {show(old.get(key))} -> {show(new.get(key))}")
        elif section in named:
            found.append(named[section])
    if not found and old.get("samples") != new.get("samples"):  # otherwise they follow from a setting
        found.append("the content of the samples")
    return found


def _needed(graph: Graph, states: Mapping[str, NodeState]) -> set[str]:
    """Nodes whose output somebody waits for: evaluations, and whatever a node that has to run reads."""
    needed: set[str] = set()
    for node in reversed(graph.nodes):
        if node.kind == "evaluate" or node.identity in needed:
            needed.add(node.identity)
            if not _is_done(states.get(node.identity)):
                needed.update(node.upstream)
    return needed


def _decide(
    node: Node,
    state: NodeState | None,
    needed: set[str],
    rows: Mapping[str, PlanRow],
    before: Mapping[str, Any] | None,
    retry_failed: bool,
) -> tuple[str, str]:
    if _is_done(state):
        return "done", f"done (attempt {state.attempt})"
    if node.identity not in needed:
        return "skip", "everything that reads it is done"
    failed = state is not None and state.state == "failed"
    if failed and not retry_failed:
        return "blocked", _failure(state)
    upstream = [rows[identity] for identity in node.upstream]
    blocked = [row.label for row in upstream if row.action == "blocked"]
    if blocked:
        return "blocked", f"upstream {_shorten(blocked)} failed"
    if failed:
        return "run", _failure(state)
    changed = changes(before, node.determinants) if before else []
    if changed:
        return "run", "changed: " + ", ".join(changed)
    running = [row.label for row in upstream if row.action == "run"]
    if running:
        return "run", f"upstream {_shorten(running)} will run"
    if state is not None:
        return "run", f"not finished ({state.state}, attempt {state.attempt})"
    return "run", "missing"


def _is_done(state: NodeState | None) -> bool:
    return state is not None and state.state == "done"


def _failure(state: NodeState) -> str:
    lines = state.message.strip().splitlines()
    return f"failed before: {lines[-1]}" if lines else "failed before"


def _shorten(labels: list[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} and {len(labels) - 1} more"


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Nested mappings as (dotted path, value); lists are values."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value
