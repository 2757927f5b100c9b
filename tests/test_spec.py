"""The spec: what is accepted, and that every mistake is reported once, at its line, with a way out."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.grid import expand
from pipeline.spec import load_spec, parse_spec
from pipeline.yaml_source import SpecError
from workers.errors import UserError
from workers.targets.config import TransformerConfig
from workers.targets.families.dream import DREAM
from workers.targets.families.llada import LLADA
from workers.targets.families.sdar import SDAR

SPECS = Path(__file__).parent.parent / "specs"

SOUND = """\
target: tiny-sdar
task: [tiny-math, tiny-code]
drafter: [none, spot, gamma, chain]
budget: [8, 12]
temperature: [0, 1]
seed: [0, 1]
samples: 3
verifier: auto
allow_code_execution: true
drafters:
  gamma: {kind: spot, floor: calibrated}
exclude:
  - {drafter: chain, budget: 12}
stages:
  train: {lr: 1e-4, width: 64}
"""


def problems(text: str, overrides: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "spec.yaml", overrides=overrides)
    assert str(caught.value).splitlines() == [str(problem) for problem in caught.value.problems]
    return [str(problem) for problem in caught.value.problems]


SHIPPED = sorted(path for path in SPECS.rglob("*.yaml") if path.parent.name != "devices")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(SPECS)))
def test_shipped_specs_are_valid(path: Path) -> None:
    assert load_spec(path).name


def test_values_keep_their_yaml_1_2_types() -> None:
    spec = parse_spec(SOUND)
    assert spec.stages.train.lr == 1e-4
    assert spec.temperature == (0.0, 1.0)
    assert spec.budget == (8, 12)
    assert spec.drafters["gamma"].floor == "calibrated"
    assert spec.task == ("tiny-math", "tiny-code")
    assert spec.stages.collect.generation_length == 256  # defaults are the paper's


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("budget: [8", "budgt: [8", "unknown key; did you mean 'budget'?"),
        ("seed: [0, 1]", "seed: true", "seed: should be a valid integer, got true"),
        ("seed: [0, 1]", "seed: '0'", "seed: should be a valid integer, got '0'"),
        ("seed: [0, 1]", "seed: 1.0", "seed: should be a valid integer, got 1.0"),
        ("seed: [0, 1]", "seed: 0, 1", "a list is written [a, b]"),
        ("seed: [0, 1]", "seed:", "seed: should be a valid integer, got null"),
        ("seed: [0, 1]", "seed: []", "seed: the list is empty"),
        ("seed: [0, 1]", "seed: [1, 0, 1]", "seed[2]: 1 is listed twice"),
        ("samples: 3", "samples: 0", "samples: should be greater than 0, got 0"),
        ("samples: 3", "samples: 1000000000", "samples: should be less than or equal to 100000"),
        ("samples: 3", "samples: no", "samples: should be a valid integer, got 'no'"),
        ("samples: 3", "samples: 3\nsamples: 4", "samples: duplicate key, first set on line"),
        ("budget: [8, 12]", "budget: 0", "budget: should be greater than 0, got 0"),
        ("budget: [8, 12]", "budget: [8, 12, -1]", "budget[2]: should be greater than 0, got -1"),
        ("temperature: [0, 1]", "temperature: -0.5", "greater than or equal to 0, got -0.5"),
        ("temperature: [0, 1]", "temperature: [.nan]", "finite number, got nan"),
        ("temperature: [0, 1]", "temperature: [0, .inf]", "finite number, got inf"),
        ("temperature: [0, 1]", "temperature: [0, 0.0]", "temperature[1]: 0.0 is listed twice"),
        ("target: tiny-sdar", "target: tiny-sadr", "unknown target 'tiny-sadr'; did you mean 'tiny-sdar'?"),
        (
            "target: tiny-sdar",
            "target: {checkpoint: /nowhere, name: x}",
            "target.checkpoint: target '/nowhere': no such directory",
        ),
        ("target: tiny-sdar", "target: {checkpoint: /nowhere}", "target.name: required, but missing"),
        ("target: tiny-sdar", "target: [tiny-sdar, tiny-sdar]", "'tiny-sdar' is listed twice"),
        ("task: [tiny-math, tiny-code]", "task: [tiny-maths]", "unknown task 'tiny-maths'; did you mean 'tiny-math'?"),
        ("drafter: [none, spot,", "drafter: [none, spto,", "drafter[1]: unknown drafter 'spto'; did you mean 'spot'?"),
        ("verifier: auto", "verifier: trajectory", "unknown verifier 'trajectory'; did you mean 'pt-rejection'?"),
        ("verifier: auto", "verifier: copled", "unknown verifier 'copled'; did you mean 'coupled'?"),
        ("verifier: auto", "block_length: 8", "'tiny-sdar' decodes at block length 16 or 32, got 8"),
        ("verifier: auto", "generation_length: 0", "generation_length: should be greater than 0, got 0"),
        ("verifier: auto", "stop: fil", "stop: should be 'fill' or 'eos', got 'fil'; did you mean 'fill'?"),
        ("verifier: auto", "control: {include: false}", "control.include: false, yet drafter lists 'none'"),
        ("verifier: auto", "execution: {threads: 0}", "execution.threads: should be greater than 0, got 0"),
        ("verifier: auto", "outliers: null", "outliers: should be a mapping of settings, got null"),
        ("verifier: auto", "verifier: !secret 3", "the tag !secret is not supported"),
        ("gamma: {kind: spot, floor", "gamma: {kind: tree, floor", "drafters.gamma.floor: unknown key"),
        (
            "gamma: {kind: spot,",
            "gamma: {kind: spott,",
            "drafters.gamma.kind: unknown kind 'spott'; did you mean 'spot'?",
        ),
        ("gamma: {kind: spot,", "gamma: {", "drafters.gamma.kind: required, but missing"),
        ("gamma: {kind: spot,", "gamma: {kind: spot, hedge: 5,", "drafters.gamma.hedge: should be 1, 2 or 4, got 5"),
        ("kind: spot,", "kind: spot, hedge: true,", "drafters.gamma.hedge: should be a valid integer, got true"),
        ("floor: calibrated", "floor: 1.5", "drafters.gamma.floor: should be a probability"),
        ("none, spot, gamma, chain", "none, spot, gamma, chain, tree, chain", "drafter[5]: 'chain' is listed twice"),
        ("  gamma: {kind: spot", "  chain: {kind: spot", "'chain' is a built-in drafter, so its kind cannot be 'spot'"),
        ("{drafter: chain, budget: 12}", "{drafter: chain, budget: 13}", "exclude[0]: matches no cell of the grid"),
        ("{drafter: chain, budget: 12}", "{drafter: none}", "exclude[0].drafter: a method needs its control"),
        ("{drafter: chain, budget: 12}", "{task: [tiny-math, tiny-code]}", "leaves no cell to measure"),
        ("{drafter: chain, budget: 12}", "{}", "exclude[0]: names no column"),
        ("train: {lr: 1e-4", "train: {lr: 0", "stages.train.lr: should be greater than 0, got 0"),
        ("width: 64", "width: 63", "stages.train: width 63 is not a multiple of heads 8"),
    ],
)
def test_mistake_is_reported_at_its_line(old: str, new: str, expected: str) -> None:
    assert SOUND.count(old) == 1
    text = SOUND.replace(old, new)
    wrong_lines = {
        number
        for number, line in enumerate(text.splitlines(), 1)
        if line not in SOUND.splitlines() or text.count(line + "\n") > 1
    }
    found = problems(text)
    assert any(expected in line for line in found), found
    places = {line.split(": ")[0] for line in found if expected in line}
    assert places <= {f"spec.yaml:{number}" for number in wrong_lines} | (
        {"spec.yaml:12"} if "no cell" in expected else set()
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("target: [tiny-sdar", "spec.yaml:1: not valid YAML"),
        ("target: tiny-sdar\n\ttask: x", "spec.yaml:2: not valid YAML"),
        ("- target", "spec.yaml:1: a spec is a mapping of settings, got ['target']"),
        ("", "spec.yaml:1: target: required, but missing"),
        ("a: &a [*a]", "an alias may not contain itself"),
        ("a: b\n---\na: c", "spec.yaml:2: not valid YAML: but found another document"),
        (
            SOUND.replace("budget: [8, 12]\n", ""),
            "spec.yaml:1: budget: required, but missing: the most drafts per round",
        ),
        (SOUND.replace("[none, spot, gamma, chain]", "none"), "spec.yaml:4: budget: a budget without a drafter"),
        (
            SOUND.replace("floor: calibrated", "hedge: 2"),
            "spec.yaml:3: drafter[2]: 'gamma' is the same drafter as 'spot'",
        ),
        ("target: tiny-sdar\nname: \x07", "spec.yaml:2: not valid YAML"),
        (SOUND.replace("allow_code_execution: true\n", ""), "spec.yaml:2: task[1]: 'tiny-code' runs generated code"),
    ],
)
def test_broken_documents(text: str, expected: str) -> None:
    assert any(line.startswith(expected) or expected in line for line in problems(text))


def test_all_mistakes_are_reported_at_once_in_file_order() -> None:
    text = (
        SOUND.replace("[none, spot,", "[none, spto,")
        .replace("seed: [0, 1]", "seed: true\nseeds: 3")
        .replace("samples: 3", "samples: 0\nsamples: 0")
        .replace("verifier: auto", "verifier: trajectory")
        .replace("lr: 1e-4", "lr: x, epohcs: 2")
    )
    found = problems(text, ("stages.collect.prompts=-3",))
    assert [line.split(": ")[0] for line in found] == [
        "--set stages.collect.prompts",
        *(f"spec.yaml:{number}" for number in (3, 6, 7, 8, 9, 10, 17, 17)),
    ]


def test_overrides_are_yaml_and_win() -> None:
    overrides = [
        "seed=[4, 5]",
        "drafters.gamma.floor=0.1",
        "stages.train.epochs=2",
        "exclude.0.budget=8",
        "target.0=tiny-sdar",
    ]
    spec = parse_spec(SOUND.replace("target: tiny-sdar", "target: [tiny-sdar]"), overrides=overrides)
    assert spec.seed == (4, 5)
    assert spec.drafters["gamma"].floor == 0.1
    assert spec.stages.train.epochs == 2
    assert spec.exclude[0].budget == (8,)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("budget=0", "--set budget: budget: should be greater than 0, got 0"),
        ("budget=", "--set budget: budget: should be a valid integer, got null"),
        ("budget=8,12", "--set budget: budget: should be a valid integer, got '8,12'; a list is written [a, b]"),
        ("budget", "--set budget: write an override as key.sub=value"),
        ("bugdet=3", "--set bugdet: bugdet: unknown key; did you mean 'budget'?"),
        ("stagse.train.lr=1", "--set stagse.train.lr: stagse: unknown key; did you mean 'stages'?"),
        ("stages.train.heads=7", "--set stages.train.heads: stages.train.heads: width 64 is not a multiple of heads 7"),
        ("target.checkpoint=x", "--set target.checkpoint: target is 'tiny-sdar', so it has no 'checkpoint'"),
        ("seed=[1", "--set seed: not valid YAML"),
        ("exclude=[{a: 1, a: 2}]", "--set exclude: exclude[0].a: duplicate key"),
        ("drafter=[none, spt]", "--set drafter: drafter[1]: unknown drafter 'spt'; did you mean 'spot'?"),
    ],
)
def test_wrong_override_is_named(override: str, expected: str) -> None:
    assert any(line.startswith(expected) for line in problems(SOUND, (override,)))


@settings(max_examples=60)
@given(data=st.data())
def test_line_is_right_wherever_the_key_stands(data: st.DataObject) -> None:
    """Settings in any order, with blank lines and comments between: an error names the line of its own key."""
    values = {
        "target": "tiny-sdar", "task": "tiny-math", "drafter": "spot", "budget": "8", "samples": "2", "seed": "[0, 1]",
        "stages": "{train: {lr: 1e-3}}", "stop": "eos", "padded": "true",
    }  # fmt: skip
    wrong_key = data.draw(st.sampled_from(sorted(values)))
    values[wrong_key] = data.draw(st.sampled_from(["{x: 1}", "[[]]", ".nan", "''"]))
    lines: list[str] = []
    for key in data.draw(st.permutations(sorted(values))):
        lines += data.draw(st.lists(st.sampled_from(["", "# a comment", "   # budget: 3"]), max_size=2))
        lines.append(f"{key}: {values[key]}")
    line = next(number for number, text in enumerate(lines, 1) if text.startswith(wrong_key))
    found = problems("\n".join(lines))
    assert {problem.split(": ")[0] for problem in found} == {f"spec.yaml:{line}"}


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such spec file"):
        load_spec(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="cannot read the spec"):
        load_spec(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(UserError, match="cannot read the spec"):
        load_spec(tmp_path / "latin.yaml")


def test_checkpoints_are_found_beside_the_spec_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    path = tmp_path / "spec.yaml"
    path.write_text(
        "target: {checkpoint: mine, name: mine}\ntask: tiny-math\ndrafter: none\nsamples: 1\ngeneration_length: 64\n"
    )

    def message() -> str:
        with pytest.raises(SpecError) as caught:
            load_spec(path)
        return str(caught.value)

    assert f"{path}:1: target.checkpoint: {folder}: no *.safetensors file" in message()
    (folder / "pytorch_model.bin").touch()
    assert "pickle" in message()
    (folder / "model.safetensors").touch()
    assert "there is no config.json" in message()
    (folder / "config.json").write_text("[]")
    assert "should be a JSON object" in message()
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    assert "model_type is 'gpt2'; known are 'sdar' (sdar)" in message()
    shape = TransformerConfig(64, 16, 1, 2, 2, 8, 32, max_positions=64)
    (folder / "config.json").write_text(json.dumps(SDAR.publish_config(shape)))
    assert "tokenizer.json: no such file" in message()
    (folder / "tokenizer.json").touch()
    assert f"{path}:5: generation_length: 'mine' has a context of 64 positions" in message()
    (folder / "config.json").write_text(json.dumps(SDAR.publish_config(replace(shape, max_positions=128))))
    assert load_spec(path).target[0].checkpoint == str(folder)
    monkeypatch.chdir(tmp_path)
    assert load_spec("spec.yaml", ["target.checkpoint=./mine"]).target[0].checkpoint == str(folder)


def test_hub_checkpoints_are_no_paths() -> None:
    with pytest.raises(SpecError, match="target.checkpoint: target 'hub:nobody/nothing': not in the local cache"):
        parse_spec(SOUND, overrides=["target={checkpoint: 'hub:nobody/nothing', name: x}"])


FULL = {"llada": LLADA, "dream": DREAM}


@pytest.mark.parametrize("family", FULL)
def test_the_cache_must_fit_the_attention_of_the_target(tmp_path: Path, family: str) -> None:
    shape = TransformerConfig(64, 16, 1, 2, 2, 8, 32, max_positions=512)
    (tmp_path / "config.json").write_text(json.dumps(FULL[family].publish_config(shape)))
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).touch()
    text = "target: [tiny-sdar, {checkpoint: ., name: mine}]\ntask: tiny-math\ndrafter: none\nsamples: 1\nseed: 0\n"

    def caches(*overrides: str) -> list[tuple[str, str]]:
        spec = parse_spec(text, directory=tmp_path, overrides=overrides)
        return [(run.cell.target, run.cell.cache) for run in expand(spec)]

    # The usual cache of each target, however often it is named.
    usual = [("tiny-sdar", "prefix"), ("mine", "approximate-prefix")]
    assert caches() == usual
    mixed = ["cache=[auto, dual]", "exclude=[{target: tiny-sdar, cache: dual}]"]
    assert caches(*mixed) == [*usual, ("mine", "dual")]
    with pytest.raises(SpecError, match="cache: target 'mine': 'prefix' needs block-causal.*approximate-prefix, dual, none"):
        caches("cache=prefix")
    with pytest.raises(SpecError, match="cache: target 'tiny-sdar': 'dual' is for full attention.*prefix, none"):
        caches("cache=dual")


def test_planning_imports_no_heavy_package() -> None:
    code = (
        "import sys, pipeline, pipeline.graph, pipeline.plan\n"
        f"pipeline.graph.build_graph(pipeline.load_spec({str(SPECS / 'smoke.yaml')!r}))\n"
        "print(*{'torch', 'ray', 'transformers', 'datasets', 'matplotlib', 'numpy'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=SPECS.parent, check=True)
    assert ran.stdout.strip() == ""
