"""Data in a spec: files found and checked, mistakes at their lines, identities that follow the content and not the
place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import rows_for_tests as rows
from click.testing import CliRunner

from pipeline import facts
from pipeline.cli import main
from pipeline.facts import Facts
from pipeline.graph import Graph, build_graph
from pipeline.overlap import describe, pool_overlaps
from pipeline.spec import load_spec
from pipeline.yaml_source import SpecError

SPEC = """\
name: first
target: tiny-sdar
task: [gsm8k, mbpp]
drafter: [none, spot, spiffy, gamma]
budget: 4
samples: 2
allow_code_execution: true
drafters: {gamma: {kind: spot, floor: calibrated}}
data:
  gsm8k: {test: gsm8k.jsonl, train: more/train.jsonl}
  mbpp: mbpp.jsonl
  notes: notes.jsonl
stages:
  collect: {task: {notes: 2, gsm8k: 1}, prompts: 9, shard_prompts: 6}
  calibrate_floor: {task: mbpp, prompts: 5}
  calibrate_spiffy:
    task: [mbpp/pool, tiny-math]
    prompts: 4
"""


@pytest.fixture(autouse=True)
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "config.json").write_text('{"max_position_embeddings": 2048}')
    (folder / "model.safetensors").write_bytes(b"weights")
    monkeypatch.setitem(facts.PACKAGED, "tiny-sdar", folder)


@pytest.fixture
def spec_file(tmp_path: Path) -> Path:
    home = tmp_path / "one"
    (home / "more").mkdir(parents=True)
    rows.write_all(home)
    rows.write_jsonl(home / "mbpp.jsonl", rows.mbpp([*range(1, 120), 601, 602]))
    rows.write_jsonl(home / "more/train.jsonl", rows.gsm8k(12)[3:])
    (home / "spec.yaml").write_text(SPEC)
    return home / "spec.yaml"


def graph_of(path: Path, *overrides: str) -> Graph:
    return build_graph(load_spec(path, overrides), None, Facts())


def identities(graph: Graph) -> dict[str, str]:
    return {node.label: node.identity for node in graph.nodes}


def problems(path: Path, *overrides: str) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(path, overrides)
    return str(caught.value)


def test_nodes_get_the_files_they_read(spec_file: Path) -> None:
    nodes = {node.label: node for node in graph_of(spec_file).nodes}
    folder = spec_file.parent
    gsm8k = {"test": f"{folder}/gsm8k.jsonl", "train": f"{folder}/more/train.jsonl"}
    control = nodes["evaluate/mbpp/control/T0/s0"].params
    assert control["data"] == {"mbpp": f"{folder}/mbpp.jsonl"} and control["allow_code_execution"]
    shard = nodes["collect/tiny-sdar/shard-1"].params
    assert shard["pools"] == [
        {"task": "notes", "split": "pool", "first": 4, "count": 2},
        {"task": "gsm8k", "split": "pool", "first": 2, "count": 1},
    ]
    assert shard["data"] == {"notes": f"{folder}/notes.jsonl", "gsm8k": gsm8k, "mbpp": f"{folder}/mbpp.jsonl"}
    assert [pool["task"] for pool in shard["compared"]] == ["gsm8k", "mbpp"]
    assert nodes["calibrate-floor/tiny-sdar/gamma"].params["pools"][0]["split"] == "calibration"
    assert nodes["calibrate-spiffy/tiny-sdar"].params["pools"][0] == {
        "task": "mbpp",
        "split": "pool",
        "first": 0,
        "count": 2,
    }


def test_identity_follows_the_content_and_not_the_place(spec_file: Path, tmp_path: Path) -> None:
    before = identities(graph_of(spec_file))
    other = tmp_path / "other/place"
    shutil.copytree(spec_file.parent, other)
    assert identities(graph_of(other / "spec.yaml")) == before
    (other / "gsm8k.jsonl").rename(other / "renamed.jsonl")
    assert identities(graph_of(other / "spec.yaml", f"data.gsm8k.test={other}/renamed.jsonl")) == before

    lines = (other / "renamed.jsonl").read_text().splitlines()
    (other / "renamed.jsonl").write_text("\n".join([lines[0].replace("baker", "cook"), *lines[1:]]))
    after = identities(graph_of(other / "spec.yaml", f"data.gsm8k.test={other}/renamed.jsonl"))
    assert {label for label in before if before[label] != after[label]} == {
        label for label in before if "/gsm8k/" in label
    }
    lines.append(lines[0])  # a row that is not used
    (other / "renamed.jsonl").write_text("\n".join(lines))
    assert identities(graph_of(other / "spec.yaml", f"data.gsm8k.test={other}/renamed.jsonl")) == before


def test_evaluating_another_benchmark_leaves_the_training_alone(spec_file: Path) -> None:
    both, one = identities(graph_of(spec_file)), identities(graph_of(spec_file, "task=mbpp"))
    assert {label: both[label] for label in one} == one


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("data.mbpp=no.jsonl", "--set data.mbpp: data.mbpp: {cwd}/no.jsonl: no such file; 'mbpp' reads it"),
        ("data.gsm8k={tst: a}", "--set data.gsm8k: data.gsm8k.tst: unknown split 'tst'; did you mean 'test'?"),
        ("data.gsm8k=[a]", "--set data.gsm8k: data.gsm8k: should be a file, or {{test: FILE, train: FILE}}"),
        ("data.notes={test: a}", "--set data.notes: data.notes.test: the pool 'notes' is one file"),
        ("data.tiny-math=a", "--set data.tiny-math: data.tiny-math: 'tiny-math' is generated, it has no data file"),
        ("data={gsmk: a}", "data.gsmk: no task and no stage reads it; did you mean 'gsm8k'?"),
        ("data=a", "--set data: data: should be a mapping of settings"),
        ("task=notes", "--set task: task: unknown task 'notes'"),
        ("task=notes", "; a pool has no scorer"),
        ("samples=4", "--set samples: samples: 'gsm8k' has only 3 test samples, got 4"),
        (
            "samples=103",
            "spec.yaml:15: stages.calibrate_floor.task: 3 of its 5 prompts from 'mbpp' are evaluated too, the first "
            "is mbpp/test/111; evaluate fewer samples",
        ),
        ("stages.collect.task=mbpp/test", "prompts from 'mbpp' are evaluated too, the first is mbpp/test/11"),
        ("stages.calibrate_floor.task=mbpp/train", "'mbpp' has no train samples, only pool and calibration and test"),
        (
            "stages.calibrate_floor.task=notes",
            "'notes' has no calibration samples, only pool; a stage reads calibration unless",
        ),
        (
            "stages.calibrate_floor.prompts=50",
            "spec.yaml:15: stages.calibrate_floor.task: 'mbpp' has only 9 calibration samples, and the stage takes 50",
        ),
        (
            "stages.collect.task={note: 1}",
            "stages.collect.task.note: unknown task or pool 'note'; did you mean 'notes'?",
        ),
        ("stages.collect.task={notes: 0}", "stages.collect.task.notes: should be greater than 0, got 0"),
        (
            "stages.collect.task=[notes, notes/pool]",
            "stages.collect.task[1]: the pool samples of 'notes' are named twice",
        ),
        ("stages.collect.task=[notes, notes]", "'notes' is listed twice"),
        ("stages.collect.task=[]", "the list is empty"),
        ("stages.calibrate_spiffy.task=math500", "--set stages.calibrate_spiffy.task: "),
    ],
)
def test_a_mistake_is_named_where_it_is(
    spec_file: Path, override: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(spec_file.parent)
    assert expected.format(cwd=spec_file.parent) in problems(spec_file, override)


def test_a_bad_row_is_named_beside_the_setting(spec_file: Path) -> None:
    path = spec_file.parent / "notes.jsonl"
    path.write_text(path.read_text() + '{"promt": "x"}\n')
    found = problems(spec_file, "stages.collect.task=notes", "stages.collect.prompts=10")
    assert f"spec.yaml:12: data.notes: {path}:10: no field 'prompt'" in found


def test_a_prompt_that_is_evaluated_is_found_in_any_file(spec_file: Path) -> None:
    evaluated = rows.gsm8k(1)[0]["question"].replace(" ", "\n ")
    path = spec_file.parent / "notes.jsonl"
    rows.write_jsonl(path, [{"prompt": f"Note {n}"} for n in range(8)] + [{"prompt": evaluated}])
    found = problems(spec_file, "stages.collect.task=notes")
    assert "1 of its 9 prompts from 'notes' are evaluated too, the first is notes/pool/8" in found


def test_the_plan_shows_the_overlap(spec_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the real packaged target
    shown = CliRunner().invoke(main, ["plan", str(spec_file), "--home", str(tmp_path / "home")])
    assert shown.exit_code == 0, shown.output
    lines = [line for line in shown.output.splitlines() if line.startswith("pool ")]
    assert [line.split(":")[0] for line in lines] == ["pool notes/pool", "pool gsm8k/pool"]
    assert lines[0].endswith("shared with what is evaluated: gsm8k 0, mbpp 0")


def test_overlap_of_pools_is_reported(spec_file: Path) -> None:
    path = spec_file.parent / "notes.jsonl"
    quoted = "Rewrite: A baker makes 2 trays of 600 rolls each. How many rolls are that?"
    rows.write_jsonl(path, [{"prompt": f"Note {n}"} for n in range(8)] + [{"prompt": quoted}])
    ((pool, (gsm8k, mbpp)),) = pool_overlaps(load_spec(spec_file, ["stages.collect.task=notes"]))
    assert (pool, gsm8k.ngrams, gsm8k.prompts, mbpp.ngrams) == ("notes/pool", 3, 1, 0)
    assert describe(pool, [gsm8k, mbpp]).endswith(": gsm8k 3 (1 prompts of the pool, 1 evaluated samples), mbpp 0")
    assert list(pool_overlaps(load_spec(spec_file, ["stages.collect.task=tiny-math"]))) == []
