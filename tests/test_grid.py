"""The grid: its size, its controls, and what `exclude` removes."""

from __future__ import annotations

import itertools
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.grid import CONTROL_KEY, expand
from pipeline.spec import Spec, parse_spec


def spec_of(**changes: object) -> Spec:
    """A spec from settings; JSON is YAML."""
    base = {"target": "tiny-sdar", "task": "tiny-math", "drafter": ["none", "spot"], "budget": 8, "samples": 1}
    return parse_spec(json.dumps(base | {"allow_code_execution": True} | changes))


def some(values: list) -> st.SearchStrategy[list]:
    return st.lists(st.sampled_from(values), min_size=1, unique=True)


GRIDS = st.fixed_dictionaries(
    {
        "task": some(["tiny-math", "tiny-code"]),
        "drafter": some(["spot", "spiffy", "chain", "tree"]),
        "budget": some([1, 4, 8, 20]),
        "temperature": some([0, 0.5, 1]),
        "seed": some([0, 1, 2]),
        "verifier": some(["uncoupled", "coupled"]),
        "padded": some([True, False]),
        "layout": some(["batch", "concat"]),
        "stop": some(["fill", "eos"]),
        "generation_length": some([32, 64]),
    }
)


@settings(max_examples=40)
@given(GRIDS, st.booleans())
def test_size_and_controls(grid: dict[str, list], named: bool) -> None:
    runs = expand(spec_of(**grid | {"drafter": grid["drafter"] + ["none"] * named}))
    count = {key: len(values) for key, values in grid.items()}
    hot = sum(temperature > 0 for temperature in grid["temperature"])
    keys = count["task"] * count["stop"] * count["generation_length"]
    # The verifiers coincide at temperature 0; a control has neither drafter, budget, verifier, padding nor layout.
    methods = count["drafter"] * count["budget"] * count["padded"] * count["layout"]
    methods *= count["verifier"] * hot + (count["temperature"] - hot)
    controls = [run for run in runs if run.cell.is_control]
    assert len(controls) == keys * count["temperature"] * count["seed"]
    assert len(runs) - len(controls) == keys * count["seed"] * methods
    assert len(set(runs)) == len(runs)

    met: set = set()
    for run in runs:  # every method finds the control of its key and seed before it
        if run.cell.is_control:
            met.add((run.cell.control_key, run.seed))
        else:
            assert (run.cell.control_key, run.seed) in met
    keys_in_order = [run.cell.control_key for run in runs]
    assert [key for key, _ in itertools.groupby(keys_in_order)] == list(dict.fromkeys(keys_in_order)), "keys mix"


@settings(max_examples=40)
@given(
    GRIDS,
    st.sets(st.sampled_from(["task", "drafter", "budget", "temperature", "seed", "layout"]), min_size=1),
    st.data(),
)
def test_exclude_removes_exactly_the_cells_it_names(
    grid: dict[str, list], columns: set[str], data: st.DataObject
) -> None:
    entry = {column: data.draw(some(grid[column])) for column in sorted(columns)}
    whole = expand(spec_of(**grid))
    methods = [run for run in whole if not run.cell.is_control]

    def named(run) -> bool:
        values = run.cell.columns | {"drafter": run.cell.method, "seed": run.seed}
        return all(values[column] in allowed for column, allowed in entry.items())

    kept = [run for run in methods if not named(run)]
    if kept:
        runs = expand(spec_of(**grid, exclude=[entry]))
        assert [run for run in runs if not run.cell.is_control] == kept
        wanted = {(run.cell.control_key, run.seed) for run in kept}
        assert {(run.cell.control_key, run.seed) for run in runs if run.cell.is_control} == wanted


def test_control_cell() -> None:
    spec = spec_of(budget=[8, 20], padded=True, layout="concat", temperature=1)
    control, *methods = expand(spec)
    expected = {"method": "control", "drafter": "none", "verifier": "none", "budget": 0, "floor": 0.0, "padded": False}
    assert expected.items() <= control.cell.columns.items()
    assert {run.cell.verifier for run in methods} == {"coupled"}
    assert set(CONTROL_KEY) <= control.cell.columns.keys()


def test_verifiers_coincide_at_temperature_0() -> None:
    runs = expand(spec_of(verifier=["auto", "uncoupled"], temperature=[0, 1]))
    cells = [run.cell for run in runs if not run.cell.is_control]
    assert [(cell.temperature, cell.verifier) for cell in cells] == [(0, "greedy"), (1, "coupled"), (1, "uncoupled")]


def test_methods_carry_label_and_kind() -> None:
    spec = spec_of(drafter=["gamma", "spot"], drafters={"gamma": {"kind": "spot", "floor": "calibrated"}})
    cells = [run.cell for run in expand(spec)]
    assert [(cell.method, cell.drafter, cell.floor) for cell in cells] == [
        ("control", "none", 0.0),
        ("gamma", "spot", "calibrated"),
        ("spot", "spot", 0.0),
    ]


def test_control_can_be_left_out() -> None:
    runs = expand(spec_of(drafter="spot", control={"include": False}))
    assert [run.cell.method for run in runs] == ["spot"]
