"""What a spec may ask of rejection verifiers and oracles, and the checks its graph puts before them."""

from __future__ import annotations

import pytest
from test_graph import FACTS, packaged  # noqa: F401

from pipeline.graph import Graph, build_graph
from pipeline.spec import SpecError, parse_spec

SPEC = """\
target: tiny-sdar
task: tiny-math
drafter: [chain, line, tree, oracle-joint]
budget: [4, 8]
temperature: [0, 0.7, 1]
seed: [0, 1]
samples: 2
verifier: [coupled, rejection, pt-rejection]
drafters:
  line: {kind: spot, shape: chain}
exclude:
  - {drafter: oracle-joint, verifier: [rejection, pt-rejection]}
  - {drafter: tree, verifier: rejection}
stages:
  collect: {prompts: 4, shard_prompts: 4}
"""


def graph_of(text: str = SPEC, *overrides: str) -> Graph:
    return build_graph(parse_spec(text, overrides=overrides), None, FACTS)


def test_no_rejection_run_starts_before_its_check() -> None:
    graph = graph_of()
    checks = {node.label: node for node in graph.nodes if node.kind == "check-rejection"}
    pairs = [(verifier, temperature) for verifier in ("rejection", "pt-rejection") for temperature in ("0.7", "1")]
    assert checks.keys() == {f"check-rejection/tiny-sdar/{verifier}/T{temperature}" for verifier, temperature in pairs}
    for node in graph.nodes:
        if node.cell:
            wanted = f"check-rejection/tiny-sdar/{node.cell['verifier']}/T{node.cell['temperature']:g}"
            assert node.inputs.get("check") == (checks[wanted].identity if wanted in checks else None)
            assert ("check" in node.inputs) == ("rejection" in node.cell["verifier"])
    order = [node.kind for node in graph.nodes]
    assert order.index("check-rejection") < order.index("evaluate")
    assert all(pool["split"] == "calibration" for node in checks.values() for pool in node.params["pools"])


def test_a_check_depends_on_its_own_settings_alone() -> None:
    def identities(graph: Graph) -> set[str]:
        return {node.identity for node in graph.nodes if node.kind == "check-rejection"}

    assert identities(graph_of()) == identities(graph_of(SPEC, "samples=1", "seed=5", "budget=3"))
    assert not identities(graph_of()) & identities(graph_of(SPEC, "stages.check_rejection.walks=400"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "  - {drafter: tree, verifier: rejection}\n",
            "",
            "spec.yaml:3: drafter[2]: 'tree' with verifier rejection: it drafts trees, and rejection sampling takes one "
            "proposal per link; use verifier pt-rejection, or exclude it",
        ),
        (
            "shape: chain",
            "shape: tree",
            "spec.yaml:3: drafter[1]: 'line' with verifier rejection: it drafts trees, and rejection sampling takes one "
            "proposal per link; use shape: chain or verifier pt-rejection, or exclude it",
        ),
        (
            "[rejection, pt-rejection]}",
            "pt-rejection}",
            "spec.yaml:3: drafter[3]: 'oracle-joint' with verifier rejection: at T>0 the future is known under the coupled "
            "noise only; use verifier coupled, or exclude it",
        ),
        ("verifier: [coupled,", "verifier: [uncoupled,", "'oracle-joint' with verifier uncoupled: at T>0"),
        ("verifier: [coupled,", "verifier: [greedy,", "'oracle-joint' with verifier greedy: at T>0"),
        ("shape: chain", "shape: line", "drafters.line.shape: should be 'tree' or 'chain', got 'line'"),
        ("kind: spot, shape: chain", "kind: oracle-joint, hedge: 2", "drafters.line.hedge: unknown key"),
        ("stages:\n", "stages:\n  check_rejection: {draws: 1000}\n", "stages.check_rejection.draws: should be"),
    ],
)
def test_what_cannot_be_verified_is_refused(old: str, new: str, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(SPEC.replace(old, new), "spec.yaml")
    assert any(str(problem).startswith(expected) or expected in str(problem) for problem in caught.value.problems)


def test_at_zero_everything_goes() -> None:
    """All verifiers are the greedy one there, and the future needs no noise."""
    head, _, rest = SPEC.replace("[0, 0.7, 1]", "0").partition("exclude:")
    graph = graph_of(head + rest[rest.index("stages:") :])
    assert {node.cell["verifier"] for node in graph.nodes if node.cell} == {"none", "greedy"}
    assert not any(node.kind == "check-rejection" for node in graph.nodes)
