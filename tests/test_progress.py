"""The estimate of the time left."""

from __future__ import annotations

from pipeline.progress import TimeLeft

COLLECT, CONTROL, SPOT = ("collect",), ("evaluate", "control"), ("evaluate", "spot")


def test_nothing_is_promised_before_the_common_kind_has_been_seen() -> None:
    left = TimeLeft()
    assert left.seconds([CONTROL], [], 1) is None
    left.saw(COLLECT, 45.0)
    assert left.seconds([CONTROL] * 9, [(COLLECT, 5.0)], 2) is None
    assert left.seconds([], [(COLLECT, 5.0)], 2) == 20.0


def test_a_class_counts_by_its_own_mean_else_by_that_of_its_kind() -> None:
    left = TimeLeft()
    left.saw(CONTROL, 2.0)
    left.saw(CONTROL, 4.0)
    assert left.seconds([CONTROL, SPOT], [(CONTROL, 1.0)], 2) == (3.0 + 3.0 + 2.0) / 2
    left.saw(SPOT, 10.0)
    assert left.seconds([SPOT], [], 1) == 10.0
