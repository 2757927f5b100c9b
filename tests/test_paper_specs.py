"""The specs of the SPOT paper: one for every table and figure, all of them one experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.facts import Facts
from pipeline.graph import Graph, build_graph
from pipeline.spec import load_spec
from workers.targets.make_checkpoint import make_checkpoint

ROOT = Path(__file__).parent.parent / "specs"
SPOT = ROOT / "paper" / "spot"
ITEMS = [*(f"table-{number:02}" for number in range(1, 23)), *(f"figure-{number}" for number in range(2, 6)), "transfer"]
FACTS = Facts()


def graph_of(path: Path, *overrides: str) -> Graph:
    return build_graph(load_spec(path, overrides), None, FACTS)


@pytest.fixture(scope="module")
def whole() -> Graph:
    return graph_of(SPOT / "all.yaml")


def methods(graph: Graph) -> set[str]:
    return {node.cell["method"] for node in graph.nodes if node.cell}


def column(graph: Graph, name: str) -> set[object]:
    return {node.cell[name] for node in graph.nodes if node.cell and not node.is_control}


SPECS = sorted(path for path in ROOT.rglob("*.yaml") if path.parent.name != "devices")


@pytest.mark.parametrize("path", SPECS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_spec_plans(path: Path) -> None:
    assert any(node.kind == "evaluate" for node in graph_of(path).nodes)


def test_every_table_and_figure_is_part_of_the_whole(whole: Graph) -> None:
    included = {member["name"] for member in load_spec(SPOT / "all.yaml").source.data["include"]}
    assert included >= set(ITEMS)
    assert {path.stem for path in SPOT.glob("*.yaml")} == included | {"all", "base"}
    for name in ITEMS:
        assert graph_of(SPOT / f"{name}.yaml").by_identity.keys() <= whole.by_identity.keys()


def test_artifacts_are_those_of_the_main_experiment(whole: Graph) -> None:
    made = {node.identity for node in graph_of(ROOT / "main.yaml").nodes if node.cell is None}
    assert made <= whole.by_identity.keys()


def test_grids_are_those_of_the_captions() -> None:
    graphs = {name: graph_of(SPOT / f"{name}.yaml") for name in ITEMS}
    sweep = graphs["table-21"]
    assert column(sweep, "temperature") == {0.5, 1, 1.5, 2, 2.5}
    assert column(sweep, "verifier") == {"greedy", "uncoupled", "coupled"}
    assert methods(sweep) == {"control", "spot", "spiffy", "tree"} and column(sweep, "budget") == {8, 20}
    assert len(column(graphs["table-01"], "budget")) == 1
    main = graphs["table-02"]
    assert column(main, "temperature") == {0, 1} and column(main, "budget") == {8, 20}
    chains = {(node.cell["temperature"], node.cell["verifier"]) for node in main.nodes if node.cell and node.cell["drafter"] == "chain"}
    assert chains == {(0, "greedy"), (1, "rejection")}
    padding = {(node.cell["method"], node.cell["padded"]) for node in main.nodes if node.cell and not node.is_control}
    assert padding == {("spot", True), ("spiffy", True), ("chain", True), ("tree", True), ("spot-gamma", False)}
    assert column(graphs["table-07"], "block_length") == {16, 32} and column(graphs["table-07"], "budget") == {8, 12, 20}
    assert column(graphs["table-16"], "generation_length") == {64, 256, 512}
    assert column(graphs["table-17"], "floor") == {0, 0.02, 0.05, 0.1, 0.2}
    assert {1, 6, 20} <= column(graphs["table-20"], "budget")
    assert column(graphs["table-22"], "verifier") == {"coupled", "rejection", "pt-rejection"}
    assert {node.kind for node in graphs["table-22"].nodes} >= {"check-rejection"}
    assert max(column(graphs["figure-4"], "generation_length")) == 256


def test_transferred_drafters_read_what_another_setting_has_made() -> None:
    runs = [node for node in graph_of(SPOT / "transfer.yaml").nodes if node.cell and node.inputs]
    read = {(node.cell["block_length"], node.cell["method"]): [*node.inputs.values()] for node in runs}
    assert read[16, "from-b32"] == read[32, "spot"] != read[16, "spot"] == read[32, "from-b16"]
    assert read[32, "from-b32"] == read[32, "spot"], "of the target without a native drafter"
    assert read[16, "spiffy-from-b32"] == read[32, "spiffy"] != read[16, "spiffy"] == read[32, "spiffy-from-b16"]


def test_tables_take_another_target(tmp_path: Path) -> None:
    target = f"target={{checkpoint: {make_checkpoint('sdar', tmp_path / 'sdar')}, name: sdar-8b}}"
    for name in ("table-02", "table-15", "table-16"):
        graph = graph_of(SPOT / f"{name}.yaml", target)
        assert {node.cell["target"] for node in graph.nodes if node.cell} == {"sdar-8b"}
        assert {node.params["target"]["name"] for node in graph.nodes if "target" in node.params} == {"sdar-8b"}
    larger = ["stages.train={layers: 3, width: 128, heads: 8}", target]
    assert methods(graph_of(SPOT / "capacity.yaml", *larger)) == {"control", "spot", "spot-1x32", "spot-3x64"}
