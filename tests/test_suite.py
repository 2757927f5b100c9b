"""Specs that include others: one graph of shared nodes, settings passed down, mistakes at the right place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.cli import main
from pipeline.facts import Facts
from pipeline.graph import Graph, build_graph
from pipeline.reruns import controls_of
from pipeline.spec import Spec, Suite, load_spec, parse_spec
from pipeline.yaml_source import SpecError
from workers.errors import UserError

ONE = """\
target: tiny-sdar
task: tiny-math
drafter: [none, spot, chain]
budget: [4, 8]
samples: 2
stages:
  collect: {prompts: 4, shard_prompts: 2, batch: 2, generation_length: 8}
  train: {layers: 1, width: 16, heads: 2}
exclude:
  - {drafter: chain, budget: 8}
"""
TWO = """\
target: tiny-sdar
task: tiny-math
drafter: [spot, tree]
budget: 8
samples: 2
temperature: [0, 1]
stages:
  collect: {prompts: 4, shard_prompts: 2, batch: 2, generation_length: 8}
  train: {layers: 1, width: 16, heads: 2}
"""
FACTS = Facts()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.yaml").write_text(ONE)
    (tmp_path / "two.yaml").write_text(TWO)
    (tmp_path / "all.yaml").write_text("include: [one.yaml, two.yaml]\n")
    return tmp_path


def graph_of(path: Path, *overrides: str, limit: int | None = None) -> Graph:
    return build_graph(load_spec(path, overrides), limit, FACTS)


def problems(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_spec(path, overrides)
    return [str(problem) for problem in caught.value.problems]


def test_the_graph_is_the_union_with_shared_nodes_once(folder: Path) -> None:
    one, two, both = (graph_of(folder / f"{name}.yaml") for name in ("one", "two", "all"))
    assert both.by_identity.keys() == one.by_identity.keys() | two.by_identity.keys()
    assert len(both.nodes) == len(both.by_identity) < len(one.nodes) + len(two.nodes)
    seen: set[str] = set()
    for place, node in enumerate(both.nodes):
        assert set(node.upstream) <= seen and node.priority == place
        seen.add(node.identity)


def test_labels_start_with_the_member_that_first_asks_for_a_node(folder: Path) -> None:
    labels = {node.label: node.identity for node in graph_of(folder / "all.yaml").nodes}
    alone = {node.label: node.identity for node in graph_of(folder / "one.yaml").nodes}
    assert len(labels) == len(graph_of(folder / "all.yaml").nodes)
    assert {label.removeprefix("one/"): labels[label] for label in labels if label.startswith("one/")} == alone
    assert "two/evaluate/tiny-math/tree/D8/T0/s0" in labels
    assert "two/evaluate/tiny-math/spot/D8/T0/s0" not in labels  # shared
    assert "two/evaluate/tiny-math/spot/D8/T1/s0" in labels


def test_a_lone_member_gives_no_prefix_and_a_nested_one_both_names(folder: Path) -> None:
    (folder / "same.yaml").write_text("include: one.yaml\nseed: 7\n")
    (folder / "pair.yaml").write_text("include: [same.yaml, all.yaml]\n")
    assert "evaluate/tiny-math/spot/D4/T0/s7" in {node.label for node in graph_of(folder / "same.yaml").nodes}
    labels = {node.label for node in graph_of(folder / "pair.yaml").nodes}
    assert {"same/evaluate/tiny-math/spot/D4/T0/s7", "all/two/evaluate/tiny-math/tree/D8/T1/s0"} <= labels


def test_methods_follow_their_control_across_members(folder: Path) -> None:
    graph = graph_of(folder / "all.yaml")
    runs = [node for node in graph.nodes if node.cell]
    keys = [node.cell["temperature"] for node in runs]
    assert keys == sorted(keys), "the runs of one control stand together"
    controls = controls_of(graph)
    places = {node.identity: place for place, node in enumerate(runs)}
    assert len(controls) == sum(not node.is_control for node in runs)
    assert all(places[control] < places[method] for method, control in controls.items())


def test_members_of_other_samples_keep_their_own_controls(folder: Path) -> None:
    (folder / "two.yaml").write_text(TWO.replace("samples: 2", "samples: 3"))
    graph = graph_of(folder / "all.yaml")
    controls = controls_of(graph)
    assert controls and all(
        graph.by_identity[method].sample_digest == graph.by_identity[control].sample_digest
        for method, control in controls.items()
    )


def test_settings_of_the_suite_replace_those_of_the_members(folder: Path) -> None:
    (folder / "all.yaml").write_text(
        "include: [one.yaml, two.yaml]\nsamples: 1\nstages: {train: {layers: 2}}\ndrafters: {tree: {kind: tree, hedge: 4}}\n"
    )
    for _, spec in load_spec(folder / "all.yaml").parts:
        assert spec.samples == 1
        assert spec.stages.train.layers == 2 and spec.stages.train.width == 16, "mappings are merged"
        assert spec.drafters["tree"].hedge == 4
    assert [spec.budget for _, spec in load_spec(folder / "all.yaml").parts] == [(4, 8), (8,)]


def test_an_override_reaches_every_member_and_may_leave_an_exclude_idle(folder: Path) -> None:
    suite = load_spec(folder / "all.yaml", ["budget=6", "stages.train.epochs=3"])
    assert [(spec.budget, spec.stages.train.epochs) for _, spec in suite.parts] == [((6,), 3), ((6,), 3)]
    again = parse_spec(json.dumps(suite.source.data), "stored")
    assert build_graph(again, None, FACTS).identity == build_graph(suite, None, FACTS).identity
    assert problems(folder / "all.yaml", "exclude=[{budget: 9}]") == ["--set exclude: exclude[0]: matches no cell of the grid"]


def test_a_built_in_drafter_needs_no_kind(folder: Path) -> None:
    suite = load_spec(folder / "all.yaml", ["drafters.spot.hedge=4"])
    assert {spec.drafters["spot"].hedge for _, spec in suite.parts} == {4}


def test_options_without_a_kind_reach_the_members_that_have_the_drafter(folder: Path) -> None:
    (folder / "one.yaml").write_text(ONE.replace("spot, chain", "wide, chain") + "drafters: {wide: {kind: spot, hedge: 4}}\n")
    (folder / "nested.yaml").write_text("include: [all.yaml, {include: two.yaml, seed: 3, name: other}]\n")
    for name in ("all", "nested"):
        parts = load_spec(folder / f"{name}.yaml", ["drafters.wide.tau=2.0"]).parts
        found = [spec.drafters["wide"] for _, spec in parts if "wide" in spec.drafters]
        assert [(drafter.hedge, drafter.tau) for drafter in found] == [(4, 2.0)]
        assert problems(folder / f"{name}.yaml", "drafters.wdie.tau=2.0") == [
            "--set drafters.wdie.tau: drafters.wdie: no member has a drafter 'wdie'; did you mean 'wide'?"
        ]


def test_execution_is_the_suites_own(folder: Path) -> None:
    (folder / "one.yaml").write_text(ONE + "execution: {threads: 7}\noutliers: {z: 9}\n")
    suite = load_spec(folder / "all.yaml", ["execution.actors=3"])
    assert (suite.execution.actors, suite.execution.threads, suite.outliers.z) == (3, 1, 3.5)


def test_a_stored_document_needs_no_files(folder: Path) -> None:
    suite = load_spec(folder / "all.yaml", ["seed=[0, 5]"])
    stored = json.dumps(suite.source.data)
    before = [(node.label, node.identity) for node in build_graph(suite, None, FACTS).nodes]
    for name in ("one", "two", "all"):
        (folder / f"{name}.yaml").unlink()
    again = parse_spec(stored, "submissions/all.json")
    assert [(node.label, node.identity) for node in build_graph(again, None, FACTS).nodes] == before
    assert [*suite.files.values()] == ["include: [one.yaml, two.yaml]\n", ONE, TWO]


def test_members_may_be_written_in_place(folder: Path) -> None:
    (folder / "all.yaml").write_text(
        "include:\n  - one.yaml\n  - include: one.yaml\n    name: narrow\n    block_length: 16\n    seed: -1\n"
    )
    assert problems(folder / "all.yaml") == [
        f"{folder}/all.yaml:6: seed: should be greater than or equal to 0, got -1"
    ]
    (folder / "all.yaml").write_text((folder / "all.yaml").read_text().replace("-1", "1"))
    labels = {node.label for node in graph_of(folder / "all.yaml").nodes}
    assert {"one/evaluate/tiny-math/spot/D4/T0/s0", "narrow/evaluate/tiny-math/spot/D4/T0/s1"} <= labels
    assert [spec.block_length for _, spec in load_spec(folder / "all.yaml").parts] == [(32,), (16,)]


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("one", "samples: 2", "samples: 0", "one.yaml:5: samples: should be greater than 0, got 0"),
        ("two", "budget: 8", "bugdet: 8", "two.yaml:4: bugdet: unknown key; did you mean 'budget'?"),
        ("all", "two.yaml]", "three.yaml]", "all.yaml:1: include[1]: "),
        ("all", "two.yaml]", "3]", "all.yaml:1: include[1]: should be a spec file or a spec, got 3"),
        ("all", "two.yaml]", "all.yaml]", "all.yaml:1: include[1]: all.yaml includes itself"),
        ("all", "[one.yaml, two.yaml]", "[]", "all.yaml:1: include: the list is empty"),
        ("all", "two.yaml]", "{include: two.yaml, name: one}]", "two members are called 'one'; give one another name"),
        ("all", "two.yaml]", "two.yaml]\nbudget: 0", "all.yaml:2: budget: should be greater than 0, got 0"),
        ("all", "two.yaml]", "two.yaml]\nstages:\n  train: {lr: x}", "all.yaml:3: stages.train.lr: should be a valid number"),
        ("all", "two.yaml]", "two.yaml]\noutliers: {z: 0}", "all.yaml:2: outliers.z: should be greater than 0, got 0"),
        ("all", "two.yaml]", "two.yaml]\ntarget: {checkpoint: x, name: y}", "all.yaml:2: target.checkpoint: target '{folder}/x': no"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_once_at_their_place(folder: Path, name: str, old: str, new: str, expected: str) -> None:
    text = (folder / f"{name}.yaml").read_text()
    assert text.count(old) == 1
    (folder / f"{name}.yaml").write_text(text.replace(old, new))
    found = [line.replace(f"{folder}/all", "all").replace(f"{folder}/one", "one").replace(f"{folder}/two", "two") for line in problems(folder / "all.yaml")]
    assert sum(expected.format(folder=folder) in line for line in found) == 1, found


def test_mistakes_of_all_members_come_file_by_file_in_line_order(folder: Path) -> None:
    (folder / "one.yaml").write_text(ONE.replace("budget: [4, 8]", "budget: [4, 0]").replace("layers: 1", "layers: 0"))
    (folder / "two.yaml").write_text(TWO.replace("samples: 2", "samples: 0"))
    places = [line.split(": ")[0] for line in problems(folder / "all.yaml")]
    assert places == [f"{folder}/one.yaml:4", f"{folder}/one.yaml:8", f"{folder}/two.yaml:5"]


def test_files_named_in_a_suite_are_found_beside_it(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "one.yaml").rename(folder / "inner" / "one.yaml")
    (folder / "all.yaml").write_text("include: inner/one.yaml\ntarget: {checkpoint: mine, name: mine}\n")
    assert any(f"target '{folder}/mine': no such directory" in line for line in problems(folder / "all.yaml"))


def test_one_run_of_two_labels_is_refused(folder: Path) -> None:
    (folder / "two.yaml").write_text(TWO.replace("[spot, tree]", "[mine]") + "drafters: {mine: {kind: spot}}\n")
    with pytest.raises(UserError, match="one/evaluate/tiny-math/spot/D8/T0/s0 and two/evaluate/.*mine.* under two names"):
        graph_of(folder / "all.yaml")


def test_one_label_of_two_meanings_is_refused(folder: Path) -> None:
    (folder / "two.yaml").write_text(TWO + "drafters: {spot: {kind: spot, hedge: 4}}\n")
    with pytest.raises(UserError, match="one/evaluate/tiny-math/spot/D8/T0/s0 and two/evaluate.* give one of the two"):
        graph_of(folder / "all.yaml")


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(["one", "two"]), min_size=1, max_size=2, unique=True),
    st.sampled_from([(), ("seed=[0, 3]",), ("task=tiny-math", "samples=1")]),
)
def test_a_suite_is_the_union_of_its_members_under_the_same_overrides(names: list[str], overrides: tuple[str, ...]) -> None:
    texts = {"one": ONE, "two": TWO}
    members = ", ".join(json.dumps({**json.loads(json.dumps(parse_spec(texts[name], name).source.data))}) for name in names)
    suite = parse_spec(f"include: [{members}]", overrides=overrides)
    expected = [build_graph(parse_spec(texts[name], overrides=overrides), None, FACTS).by_identity for name in names]
    assert set(build_graph(suite, None, FACTS).by_identity) == set().union(*expected)


def test_the_command_line_plans_and_validates_a_suite(folder: Path) -> None:
    path = str(folder / "all.yaml")
    validated = CliRunner().invoke(main, ["validate", path])
    nodes = len(graph_of(folder / "all.yaml").nodes)
    assert validated.exit_code == 0 and f"valid, {nodes} nodes" in validated.output
    planned = CliRunner().invoke(main, ["plan", path, "--home", str(folder / "home"), "--format", "json"])
    rows = json.loads(planned.output)
    assert {row["action"] for row in rows} == {"run"}
    assert {row["label"].split("/")[0] for row in rows} == {"one", "two"}
    (folder / "one.yaml").write_text(ONE.replace("samples: 2", "samples: x"))
    broken = CliRunner().invoke(main, ["plan", path, "--home", str(folder / "home")])
    assert broken.exit_code == 2 and f"error: {folder}/one.yaml:5: samples" in broken.output
    assert isinstance(load_spec(folder / "two.yaml"), Spec) and not isinstance(load_spec(folder / "two.yaml"), Suite)
