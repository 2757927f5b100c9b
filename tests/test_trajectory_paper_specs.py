"""The specs of the trajectory paper: their grids are those of its tables, and all of them are one experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.facts import Facts
from pipeline.graph import Graph, build_graph
from pipeline.spec import load_spec

FOLDER = Path(__file__).parent.parent / "specs" / "paper" / "trajectory"
ITEMS = [*(f"table-{number:02}" for number in (*range(2, 9), *range(10, 14))), "figure-5"]
FACTS = Facts()
CACHES = {"tiny-llada": "dual", "tiny-sdar": "prefix"}


def graph_of(name: str, *overrides: str) -> Graph:
    return build_graph(load_spec(FOLDER / f"{name}.yaml", overrides), None, FACTS)


@pytest.fixture(scope="module")
def graphs() -> dict[str, Graph]:
    return {name: graph_of(name) for name in ITEMS}


def cells(graph: Graph, **values: object) -> list[dict]:
    return [n.cell for n in graph.nodes if n.cell and all(n.cell[name] == value for name, value in values.items())]


def test_every_table_and_figure_is_part_of_the_whole(graphs: dict[str, Graph]) -> None:
    whole = graph_of("all").by_identity.keys()
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {*ITEMS, "all", "base"}
    for graph in graphs.values():
        assert graph.by_identity.keys() <= whole


def test_every_drafted_cell_has_its_fast_dllm_control(graphs: dict[str, Graph]) -> None:
    for graph in graphs.values():
        for cell in cells(graph, drafter="trajectory"):
            key = {name: cell[name] for name in ("target", "task", "commit_rule", "cache", "generation_length", "block_length")}
            assert cell["cache"] == CACHES[cell["target"]] and len(cells(graph, drafter="none", **key)) == 1


@pytest.mark.parametrize("name, target", [("table-02", "tiny-llada"), ("table-03", "tiny-sdar")])
def test_the_main_tables_have_vanilla_fast_dllm_and_ours(graphs: dict[str, Graph], name: str, target: str) -> None:
    found = graphs[name]
    cache = CACHES[target]
    controls = {(cell["cache"], cell["commit_rule"]) for cell in cells(found, drafter="none")}
    assert controls >= {("none", "single"), (cache, "threshold:0.9")} and (cache, "single") not in controls
    # Work on the next block has no lossless form, so that it is measured with the paper's acceptance only.
    assert {cell["verifier"] for cell in cells(found, method="w2d2-inter")} <= {"subset-top-1"}
    assert {cell["verifier"] for cell in cells(found, method="w2d2")} == {"subset-top-1", "greedy"}


def test_shapes_are_those_of_the_captions(graphs: dict[str, Graph]) -> None:
    methods = {name: {cell["method"] for cell in cells(graph, drafter="trajectory")} for name, graph in graphs.items()}
    assert methods["table-04"] == {"w1d1", "w2d2", "w3d3", "w2d2-inter", "w3d3-inter"}
    assert methods["table-05"] == methods["table-06"] == {f"w{w}d{d}" for w, d in
        ((1, 1), (2, 1), (3, 1), (2, 2), (2, 3), (3, 3), (7, 1), (8, 1), (9, 1))}  # fmt: skip
    assert len(methods["table-07"]) == 8 and len(methods["table-08"]) == 4
    assert methods["figure-5"] >= {f"w{width}d1" for width in range(1, 10)}


def test_exactness_is_checked_by_logits_in_both_layouts(graphs: dict[str, Graph]) -> None:
    methods = [node for node in graphs["table-10"].nodes if node.cell and not node.is_control]
    assert all(node.params["check_logits"] for node in methods)
    assert {node.cell["layout"] for node in methods} == {"batch", "concat"}
    assert {node.cell["commit_rule"] for node in methods} == {"single", "threshold:0.9"}
    assert len({node.cell["verifier"] for node in methods}) == 4
