"""Which measurements are repeated, and that this ends."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from pipeline.graph import Graph, build_graph
from pipeline.reruns import Measured, controls_of, controls_to_add, drift_reason, due, measured
from pipeline.settings import Outliers
from pipeline.spec import parse_spec

SPEC = """\
target: tiny-sdar
task: tiny-math
drafter: [none, chain]
budget: [2, 4]
seed: [0, 1, 2, 3]
samples: 2
generation_length: 32
"""
GRAPH: Graph = build_graph(parse_spec(SPEC))
CONTROLS = [node.identity for node in GRAPH.nodes if node.is_control]
RULES = Outliers(z=3.5, margin=0.25, max_reruns=2)


def run(
    identity: str, tok_s: float, attempt: int = 0, status: str = "ok", device: str = "cpu", reason: str | None = None
) -> Measured:
    row = {
        "run_id": f"{identity[:8]}-{attempt}",
        "identity": identity,
        "attempt": attempt,
        "status": status,
        "wall_s": 2.0,
    }
    row |= {"tok_s": tok_s, "device_class": device, "sample_set": "s", "target_digest": "t", "reason": reason}
    [found] = measured([row | {"started_at": datetime(2026, 1, 1)}], GRAPH)
    return found


def test_a_cell_is_judged_when_all_its_seeds_are_there() -> None:
    runs = [run(identity, speed) for identity, speed in zip(CONTROLS, [100, 101, 102, 50], strict=True)]
    assert due(runs, GRAPH, CONTROLS[:1], RULES) == ([], [])
    [rerun], beyond = due(runs, GRAPH, (), RULES)
    assert (rerun.identity, rerun.replaces, beyond) == (CONTROLS[3], f"{CONTROLS[3][:8]}-0", [])
    assert rerun.reason.startswith("outlier")


def test_devices_are_not_compared() -> None:
    runs = [run(identity, speed) for identity, speed in zip(CONTROLS, [100, 101, 102, 100], strict=True)]
    slow = [run(identity, speed, 1, device="gpu") for identity, speed in zip(CONTROLS, [10, 11, 10, 10], strict=True)]
    assert due(runs + slow, GRAPH, (), RULES) == ([], [])


@given(st.lists(st.floats(1, 1000), min_size=4, max_size=4), st.data())
def test_repeating_ends_whatever_is_measured(speeds: list[float], data: st.DataObject) -> None:
    runs = [run(identity, speed) for identity, speed in zip(CONTROLS, speeds, strict=True)]
    for _ in range(len(CONTROLS) * RULES.max_reruns + 1):
        wanted, _ = due(runs, GRAPH, (), RULES)
        if not wanted:
            return
        old = next(each for each in runs if each.run_id == wanted[0].replaces)
        runs.remove(old)
        runs.append(run(old.identity, old.tok_s or 0, old.attempt, "archived", reason=wanted[0].reason))
        runs.append(run(old.identity, data.draw(st.floats(1, 1000)), old.attempt + 1))
    raise AssertionError("more repetitions than allowed")


def test_methods_have_the_control_of_their_seed_and_get_one_on_their_device() -> None:
    pairs = controls_of(GRAPH)
    assert len(pairs) == 8
    assert all(GRAPH.by_identity[method].seed == GRAPH.by_identity[control].seed for method, control in pairs.items())
    method = next(iter(pairs))
    elsewhere = [run(control, 100, device="gpu") for control in CONTROLS]
    assert controls_to_add([method], pairs, elsewhere, (), "cpu") == [pairs[method]]
    assert controls_to_add([method], pairs, elsewhere, (), "gpu") == []
    assert controls_to_add([method], pairs, elsewhere, [pairs[method]], "cpu") == []


def test_drift_is_relative_to_the_earlier_timing_and_times_are_utc() -> None:
    assert drift_reason(100.0, 103.0) == "re-timed: drift +3.0%"
    assert run(CONTROLS[0], 1.0).ended_at == datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC).timestamp()
