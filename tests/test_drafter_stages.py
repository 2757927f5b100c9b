"""Drafters with stage settings of their own, and drafters whose artifacts are made on another target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import facts
from pipeline.facts import Facts
from pipeline.graph import Graph, Node, build_graph
from pipeline.paths import artifact_path, input_paths
from pipeline.spec import parse_spec
from pipeline.yaml_source import SpecError
from workers.stages import run_stage
from workers.targets.make_checkpoint import make_checkpoint

SPEC = """\
name: own
target: tiny-sdar
task: tiny-math
drafter: [spot, small, spiffy]
budget: 4
samples: 1
generation_length: 8
drafters:
  small: {kind: spot, train: {layers: 1}}
stages:
  collect: {prompts: 4, shard_prompts: 2, batch: 2, generation_length: 8, task: tiny-math}
  train: {layers: 2, width: 16, heads: 2, epochs: 1, held_out: 0.5, held_out_examples: 20, examples_per_epoch: 40}
  calibrate_spiffy: {prompts: 2, nodes: 6, lookahead: 3, generation_length: 8, task: tiny-math}
  calibrate_floor: {prompts: 1, grid: [0, 0.1], budgets: 4, generation_length: 8, task: tiny-math,
                    cost: {replica: 1, level: 0}}
"""


def graph_of(*overrides: str) -> Graph:
    return build_graph(parse_spec(SPEC, "spec.yaml", overrides=overrides), None, Facts())


def by_label(graph: Graph) -> dict[str, Node]:
    return {node.label: node for node in graph.nodes}


def problems(*overrides: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse_spec(SPEC, "spec.yaml", overrides=overrides)
    return [str(problem) for problem in caught.value.problems]


def test_own_training_replaces_only_what_it_states_and_shares_the_corpus() -> None:
    nodes = by_label(graph_of())
    shared, own = nodes["train/tiny-sdar"], nodes["train/tiny-sdar/small"]
    assert own.params == {**shared.params, "layers": 1}
    assert own.inputs == shared.inputs
    assert nodes["evaluate/tiny-math/small/D4/T0/s0"].inputs == {"order_model": own.identity}
    assert nodes["evaluate/tiny-math/spot/D4/T0/s0"].inputs == {"order_model": shared.identity}


def test_own_settings_leave_the_other_nodes_and_the_options_as_they_were() -> None:
    without = build_graph(parse_spec(SPEC.replace(", train: {layers: 1}", ", hedge: 4")))
    same, other = by_label(without), by_label(graph_of())
    kept = {label for label in same if "small" not in label}
    assert {label: same[label].identity for label in kept} == {label: other[label].identity for label in kept}
    assert set(other["evaluate/tiny-math/small/D4/T0/s0"].params["drafter_options"]) == {
        "hedge",
        "hedge_below",
        "tau",
        "shape",
    }


def test_a_larger_corpus_of_ones_own_keeps_the_shards_it_has_in_common() -> None:
    nodes = by_label(graph_of("drafters.small={kind: spot, collect: {prompts: 6}}"))
    assert set(nodes["train/tiny-sdar/small"].inputs["shards"]) > set(nodes["train/tiny-sdar"].inputs["shards"])
    assert {label for label in nodes if label.startswith("collect")} == {
        "collect/tiny-sdar/shard-0",
        "collect/tiny-sdar/shard-1",
        "collect/tiny-sdar/small/shard-2",
    }


def test_calibration_of_ones_own() -> None:
    nodes = by_label(
        graph_of(
            "drafter=[spiffy, wide, gamma]",
            "drafters.wide={kind: spiffy, calibrate_spiffy: {nodes: 9}}",
            "drafters.gamma={kind: spot, floor: calibrated, calibrate_floor: {tie_band: 0.5}}",
        )
    )
    shared, own = nodes["calibrate-spiffy/tiny-sdar"], nodes["calibrate-spiffy/tiny-sdar/wide"]
    assert own.params == {**shared.params, "nodes": 9}
    assert nodes["calibrate-floor/tiny-sdar/gamma"].params["tie_band"] == 0.5


def test_noise_aware_spiffy_has_a_graph_of_its_own() -> None:
    nodes = by_label(
        graph_of(
            "drafter=[spiffy, aware, sampled]",
            "temperature=[0, 1]",
            "drafters={aware: {kind: spiffy, rank_by: draw}, sampled: {kind: spiffy, calibrate_spiffy: {temperature: 1}}}",
        )
    )
    plain = nodes["calibrate-spiffy/tiny-sdar"].params
    assert nodes["calibrate-spiffy/tiny-sdar/aware"].params == {**plain, "rank_by": "draw"}
    assert nodes["calibrate-spiffy/tiny-sdar/sampled"].params == {**plain, "temperature": 1}
    assert nodes["evaluate/tiny-math/aware/D4/T1/s0"].params["drafter_options"] == {"rank_by": "draw"}
    assert nodes["evaluate/tiny-math/spiffy/D4/T1/s0"].params["drafter_options"] == {}


def test_noise_aware_spiffy_calibrates_on_draws_and_stays_exact(tmp_path: Path) -> None:
    own = make_checkpoint("sdar", tmp_path / "own")
    graph = graph_of(
        f"target={{checkpoint: {own}, name: own}}",
        "temperature=1",
        "drafter=[none, aware]",
        "drafters={aware: {kind: spiffy, rank_by: draw, calibrate_spiffy: {temperature: 1}}}",
    )
    results = run_graph(graph, tmp_path / "home")
    control, drafted = (results[f"evaluate/tiny-math/{name}/T1/s0"] for name in ("control", "aware/D4"))
    assert drafted.samples["tokens"] == control.samples["tokens"]
    node = next(node for node in graph.nodes if node.kind == "calibrate-spiffy")
    drawn = json.loads((artifact_path(tmp_path / "home", node.identity) / "graph.json").read_text())
    assert (drawn["temperature"], drawn["rank_by"]) == (1, "draw")
    assert {token for entry in drawn["nodes"] for _, token in entry["pairs"]} == {0}


def test_artifacts_of_another_target(tmp_path: Path) -> None:
    other = f"{{checkpoint: {make_checkpoint('sdar', tmp_path / 'other')}, name: other}}"
    nodes = by_label(
        graph_of(
            "drafter=[spot, moved, graph]",
            f"drafters={{moved: {{kind: spot, floor: calibrated, trained_on: {other}}}, graph: {{kind: spiffy, calibrated_on: {other}}}}}",
        )
    )
    run = nodes["evaluate/tiny-math/moved/D4/T0/s0"]
    assert run.inputs == {
        "order_model": nodes["train/other"].identity,
        "floor": nodes["calibrate-floor/tiny-sdar/moved"].identity,
    }
    assert run.params["target"] == "tiny-sdar"
    assert nodes["collect/other/shard-0"].params["target"]["checkpoint"] == str(tmp_path / "other")
    assert nodes["evaluate/tiny-math/graph/D4/T0/s0"].inputs == {"spiffy": nodes["calibrate-spiffy/other"].identity}


def test_a_name_means_the_target_of_the_spec_that_has_it(tmp_path: Path) -> None:
    mine = f"{{checkpoint: {make_checkpoint('sdar', tmp_path / 'mine')}, name: mine}}"
    nodes = by_label(
        graph_of(
            f"target=[tiny-sdar, {mine}]",
            "drafter=[spot, moved]",
            "drafters={moved: {kind: spot, trained_on: mine}}",
            "exclude=[{target: mine, drafter: moved}]",
        )
    )
    native = nodes["evaluate/mine/tiny-math/spot/D4/T0/s0"]
    assert nodes["evaluate/tiny-sdar/tiny-math/moved/D4/T0/s0"].inputs == native.inputs


def test_another_block_length_to_train_at() -> None:
    nodes = by_label(
        graph_of("block_length=16", "drafters.small={kind: spot, trained_on: {name: tiny-sdar, block_length: 32}}")
    )
    assert nodes["train/tiny-sdar"].inputs != nodes["train/tiny-sdar/b32"].inputs
    assert nodes["collect/tiny-sdar/b32/shard-0"].params["block_length"] == 32
    assert nodes["evaluate/tiny-math/small/D4/T0/s0"].inputs == {"order_model": nodes["train/tiny-sdar/b32"].identity}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("drafters.small.train.layres=3", "drafters.small.train.layres: unknown key; did you mean 'layers'?"),
        ("drafters.small.train.width=9", "drafters.small.train.width: width 9 is not a multiple of heads 2"),
        ("drafters.small.calibrate_spiffy={nodes: 3}", "drafters.small.calibrate_spiffy: unknown key"),
        ("drafters.small.collect={task: tiny-maht}", "drafters.small.collect.task: unknown task or pool 'tiny-maht'"),
        ("drafters.small={kind: spot, train: {layers: 2}}", "drafter[1]: 'small' is the same drafter as 'spot'"),
        ("drafters.small.trained_on=tiny-sadr", "unknown target 'tiny-sadr'; did you mean 'tiny-sdar'?"),
        ("drafters.small.trained_on={name: tiny-sdar, block_length: 7}", "decodes at block length 16 or 32, got 7"),
        ("drafters.small.trained_on={checkpoint: /nowhere, name: x}", "target '/nowhere': no such directory"),
        ("drafters.small.trained_on={checkpoint: /nowhere, name: tiny-sdar}", "another target is called 'tiny-sdar'"),
        ("drafters.small={kind: spot, order_model: /nowhere}", "/nowhere: there is no order_model.json"),
        ("drafters.small.order_model=/nowhere", "order_model is trained already, so train has no meaning beside it"),
    ],
)
def test_mistakes_name_the_setting(override: str, expected: str) -> None:
    found = problems(override)
    assert any(expected in line and line.startswith("--set drafters.small") for line in found) or (
        expected.startswith("drafter[1]") and any(expected in line for line in found)
    ), found


class Session:
    """A stage session on this machine; targets are loaded once."""

    device, dtype, journal = "cpu", "float32", None

    def __init__(self) -> None:
        self.loaded: dict[str, object] = {}

    def target(self, reference: dict | str, block_length: int) -> object:
        from workers.targets.load import load_target

        key = json.dumps([reference, block_length])
        if key not in self.loaded:
            self.loaded[key] = load_target(reference, block_length)
        return self.loaded[key]

    def progress(self, done: int, total: int, **figures: float) -> None:
        pass


def run_graph(graph: Graph, home: Path) -> dict[str, object]:
    """Runs every node here; evaluate results by label."""
    session, results = Session(), {}
    for node in graph.nodes:
        place = artifact_path(home, node.identity)
        place.mkdir(parents=True, exist_ok=True)
        results[node.label] = run_stage(node.kind, node.params, input_paths(home, node), place, session)
    return results


def test_artifacts_work_on_a_target_of_another_family_width_and_vocabulary(tmp_path: Path) -> None:
    """A block-causal target with blocks of 16 drafts with what a full-attention one with blocks of 8 has taught."""
    own = make_checkpoint("sdar", tmp_path / "own")
    other = make_checkpoint("llada", tmp_path / "other", seed=1)
    place = f"{{checkpoint: {other}, name: other, block_length: 8}}"
    graph = graph_of(
        f"target={{checkpoint: {own}, name: own}}",
        "block_length=16",
        "drafter=[none, moved, graph]",
        f"drafters={{moved: {{kind: spot, trained_on: {place}}}, graph: {{kind: spiffy, calibrated_on: {place}}}}}",
    )
    results = run_graph(graph, tmp_path / "home")
    control = results["evaluate/tiny-math/control/T0/s0"]
    for method in ("moved", "graph"):
        result = results[f"evaluate/tiny-math/{method}/D4/T0/s0"]
        assert result.samples["tokens"] == control.samples["tokens"]
        assert sum(result.rounds["drafted"].to_pylist()) > 0

    trained = next(artifact_path(tmp_path / "home", node.identity) for node in graph.nodes if node.kind == "train")
    given = graph_of(
        f"target={{checkpoint: {own}, name: own}}",
        "block_length=16",
        "drafter=given",
        f"drafters={{given: {{kind: spot, order_model: {trained}}}}}",
    )
    assert {node.kind for node in given.nodes} == {"evaluate"}
    again = run_graph(given, tmp_path / "home")["evaluate/tiny-math/given/D4/T0/s0"]
    assert again.rounds["drafted"] == results["evaluate/tiny-math/moved/D4/T0/s0"].rounds["drafted"]


def test_an_order_model_of_ones_own_counts_by_its_content(tmp_path: Path) -> None:
    for name in facts.ORDER_MODEL:
        (tmp_path / name).write_text("one")
    override = ("drafter=spot", f"drafters={{spot: {{kind: spot, order_model: {tmp_path}}}}}")
    label = "evaluate/tiny-math/spot/D4/T0/s0"
    before, again = by_label(graph_of(*override))[label], by_label(graph_of(*override))[label]
    (tmp_path / facts.ORDER_MODEL[1]).write_text("two")
    after = by_label(graph_of(*override))[label]
    assert before.identity == again.identity != after.identity
    assert str(tmp_path) not in json.dumps(before.determinants)
