"""The task graph and the plan: what exists, in which order, what an identity depends on, and what runs again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import facts
from pipeline.facts import Facts
from pipeline.graph import Graph, build_graph, deal
from pipeline.plan import NodeState, PlanRow, plan
from pipeline.stage_settings import CalibrateFloor, CalibrateSpiffy, Collect, Train
from pipeline.spec import parse_spec
from workers.errors import UserError
from workers.targets.config import TransformerConfig
from workers.targets.families.sdar import SDAR

SPEC = """\
name: first
target: tiny-sdar
task: tiny-math
drafter: [none, spot, gamma, spiffy, chain, tree]
budget: [4, 8]
temperature: [0, 1]
seed: [0, 1]
samples: 2
drafters:
  gamma: {kind: spot, floor: calibrated, hedge: 2}
  chain: {kind: chain, depth: 4}
stages:
  collect: {prompts: 8, shard_prompts: 4, batch: 4, generation_length: 64}
  train: {layers: 2, width: 64, heads: 4, root_layers: 1, d_max: 7, epochs: 2, lr: 1e-3, batch: 32, prefixes: 2,
          examples_per_epoch: 100, held_out: 0.25, held_out_examples: 50, seed: 0}
  calibrate_spiffy: {prompts: 4, nodes: 12, lookahead: 4, token_ranks: 4, batch: 8, generation_length: 64}
  calibrate_floor: {prompts: 2, grid: [0, 0.1], budgets: [4], tie_band: 0.03, cost: measured, generation_length: 64}
execution: {actors: 1, threads: 1}
outliers: {z: 3, margin: 0.2, max_reruns: 1}
control: {retime_after_s: 60}
"""
METHODS = {"spot", "gamma", "spiffy", "chain", "tree"}
FACTS = Facts()


@pytest.fixture(scope="module", autouse=True)
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stand-in for the packaged target: identities depend on the bytes only, so any will do."""
    folder = tmp_path_factory.mktemp("target")
    shape = TransformerConfig(64, 16, 1, 2, 2, 8, 32, max_positions=2048)
    (folder / "config.json").write_text(json.dumps(SDAR.publish_config(shape)))
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "tokenizer.json").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(facts.PACKAGED, "tiny-sdar", folder)
        yield folder


def graph_of(*overrides: str, text: str = SPEC, limit: int | None = None, fresh: bool = False) -> Graph:
    return build_graph(parse_spec(text, overrides=overrides), limit, Facts() if fresh else FACTS)


def identities(graph: Graph) -> dict[str, str]:
    return {node.label: node.identity for node in graph.nodes}


def changed(before: Graph, after: Graph) -> set[str]:
    old, new = identities(before), identities(after)
    assert old.keys() == new.keys()
    return {label for label in old if old[label] != new[label]}


def evaluations(graph: Graph, methods: set[str]) -> set[str]:
    return {node.label for node in graph.nodes if node.cell and node.cell["method"] in methods}


def of_kind(graph: Graph, *kinds: str) -> set[str]:
    return {node.label for node in graph.nodes if node.kind in kinds}


def test_nodes_edges_and_order() -> None:
    graph = graph_of()
    labels = identities(graph)
    assert len(graph.nodes) == len(labels) == len(set(labels.values()))
    stages = {"collect/tiny-sdar/shard-0", "collect/tiny-sdar/shard-1", "train/tiny-sdar", "calibrate-spiffy/tiny-sdar"}
    assert labels.keys() - of_kind(graph, "evaluate") == stages | {"calibrate-floor/tiny-sdar/gamma"}
    assert {"evaluate/tiny-math/spot/D8/T0/s1", "evaluate/tiny-math/control/T1/s0"} <= labels.keys()
    assert len(of_kind(graph, "evaluate")) == 2 * 2 * (1 + 5 * 2)
    assert not of_kind(graph, "pretrain")

    seen: set[str] = set()
    for place, node in enumerate(graph.nodes):
        assert set(node.upstream) <= seen, "upstream comes first"
        assert node.priority == place
        json.dumps(node.params)
        seen.add(node.identity)
    roles = {node.label: set(node.inputs) for node in graph.nodes}
    assert roles["train/tiny-sdar"] == {"shards"}
    assert roles["calibrate-floor/tiny-sdar/gamma"] == {"order_model"}
    assert roles["evaluate/tiny-math/spot/D8/T0/s1"] == {"order_model"}
    assert roles["evaluate/tiny-math/gamma/D8/T0/s1"] == {"order_model", "floor"}
    assert roles["evaluate/tiny-math/spiffy/D8/T0/s1"] == {"spiffy"}
    free = evaluations(graph, {"control", "chain", "tree"}) | of_kind(graph, "collect", "calibrate-spiffy")
    assert not any(roles[label] for label in free)
    timed = {node.label for node in graph.nodes if node.timing_sensitive}
    assert timed == of_kind(graph, "evaluate", "calibrate-floor")


def test_stages_that_nobody_needs_are_not_there() -> None:
    assert of_kind(graph_of("drafter=[chain, tree]")) == set()
    assert {node.kind for node in graph_of("drafter=[chain, tree]").nodes} == {"evaluate"}
    assert {node.kind for node in graph_of("drafter=spot").nodes} == {"collect", "train", "evaluate"}
    declared = graph_of("stages.calibrate_floor.cost={replica: 0.9, level: 0.3}")
    assert {node.kind for node in declared.nodes if node.timing_sensitive} == {"evaluate"}


# Override -> the nodes of a changed identity; all others keep theirs.
SPOTS = {"spot", "gamma"}
CHANGES = {
    "stages.train.lr=2e-3": (("train", "calibrate-floor"), SPOTS),
    "stages.collect.batch=2": (("collect", "train", "calibrate-floor"), SPOTS),
    "stages.calibrate_spiffy.nodes=9": (("calibrate-spiffy",), {"spiffy"}),
    "stages.calibrate_floor.tie_band=0.1": (("calibrate-floor",), {"gamma"}),
    "drafters.gamma.hedge=4": (("calibrate-floor",), {"gamma"}),
    "drafters.chain.depth=3": ((), {"chain"}),
    "samples=3": ((), METHODS | {"control"}),
    "generation_length=96": ((), METHODS | {"control"}),
    "stop=eos": ((), METHODS | {"control"}),
    "layout=concat": ((), METHODS),
    "padded=true": ((), METHODS),
    "verifier=uncoupled": ((), METHODS),  # above temperature 0 only, see below
    "name=second": ((), set()),
    "allow_code_execution=true": ((), set()),
    "execution.actors=8": ((), set()),
    "execution.failure_threshold=1": ((), set()),
    "outliers.z=9": ((), set()),
    "control.retime_after_s=5": ((), set()),
}


@pytest.mark.parametrize("override", CHANGES)
def test_a_setting_changes_what_depends_on_it_and_nothing_else(override: str) -> None:
    graph = graph_of()
    kinds, methods = CHANGES[override]
    expected = of_kind(graph, *kinds) | evaluations(graph, methods)
    if override.startswith("verifier"):
        expected = {label for label in expected if "/T1/" in label}
    assert changed(graph, graph_of(override)) == expected


@pytest.mark.parametrize(
    ("kind", "section", "model"),
    [
        ("collect", "collect", Collect),
        ("train", "train", Train),
        ("calibrate-spiffy", "calibrate_spiffy", CalibrateSpiffy),
        ("calibrate-floor", "calibrate_floor", CalibrateFloor),
    ],
)
def test_every_stage_setting_counts(kind: str, section: str, model: type) -> None:
    """Each setting of a stage is in the identity of its nodes, and so in that of everything downstream."""
    values = {
        "task": "tiny-math",
        "prompts": 6,
        "shard_prompts": 5,
        "heads": 1,
        "top": 8,
        "accumulation": "none",
        "optimizer": "muon",
        "lr": 0.5,
        "held_out": 0.5,
        "grid": "[0, 0.2]",
        "budgets": "[4, 8]",
        "tie_band": 0.5,
        "cost": "{replica: 1, level: 0}",
    }
    graph = graph_of()
    own = {node.identity for node in graph.nodes if node.kind == kind}
    reached = own.union(*(graph.downstream(identity) for identity in own))
    expected = {graph.by_identity[identity].label for identity in reached}
    for name in model.model_fields:
        found = changed(graph, graph_of(f"stages.{section}.{name}={values.get(name, 128)}"))
        kept = {"collect/tiny-sdar/shard-0"} if (kind, name) == ("collect", "prompts") else set()  # a whole shard
        assert found == expected - kept, name


@settings(max_examples=30)
@given(data=st.data())
def test_identity_ignores_order_comments_and_execution(data: st.DataObject) -> None:
    sections = SPEC.replace("\n  ", "\0  ").splitlines()
    lines = data.draw(st.permutations(sections))
    comments = data.draw(
        st.lists(st.sampled_from(["# a comment", "", "   # seed: 3"]), min_size=len(lines), max_size=len(lines))
    )
    text = "\n".join(part for pair in zip(comments, lines, strict=True) for part in pair).replace("\0", "\n")
    neutral = [
        "execution.actors=4",
        "execution.threads=2",
        "outliers.margin=0.5",
        "control.retime_after_s=9",
        "name=other",
        "verifier=auto",
        "drafters.gamma.hedge_below=0.6",
        "drafters.tree={kind: tree}",
    ]
    overrides = data.draw(st.lists(st.sampled_from(neutral), unique=True))
    before, after = graph_of(), graph_of(*overrides, text=text)
    assert identities(before) == identities(after)
    assert before.identity == after.identity


def test_identity_is_the_same_in_every_process(packaged: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pipeline import facts, graph, spec\n"
        "facts.PACKAGED['tiny-sdar'] = Path(sys.argv[1])\n"
        "print(graph.build_graph(spec.parse_spec(sys.argv[2])).identity)"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code, str(packaged), SPEC],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": str(Path(__file__).parent.parent),
                "HF_HOME": f"/hf/{seed}",
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert printed == {graph_of().identity}


def test_identity_follows_the_content_of_a_target_not_its_place(packaged: Path, tmp_path: Path) -> None:
    def graph_at(folder: Path, label: str) -> Graph:
        return graph_of(f"target={{checkpoint: {folder}, name: {label}}}", fresh=True)

    shutil.copytree(packaged, tmp_path / "copy")
    original, copy = graph_at(packaged, "mine"), graph_at(tmp_path / "copy", "yours")
    assert original.identity == copy.identity == graph_of().identity
    (tmp_path / "copy" / "model.safetensors").write_bytes(b"other weights")
    assert not {node.identity for node in graph_at(tmp_path / "copy", "mine").nodes} & set(original.by_identity)


def test_identity_follows_stage_version_and_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of()
    monkeypatch.setitem(facts.STAGE_VERSIONS, "evaluate", facts.STAGE_VERSIONS["evaluate"] + 1)
    assert changed(graph, graph_of()) == of_kind(graph, "evaluate")
    monkeypatch.undo()
    digest = FACTS.samples_digest
    monkeypatch.setattr(FACTS, "samples_digest", lambda **pool: digest(**pool) + "!" * (pool["split"] == "test"))
    assert changed(graph, graph_of()) == of_kind(graph, "evaluate")


def test_target_is_built_where_its_weights_are_absent_or_asked_for(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = graph_of("pretrain=true")
    monkeypatch.setitem(facts.PACKAGED, "tiny-sdar", tmp_path)
    absent = graph_of(fresh=True)
    assert asked.identity == absent.identity
    first, *others = absent.nodes
    assert first.label == "pretrain/tiny-sdar"
    assert absent.downstream(first.identity) == {node.identity for node in others}
    assert all(node.inputs["target"] == first.identity for node in others if node.kind != "train")
    assert changed(absent, graph_of("stages.pretrain.seed=1", fresh=True)) == {node.label for node in absent.nodes}


def test_a_training_that_goes_on_from_a_target_is_another_if_that_target_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pretraining(target: str) -> str:
        text = f"target: {target}\npretrain: true\ntask: tiny-math\ndrafter: none\nsamples: 1\n"
        return identities(graph_of(text=text))[f"pretrain/{target}"]

    before = pretraining("tiny-llada"), pretraining("tiny-sdar")
    digest = FACTS.target_digest
    monkeypatch.setattr(FACTS, "target_digest", lambda target: digest(target) + "!" * (target.name == "tiny-sdar"))
    assert pretraining("tiny-llada") != before[0]
    assert pretraining("tiny-sdar") == before[1]


def test_limit_cuts_and_marks() -> None:
    graph, cut = graph_of(), graph_of(limit=1)
    assert changed(graph, cut) == of_kind(graph, "evaluate")
    assert all(node.limited and node.params["samples"] == 1 for node in cut.nodes if node.kind == "evaluate")
    assert graph_of(limit=2).identity == graph_of(limit=99).identity == graph.identity
    # A spec of one sample is not the same run: it counts in tables, a limited one does not.
    assert changed(cut, graph_of("samples=1")) == of_kind(graph, "evaluate")
    with pytest.raises(UserError, match="limit"):
        graph_of(limit=0)


def test_labels_stay_unique_when_everything_varies() -> None:
    several = ["padded=[true, false]", "layout=[batch, concat]", "verifier=[coupled, uncoupled]", "stop=[fill, eos]"]
    graph = graph_of(*several, "generation_length=[32, 64]", "drafter=[spot, chain]")
    assert len(identities(graph)) == len(graph.nodes) == len(graph.by_identity)


@given(st.integers(1, 60), st.integers(1, 25), st.integers(1, 3))
def test_shards_deal_every_prompt_once_and_evenly(prompts: int, size: int, tasks: int) -> None:
    names = [f"task{index}" for index in range(tasks)]
    dealt = [
        (pool["task"], index)
        for start in range(0, prompts, size)
        for pool in deal(names, "pool", start, min(start + size, prompts))
        for index in range(pool["first"], pool["first"] + pool["count"])
    ]
    assert sorted(dealt) == sorted((names[index % tasks], index // tasks) for index in range(prompts))


def test_settings_of_stages_are_the_ones_the_stages_know() -> None:
    from workers.stages import calibrate_floor, calibrate_spiffy, train

    assert Train().model_dump() == train.DEFAULTS
    for model, stage in ((CalibrateSpiffy(), calibrate_spiffy), (CalibrateFloor(), calibrate_floor)):
        own = json.loads(model.model_dump_json(exclude={"task", "prompts", "generation_length"}))
        assert own.items() <= stage.DEFAULTS.items()


def rows_of(graph: Graph, states: dict[str, NodeState], **options: object) -> dict[str, PlanRow]:
    """Plan rows by label; `states` is by label too."""
    labels = identities(graph)
    rows = plan(graph, {labels[label]: state for label, state in states.items()}, **options)
    assert [row.identity for row in rows] == [node.identity for node in graph.nodes]
    return {row.label: row for row in rows}


DONE = NodeState("done", attempt=2)


def test_plan_of_nothing_and_of_everything() -> None:
    graph = graph_of()
    fresh = rows_of(graph, {})
    assert {row.action for row in fresh.values()} == {"run"}
    assert fresh["collect/tiny-sdar/shard-0"].reason == "missing"
    assert fresh["train/tiny-sdar"].reason == "upstream collect/tiny-sdar/shard-0 and 1 more will run"
    done = rows_of(graph, {label: DONE for label in identities(graph)})
    assert {(row.action, row.reason) for row in done.values()} == {("done", "done (attempt 2)")}


def test_plan_runs_only_what_a_missing_run_needs() -> None:
    graph = graph_of()
    states = {label: DONE for label in of_kind(graph, "evaluate")}
    assert {row.action for row in rows_of(graph, states).values()} == {"done", "skip"}

    states.pop("evaluate/tiny-math/spot/D4/T0/s0")
    rows = rows_of(graph, states)
    running = {label for label, row in rows.items() if row.action == "run"}
    assert running == of_kind(graph, "collect", "train") | {"evaluate/tiny-math/spot/D4/T0/s0"}

    states["train/tiny-sdar"] = DONE  # the shards may be gone: nobody reads them any more
    rows = rows_of(graph, states)
    assert {label for label, row in rows.items() if row.action == "run"} == {"evaluate/tiny-math/spot/D4/T0/s0"}
    assert rows["collect/tiny-sdar/shard-0"].action == "skip"


def test_plan_after_a_failure() -> None:
    graph = graph_of()
    states = {label: DONE for label in identities(graph)}
    states["train/tiny-sdar"] = NodeState("failed", message="Traceback ...\nValueError: no states")
    states.pop("evaluate/tiny-math/spot/D4/T0/s0")
    rows = rows_of(graph, states)
    assert rows["train/tiny-sdar"].action == "run"
    assert rows["train/tiny-sdar"].reason == "failed before: ValueError: no states"
    assert rows["evaluate/tiny-math/spot/D4/T0/s0"].reason == "upstream train/tiny-sdar will run"
    rows = rows_of(graph, states, retry_failed=False)
    assert rows["train/tiny-sdar"].action == "blocked"
    assert rows["evaluate/tiny-math/spot/D4/T0/s0"].reason == "upstream train/tiny-sdar failed"
    states["train/tiny-sdar"] = NodeState("running", attempt=3)  # of a driver that is gone
    assert rows_of(graph, states)["train/tiny-sdar"].reason == "not finished (running, attempt 3)"


def test_plan_names_the_setting_that_changed() -> None:
    before = graph_of()
    previous = {node.label: node.determinants for node in before.nodes}
    after = graph_of("stages.train.lr=2e-3", "stages.train.epochs=3")
    states = {node.label: DONE for node in after.nodes if node.identity in before.by_identity}
    rows = rows_of(after, states, previous=previous)
    assert rows["train/tiny-sdar"].reason == "changed: epochs: 2 -> 3, lr: 0.001 -> 0.002"
    assert rows["evaluate/tiny-math/spot/D8/T1/s0"].reason == "upstream train/tiny-sdar will run"
    assert rows["evaluate/tiny-math/chain/D8/T1/s0"].action == "done"
    limited = rows_of(graph_of(limit=1), {}, previous=previous)
    assert limited["evaluate/tiny-math/chain/D8/T1/s0"].reason == "changed: samples: 2 -> 1"
