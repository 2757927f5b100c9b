"""The outlier rule."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warehouse import RunTiming, find_outliers

speeds = st.lists(st.floats(1, 1000), min_size=1, max_size=12)


def runs_of(values: list[float], group: str = "cell") -> list[RunTiming]:
    return [RunTiming(f"{group}-{index}", (group,), value) for index, value in enumerate(values)]


def flagged(values: list[float], z: float = 3.5, margin: float = 0.1) -> list[int]:
    return [int(outlier.run_id.split("-")[1]) for outlier in find_outliers(runs_of(values), z, margin)]


def test_a_slow_control_is_found_and_described() -> None:
    (outlier,) = find_outliers(runs_of([100.0, 101.0, 99.0, 60.0]), z=3.5, margin=0.1)
    assert outlier.run_id == "cell-3"
    # Median 99.5, deviations 0.5, 1.5, 0.5, 39.5: MAD 1.0.
    assert outlier.z == pytest.approx(39.5 / 1.4826)
    assert outlier.relative == pytest.approx(60 / 99.5 - 1)
    assert outlier.reason.startswith("outlier: 60 tok/s is -39.7% off the median of 4 siblings")


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([100.0, 100.1, 99.9, 105.0], []),  # far in z, but only 5 %
        ([50.0, 100.0, 150.0, 200.0], []),  # far in per cent, but so are all
        ([100.0, 50.0], []),  # two do not tell which is off
        ([100.0, 100.0, 100.0, 50.0], [3]),  # a MAD of zero
        ([100.0, 100.0, 150.0], [2]),
    ],
)
def test_both_limits_must_be_passed(values: list[float], found: list[int]) -> None:
    assert flagged(values) == found


def test_siblings_are_judged_by_themselves() -> None:
    quick, slow = runs_of([1000.0, 1001.0, 999.0], "gpu"), runs_of([10.0, 10.1, 9.9], "cpu")
    assert find_outliers([*quick, *slow], z=3.5, margin=0.1) == []


@given(speeds, st.floats(1, 10), st.floats(0, 0.5))
def test_at_most_half_are_flagged_and_never_the_median(values: list[float], z: float, margin: float) -> None:
    found = flagged(values, z, margin)
    assert len(found) <= len(values) / 2
    assert all(abs(values[index] - median(values)) > margin * median(values) for index in found)


@given(speeds, st.randoms(use_true_random=False))
def test_order_does_not_matter(values: list[float], random: Random) -> None:
    runs = runs_of(values)
    shuffled = random.sample(runs, len(runs))
    assert {o.run_id for o in find_outliers(runs, 3.5, 0.1)} == {o.run_id for o in find_outliers(shuffled, 3.5, 0.1)}


@given(speeds, st.integers(-3, 3))
def test_the_unit_does_not_matter(values: list[float], power: int) -> None:
    assert flagged(values) == flagged([value * 2.0**power for value in values])


@pytest.mark.parametrize(("z", "margin"), [(0, 0.1), (-1, 0.1), (3.5, -0.1)])
def test_senseless_limits_are_refused(z: float, margin: float) -> None:
    with pytest.raises(ValueError, match="outlier limits"):
        find_outliers([], z, margin)
