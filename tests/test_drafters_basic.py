"""Names and options of drafters are checked before anything runs."""

from __future__ import annotations

import pytest

from workers.drafters import TargetInfo, make_drafter
from workers.errors import UserError

INFO = TargetInfo(block_length=8, vocab_size=48, mask_id=47)


def test_options_reach_the_drafter():
    assert make_drafter("chain", {"depth": 6}, {}, INFO).depth == 6
    assert make_drafter("tree", {"hedge": 2, "hedge_below": 0.5}, {}, INFO).hedge.below == 0.5
    assert make_drafter("none", {}, {}, INFO).hedge.size == 1


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("chian", {}, "drafter: 'chian' is unknown; choose one of none, chain"),
        ("chain", {"width": 2}, "chain has no option 'width'; known options: depth"),
        ("none", {"depth": 2}, "none has no option 'depth'"),
        ("chain", {"depth": 0}, "depth of chain must be a whole number from 1 on, not 0"),
        ("chain", {"depth": "4"}, "depth of chain must be a whole number from 1 on, not '4'"),
        ("tree", {"hedge": 0}, "hedge must be a whole number from 1 on, not 0"),
        ("tree", {"hedge_below": "low"}, "hedge_below must be a probability, not 'low'"),
    ],
)
def test_mistakes_are_user_errors(name, options, message):
    with pytest.raises(UserError, match=message):
        make_drafter(name, options, {}, INFO)


def test_a_module_that_builds_no_drafter_is_named(monkeypatch):
    monkeypatch.setattr("workers.drafters.chain.build", lambda *arguments: object())
    with pytest.raises(UserError, match="workers.drafters.chain.build returns is no Drafter"):
        make_drafter("chain", {}, {}, INFO)
