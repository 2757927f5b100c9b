"""check-rejection on live states of a target: what it writes, and that nothing is evaluated behind a failure."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from test_stages import POOLS, Session, target  # noqa: F401

from workers.errors import UserError
from workers.stages import run_stage
from workers.stages.check_rejection import live_states
from workers.verifiers import checks

PARAMS = {
    "target": "random",
    "block_length": 8,
    "temperature": 1.0,
    "generation_length": 16,
    "pools": POOLS,
    "states": 3,
    "draws": 2**18,
    "walks": 60,
}
EVALUATION = {
    "target": "random", "task": "tiny-math", "split": "test", "first": 0, "samples": 1, "drafter": "chain",
    "verifier": "rejection", "budget": 4, "floor": 0.0, "padded": False, "temperature": 1.0, "commit_rule": "single",
    "cache": "prefix", "layout": "batch", "stop": "fill", "generation_length": 8, "block_length": 8, "seed": 0,
}  # fmt: skip


@pytest.mark.parametrize("verifier", ["rejection", "pt-rejection"])
def test_the_checks_of_a_target_pass_and_are_written(target, tmp_path, verifier):  # noqa: F811
    session = Session(target)
    summary = run_stage("check-rejection", {**PARAMS, "verifier": verifier}, {}, tmp_path, session)
    assert summary == json.loads((tmp_path / "checks.json").read_text())
    assert summary["passed"] and session.reports[-1] == (2, 2)
    kinds = [check["check"] for check in summary["checks"]]
    assert kinds == ["accept-residual"] * 4 + ["acceptance"] * 4 + ["committed pairs"] * 4
    assert all(check["states"] >= 3 for check in summary["checks"])
    run_stage("evaluate", {**EVALUATION, "verifier": verifier}, {"check": tmp_path}, None, session)


def test_nothing_is_evaluated_behind_a_failed_check(target, tmp_path, monkeypatch):  # noqa: F811
    def accepts_all(law, proposal, token, accept, residual):
        return token, torch.ones_like(token, dtype=torch.bool)

    monkeypatch.setattr(checks, "accept_residual", accepts_all)
    summary = run_stage("check-rejection", {**PARAMS, "verifier": "rejection"}, {}, tmp_path, Session(target))
    assert not summary["passed"]
    with pytest.raises(UserError, match="rejection does not follow the target's law at temperature 1, .*acceptance"):
        run_stage("evaluate", EVALUATION, {"check": tmp_path}, None, Session(target))


def test_live_states_are_the_targets_own(target):  # noqa: F811
    """Each state's logits make its commit, and its stale logits are those of the state one commit before."""
    prompt = [5, 9, 2, 30, 7]
    found = live_states(target, [prompt], 16, 10**9)
    assert len(found) == (3 - 2) + 2 * (8 - 2)
    for before, after in zip(found, found[1:]):
        committed = np.flatnonzero(before.state != after.state)
        if len(committed) == 1:
            assert committed[0] == before.position
            assert after.state[before.position] == before.logits[before.position].argmax()
            assert torch.equal(after.stale, before.logits)
    assert all(live.state[live.position] == target.mask_id for live in found)


def test_the_least_certain_states_are_checked(target):  # noqa: F811
    def doubt(live) -> float:
        return torch.special.entr(torch.softmax(live.logits[live.position], dim=-1)).sum().item()

    prompts = [[5, 9, 2, 30, 7], [8, 8, 1, 90, 41]]
    everything, few = (live_states(target, prompts, 16, count) for count in (10**9, 4))
    assert sorted(map(doubt, few)) == sorted(map(doubt, everything))[-4:]
