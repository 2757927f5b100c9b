"""From a spec to its task graph: one node per piece of work, each with an identity that names its output.

The identity is a SHA-256 over what determines the output: kind, stage version, settings, identities of the upstream
nodes, digests of target and samples. Names, paths, hosts, resources, comments and the order of a file are not in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from pipeline.drafter_settings import MADE_ON, STAGE_OPTIONS, MadeOn
from pipeline.facts import Facts, executes_code, generated_tasks, stage_version
from pipeline.grid import CONTROL_KEY, Run, expand
from pipeline.mixture import STAGE_SPLITS, deal
from pipeline.overlap import evaluated_samples
from pipeline.names import LAW_ONLY
from pipeline.settings import Section, TargetRef
from pipeline.spec import Spec, Suite
from workers.errors import UserError
from workers.targets.digest import STARTS


@dataclass(frozen=True)
class Node:
    """One piece of work.

    params: what the stage gets, JSON-able. inputs: role -> identity, or identities, of the nodes whose output it reads.
    determinants: the document that is hashed into `identity`; two nodes of one label differ exactly where these do.
    cell: the cell columns of an evaluate node, with `floor` still "calibrated" where calibration decides it.
    timing_sensitive: wall time is the result, so the device must not be shared. priority: the lower starts first.
    """

    kind: str
    label: str
    params: dict[str, Any]
    inputs: Mapping[str, str | list[str]]
    identity: str
    determinants: dict[str, Any]
    priority: int = 0
    cell: dict[str, Any] | None = None
    seed: int | None = None
    timing_sensitive: bool = False
    limited: bool = False

    @property
    def upstream(self) -> tuple[str, ...]:
        """Identities of the nodes it needs, without repeats."""
        return tuple(dict.fromkeys(_flat(self.inputs.values())))

    @property
    def target_digest(self) -> str | None:
        """Digest of the target's files, or the identity of the node that builds them; None where no target is used."""
        return self.determinants.get("target") or self.inputs.get("target")

    @property
    def sample_digest(self) -> str:
        """Digest of the contents of the samples it reads."""
        return digest(self.determinants["samples"])

    @property
    def is_control(self) -> bool:
        return self.cell is not None and self.cell["drafter"] == "none"


@dataclass(frozen=True)
class Graph:
    """All nodes of a spec: upstream before downstream, one per identity, in the order they should start."""

    nodes: tuple[Node, ...]

    @cached_property
    def by_identity(self) -> dict[str, Node]:
        return {node.identity: node for node in self.nodes}

    @cached_property
    def identity(self) -> str:
        """Names the experiment by all it computes: equal for two specs that ask for the same nodes."""
        return digest(sorted(self.by_identity))

    def downstream(self, identity: str) -> set[str]:
        """Identities of all nodes that directly or indirectly read that node."""
        reached = {identity}
        for node in self.nodes:
            if reached & set(node.upstream):
                reached.add(node.identity)
        return reached - {identity}


def build_graph(spec: Spec | Suite, limit: int | None = None, facts: Facts | None = None) -> Graph:
    """The task graph of a spec, or the union of those of a suite. `limit` evaluates only the first so many samples and
    marks those runs.

    Raises UserError if a target or task cannot be read, or if a run has two names or a name of the tables two
    meanings.
    """
    if limit is not None and limit < 1:
        raise UserError(f"limit: should be a positive number of samples, got {limit}")
    facts, compared = facts or Facts(), evaluated_samples(spec)
    found: dict[str, Node] = {}
    for start, part in spec.parts:
        builder = _Builder(part, facts, limit, compared)
        for run in expand(part):
            builder.evaluate(run)
        for node in builder.nodes.values():
            node = replace(node, label=start + node.label)
            _keep(found, node)
    _check_cells(found.values())
    # Methods follow their control, whichever member asks for them, so that both are timed within a short time.
    groups: dict[tuple[Any, ...], int] = {}
    places = {node.identity: groups.setdefault(control_key(node), len(groups)) for node in found.values()}
    nodes = sorted(
        found.values(), key=lambda node: (_ORDER.index(node.kind), places[node.identity], not node.is_control)
    )
    return Graph(tuple(replace(node, priority=index) for index, node in enumerate(nodes)))


def _keep(nodes: dict[str, Node], node: Node) -> None:
    """Adds a node that is not there yet; the first label stays."""
    if nodes.setdefault(node.identity, node).cell != node.cell:
        raise UserError(
            f"{nodes[node.identity].label} and {node.label} are the same run under two names, and it can stand in the "
            "tables under one only; use one name for both, or leave one out"
        )


def control_key(node: Node) -> tuple[Any, ...]:
    """What a run shares with its control, but the seed; empty for nodes that are no runs."""
    if node.cell is None:
        return ()
    return (*(node.cell[column] for column in CONTROL_KEY), node.target_digest, node.sample_digest, node.limited)


def _check_cells(nodes: Iterable[Node]) -> None:
    """A method has one meaning in the tables: two runs of one cell and seed are one node."""
    seen: dict[tuple[Any, ...], Node] = {}
    for node in nodes:
        if node.cell is None:
            continue
        key = (control_key(node), *node.cell.values(), node.seed)
        if seen.setdefault(key, node) is not node:
            raise UserError(
                f"{seen[key].label} and {node.label} are one cell of the tables, but differ in the options of "
                f"'{node.cell['method']}' or in what it reads; give one of the two another label under drafters"
            )


def digest(document: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of a document."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class _Builder:
    """Collects the nodes that the runs of a spec need; every method returns the identity of the node it makes."""

    def __init__(self, spec: Spec, facts: Facts, limit: int | None, compared: list[dict[str, Any]]) -> None:
        self.spec = spec
        self.compared = compared
        self.facts = facts
        self.limited = limit is not None and limit < spec.samples
        self.samples = limit if self.limited else spec.samples
        self.targets = {target.name: target for target in spec.target}
        self.nodes: dict[str, Node] = {}
        self.order_model = cache(self._order_model)

    def evaluate(self, run: Run) -> str:
        cell, target = run.cell, self.targets[run.cell.target]
        inputs: dict[str, Any] = {}
        given: dict[str, str] = {}
        if cell.drafter == "spot":
            inputs, given = self.order_model(target, cell.block_length, cell.method)
            if cell.floor == "calibrated":
                inputs = {**inputs, "floor": self.calibrate_floor(target, cell.block_length, cell.method)}
        elif cell.drafter == "spiffy":
            inputs["spiffy"] = self.calibrate_spiffy(target, cell.block_length, cell.method)
        if cell.verifier in LAW_ONLY:
            inputs = {**inputs, "check": self.check_rejection(target, cell.block_length, cell.verifier, cell.temperature)}
        settings = {key: value for key, value in cell.columns.items() if key not in ("target", "method")}
        params = {
            **settings,
            "drafter_options": _options(self.spec, cell.method),
            "split": "test",
            "first": 0,
            "samples": self.samples,
            "seed": run.seed,
            "allow_code_execution": executes_code(cell.task),
            **({"check_logits": True} if self.spec.check_logits and not cell.is_control else {}),
        }
        pools = [{"task": cell.task, "split": "test", "first": 0, "count": self.samples}]
        return self._add(
            "evaluate",
            run_label(self.spec, run),
            params,
            inputs,
            target,
            pools,
            given=given,
            cell=cell.columns,
            seed=run.seed,
            timing_sensitive=True,
            limited=self.limited,
        )

    def pretrain(self, target: TargetRef) -> str:
        settings = self.spec.stages.pretrain.model_dump(mode="json", exclude_none=True)
        params = {"embedded": target.name, **settings}
        # The training stream has no end; its start stands for it in the identity.
        stream = [{"task": task, "split": "train", "first": 0, "count": 100} for task in generated_tasks()]
        start = TargetRef(name=STARTS[target.name]) if target.name in STARTS else None
        return self._add("pretrain", f"pretrain/{target.name}", params, {}, pools=stream, start=start)

    def collect(self, target: TargetRef, block_length: int, method: str, shard: int) -> str:
        stage = self.spec.stages_of(method).collect
        start = shard * stage.shard_prompts
        pools = deal(stage.task, STAGE_SPLITS["collect"], start, min(start + stage.shard_prompts, stage.prompts))
        params = {**_fields(stage, {"task", "prompts", "shard_prompts"}), "block_length": block_length, "pools": pools}
        label = self._stage_label("collect", target, block_length, method, "collect")
        read = any(pool["task"] not in generated_tasks() for pool in pools)
        compared = self.compared if read else []
        return self._add("collect", f"{label}/shard-{shard}", params, {}, target, pools, compared)

    def _order_model(
        self, target: TargetRef, block_length: int, method: str
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Inputs and given files: the node that trains the order model of a method, or the directory that it is in."""
        options = self.spec.drafter_settings(method)
        if options.order_model is not None:
            return {}, {"order_model": options.order_model}
        target, block_length = self._made_on(target, block_length, options.trained_on)
        stages = self.spec.stages_of(method)
        count = -(-stages.collect.prompts // stages.collect.shard_prompts)
        shards = [self.collect(target, block_length, method, shard) for shard in range(count)]
        label = self._stage_label("train", target, block_length, method, "collect", "train")
        return {"order_model": self._add("train", label, _fields(stages.train), {"shards": shards})}, {}

    def calibrate_spiffy(self, target: TargetRef, block_length: int, method: str) -> str:
        stage, options = self.spec.stages_of(method).calibrate_spiffy, self.spec.drafter_settings(method)
        target, block_length = self._made_on(target, block_length, options.calibrated_on)
        pools = deal(stage.task, STAGE_SPLITS["calibrate_spiffy"], 0, stage.prompts)
        params = {**_fields(stage, {"task", "prompts"}), "block_length": block_length, "pools": pools}
        ranking = _options(self.spec, method)
        own = "rank_by" if ranking else "calibrate_spiffy"
        label = self._stage_label("calibrate-spiffy", target, block_length, method, own)
        return self._add("calibrate-spiffy", label, params | ranking, {}, target, pools)

    def calibrate_floor(self, target: TargetRef, block_length: int, method: str) -> str:
        stage, options = self.spec.stages_of(method).calibrate_floor, self.spec.drafter_settings(method)
        inputs, given = self.order_model(target, block_length, method)
        target, block_length = self._made_on(target, block_length, options.calibrated_on)
        pools = deal(stage.task, STAGE_SPLITS["calibrate_floor"], 0, stage.prompts)
        params = {
            **_fields(stage, {"task", "prompts"}),
            "block_length": block_length,
            "pools": pools,
            "drafter_options": _options(self.spec, method),
        }
        label = f"{self._stage_label('calibrate-floor', target, block_length)}/{method}"
        measured = stage.cost == "measured"
        return self._add("calibrate-floor", label, params, inputs, target, pools, given=given, timing_sensitive=measured)

    def check_rejection(self, target: TargetRef, block_length: int, verifier: str, temperature: float) -> str:
        stage = self.spec.stages.check_rejection
        pools = deal(stage.task, STAGE_SPLITS["check_rejection"], 0, stage.prompts)
        params = {
            **_fields(stage, {"task", "prompts"}),
            "block_length": block_length,
            "pools": pools,
            "verifier": verifier,
            "temperature": temperature,
        }
        label = f"{self._stage_label('check-rejection', target, block_length)}/{verifier}/T{temperature:g}"
        return self._add("check-rejection", label, params, {}, target, pools)

    def _made_on(self, target: TargetRef, block_length: int, place: MadeOn | None) -> tuple[TargetRef, int]:
        """Where an artifact is made: on the target it serves, unless the drafter names another place."""
        if place is None:
            return target, block_length
        return self.spec.target_of(place), place.block_length or block_length

    def _stage_label(self, kind: str, target: TargetRef, block_length: int, method: str = "", *options: str) -> str:
        """The method is named if it has one of these options of its own."""
        several = self.spec.block_length != (block_length,)
        own = method and any(getattr(self.spec.drafter_settings(method), name, None) for name in options)
        return f"{kind}/{target.name}" + f"/b{block_length}" * several + f"/{method}" * bool(own)

    def _add(
        self,
        kind: str,
        label: str,
        params: dict[str, Any],
        inputs: dict[str, Any],
        target: TargetRef | None = None,
        pools: Iterable[Mapping[str, Any]] = (),
        compared: Iterable[Mapping[str, Any]] = (),
        given: Mapping[str, str] | None = None,
        start: TargetRef | None = None,
        **about: Any,
    ) -> str:
        """`pools` decide the output; the samples `compared` with them are only reported on, so no identity holds
        them. `given`: role -> directory of the user that is read like the output of a node. `start`: the packaged
        target whose weights a training goes on from."""
        determinants = {"kind": kind, "version": stage_version(kind), "params": params}
        if start is not None:
            determinants["start"] = self.facts.target_digest(start)
        if target is not None:
            params = {**params, "target": target.reference}
            if self._must_pretrain(target):
                inputs = {**inputs, "target": self.pretrain(target)}
            else:
                determinants["target"] = self.facts.target_digest(target)
        determinants["upstream"] = inputs
        pools, compared = list(pools), list(compared)
        read = [pool["task"] for pool in (*pools, *compared)]
        data = {task: self.spec.data[task] for task in read if task in self.spec.data}
        params = {**params, **({"data": data} if data else {}), **({"compared": compared} if compared else {})}
        determinants["samples"] = [self._samples_digest(pool, data) for pool in pools]
        if any(pool["task"] not in generated_tasks() for pool in pools):
            params = {**params, "sample_digests": determinants["samples"]}  # the worker reads the data again
        if given:
            params = {**params, "given": dict(given)}
            determinants["given"] = {role: self.facts.order_model_digest(path) for role, path in given.items()}
        if about.get("limited"):
            determinants["limited"] = True
        identity = digest(determinants)
        node = Node(kind, label, params, inputs, identity, determinants, **about)
        _keep(self.nodes, node)
        return identity

    def _samples_digest(self, pool: Mapping[str, Any], data: Mapping[str, Any]) -> str:
        own = data.get(pool["task"])
        return self.facts.samples_digest(**pool, **({"data": json.dumps({pool["task"]: own})} if own else {}))

    def _must_pretrain(self, target: TargetRef) -> bool:
        return target.checkpoint is None and (self.spec.pretrain or not self.facts.has_weights(target))


def run_label(spec: Spec, run: Run) -> str:
    """evaluate/tiny-math/spot/D8/T0/s0, plus a part for every other setting that has several values in this spec."""
    cell = run.cell
    several = {
        key for key in Spec.model_fields if isinstance(getattr(spec, key), tuple) and len(getattr(spec, key)) > 1
    }
    parts = ["evaluate", *([cell.target] if "target" in several else []), cell.task, cell.method]
    if not cell.is_control:
        parts.append(f"D{cell.budget}")
        parts += [cell.verifier] if "verifier" in several else []
        parts += [cell.layout] if "layout" in several else []
        parts += ["padded" if cell.padded else "unpadded"] if "padded" in several else []
    parts += [cell.commit_rule] if "commit_rule" in several else []
    parts += [cell.cache] if "cache" in several else []
    parts += [cell.stop] if "stop" in several else []
    parts += [f"G{cell.generation_length}"] if "generation_length" in several else []
    parts += [f"b{cell.block_length}"] if "block_length" in several else []
    return "/".join([*parts, f"T{cell.temperature:g}", f"s{run.seed}"])


# Settings that came later, at what their absence means: left out of identities then, so that these stay what they were.
LATER = {"rank_by": "confidence", "temperature": 0.0}


def _fields(section: Section, without: set[str] | None = None) -> dict[str, Any]:
    values = section.model_dump(mode="json", exclude=without)
    return {key: value for key, value in values.items() if key not in LATER or value != LATER[key]}


def _options(spec: Spec, method: str) -> dict[str, Any]:
    """What the drafter of a method drafts with, but its floor. Defaults are in it, so stating one changes nothing."""
    elsewhere = {"kind", "floor", "order_model", *STAGE_OPTIONS, *MADE_ON}
    return _fields(spec.drafter_settings(method), elsewhere) if method != "control" else {}


_ORDER = ("pretrain", "collect", "train", "calibrate-spiffy", "calibrate-floor", "check-rejection", "evaluate")


def _flat(inputs: Iterable[str | list[str]]) -> Iterable[str]:
    for value in inputs:
        yield from [value] if isinstance(value, str) else value
