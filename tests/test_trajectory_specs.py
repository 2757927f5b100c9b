"""Specs with trajectory drafters, commit rules and acceptance rules: what they expand to, what is refused, what is recorded."""

from __future__ import annotations

import pytest

from pipeline.graph import build_graph
from pipeline.grid import expand
from pipeline.spec import parse_spec
from pipeline.yaml_source import SpecError
from workers.stages import evaluate
from workers.targets.load import load_target
from workers.targets.make_checkpoint import make_checkpoint

SOUND = """\
target: tiny-sdar
task: tiny-math
samples: 2
drafter: [trajectory, wide]
budget: 6
verifier: [auto, subset-top-1, subset-top-k, "subset-threshold:0.5:longest"]
commit_rule: [single, threshold]
generation_length: 64
drafters:
  wide: {kind: trajectory, width: 3, depth: 3}
"""


def problems(text: str) -> str:
    with pytest.raises(SpecError) as error:
        parse_spec(text)
    return str(error.value)


def test_acceptance_rules_and_commit_rules_are_columns_of_the_cell() -> None:
    runs = expand(parse_spec(SOUND))
    assert {run.cell.commit_rule for run in runs} == {"single", "threshold:0.9"}
    methods = [run.cell for run in runs if not run.cell.is_control]
    verifiers = {"greedy", "subset-top-1", "subset-top-k:3", "subset-threshold:0.5:longest"}
    assert {cell.verifier for cell in methods} == verifiers and {cell.drafter for cell in methods} == {"trajectory"}
    # One control per commit rule, with which all its methods are compared.
    controls = [run.cell for run in runs if run.cell.is_control]
    assert [cell.commit_rule for cell in controls] == ["single", "threshold:0.9"]
    assert {cell.control_key for cell in methods} == {cell.control_key for cell in controls}


def test_exclude_takes_any_form_of_a_rule() -> None:
    text = SOUND + "exclude: [{commit_rule: single}, {verifier: subset-top-k}, {verifier: greedy, drafter: wide}]\n"
    cells = [run.cell for run in expand(parse_spec(text)) if not run.cell.is_control]
    assert {cell.commit_rule for cell in cells} == {"threshold:0.9"}
    assert "subset-top-k:3" not in {cell.verifier for cell in cells}
    assert {cell.method for cell in cells if cell.verifier == "greedy"} == {"trajectory"}


def test_labels_tell_commit_rules_apart_and_options_reach_the_stage() -> None:
    nodes = build_graph(parse_spec(SOUND)).nodes
    labels = [node.label for node in nodes]
    assert len(set(labels)) == len(labels) == 18
    assert "evaluate/tiny-math/wide/D6/subset-top-k:3/threshold:0.9/T0/s0" in labels
    wide = next(node for node in nodes if node.cell["method"] == "wide")
    assert wide.params["drafter_options"] == {
        "width": 3, "depth": 3, "variant": "hybrid", "tokens": 1, "tau": None, "inter_blocks": 0,
    }  # fmt: skip
    assert "check_logits" not in wide.params
    checked = build_graph(parse_spec(SOUND + "check_logits: true\n")).nodes
    assert [node.params.get("check_logits") for node in checked if node.is_control] == [None, None]
    assert all(node.params["check_logits"] for node in checked if not node.is_control)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("budget: 6", "budget: [5, 6]", "drafter[1]: 'wide' drafts up to 6 states a round; a budget of 5 is below"),
        ("depth: 3", "depth: 3, inter_blocks: 1", "'wide' drafts up to 7 states a round; a budget of 6 is below"),
        ("width: 3, depth: 3", "inter_blocks: 1", "'wide' with inter_blocks needs full attention and cache dual, not prefix"),
        ("width: 3", "width: 0", "drafters.wide.width: should be greater than 0, got 0"),
        ("width: 3", "variant: wide", "drafters.wide.variant: should be 'hybrid', 'top-2', 'full' or 'duplicate'"),
        ("width: 3", "inter_blocks: 4", "drafters.wide.inter_blocks: should be less than or equal to 3"),
        ("width: 3", "tau: 1.5", "drafters.wide.tau: should be less than or equal to 1"),
        ("subset-top-k,", "subset-top-n,", "unknown verifier 'subset-top-n'; did you mean 'subset-top-"),
        ("subset-top-k,", "subset-top-k:0,", "verifier 'subset-top-k:0': K should be a whole number from 1 on"),
        ("[single, threshold]", "[single, treshold]", "commit_rule[1]: 'treshold' is unknown; choose one of single, threshold:TAU"),
        ("[single, threshold]", "[threshold, threshold:0.9]", "commit_rule[1]: 'threshold:0.9' is listed twice"),
        ("[single, threshold]", "top-k", "commit_rule: 'top-k' needs how many positions to fill, as in top-k:2"),
        ("[auto,", "[rejection,", "commit_rule: 'threshold:0.9' with verifier rejection: it corrects one token per step"),
        ("[auto,", "[pt-rejection,", "'trajectory' with verifier pt-rejection: its drafts fill several positions at once"),
    ],
)  # fmt: skip
def test_refused(old: str, new: str, expected: str) -> None:
    assert old in SOUND
    text = SOUND.replace(old, new) + ("temperature: 1\n" if "rejection" in new else "")
    assert expected in problems(text)


@pytest.mark.parametrize(
    ("options", "verifier", "exact"),
    [
        ({}, "greedy", True),
        ({}, "subset-top-1", False),
        ({"inter_blocks": 2}, "greedy", False),
    ],
)
def test_a_full_attention_checkpoint_is_evaluated_with_every_new_column(tmp_path, options, verifier, exact) -> None:
    reference = {"checkpoint": str(make_checkpoint("llada", tmp_path / "made")), "name": "made"}
    params = {
        "target": reference, "task": "tiny-math", "split": "test", "first": 0, "samples": 1, "drafter": "none",
        "drafter_options": {}, "verifier": "none", "budget": 0, "floor": 0.0, "padded": False, "temperature": 0.0,
        "commit_rule": "threshold:0.9", "layout": "batch", "cache": "dual", "stop": "fill", "generation_length": 24,
        "block_length": 8, "seed": 0,
    }  # fmt: skip
    drafts = {"drafter": "trajectory", "drafter_options": options, "verifier": verifier, "budget": 5, "check_logits": True}
    control = evaluate.run(params, {}, None, Session())
    method = evaluate.run({**params, **drafts}, {}, None, Session())
    assert control.summary["drafts_exact"] and method.summary["drafts_exact"] == exact
    assert not method.summary["distribution_preserving"]
    if exact:
        assert method.samples["tokens"] == control.samples["tokens"]
    rounds = method.rounds.to_pylist()
    assert all((r["logit_error"] is None) == (not r["drafted"] or r["ahead_drafted"] > 0) for r in rounds)
    assert any(r["ahead_drafted"] for r in rounds) == bool(options)
    assert {r["logit_error"] for r in control.rounds.to_pylist()} == {None}


class Session:
    """A worker that loads its target anew."""

    device, dtype, journal = "cpu", "float32", None

    def target(self, reference, block_length):
        return load_target(reference, block_length, self.device, self.dtype)

    def progress(self, done, total, **figures) -> None:
        pass
