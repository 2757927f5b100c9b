"""The checks that run before any rejection sampling: right verifiers pass, broken ones do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from workers.drafters.chain import Chain
from workers.drafters.tree import ConfidenceTree
from workers.verifiers import checks, make_verifier, rejection
from workers.verifiers.checks import IMPOSSIBLE, LiveState, check_pairs, check_rule, chi_square, goodness
from workers.verifiers.residual import accept_residual, draw

LENGTH, VOCAB, MASK = 6, 9, 8
DRAFTERS = {"rejection": Chain(), "pt-rejection": ConfidenceTree()}


def live_states(count: int = 3) -> list[LiveState]:
    found = []
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(LENGTH, VOCAB, generator=generator) * 2
        stale = logits + torch.randn(LENGTH, VOCAB, generator=generator) * 0.7
        logits[:, MASK] = stale[:, MASK] = -torch.inf
        state = np.full(LENGTH, MASK)
        state[0] = 2
        confidence = torch.softmax(logits, dim=-1).amax(dim=-1).numpy()
        found.append(LiveState(state, 1 + int(confidence[1:].argmax()), logits, stale))
    return found


def pairs(name: str, draws: int = 250):
    return check_pairs(live_states(2), make_verifier(name), DRAFTERS[name], 1.0, 6, MASK, draws, seed=1)


def test_the_rule_passes():
    found = check_rule(live_states(), temperature=1.0, draws=2**20, seed=0)
    assert {row.check for row in found} == {"accept-residual", "acceptance"} and len(found) == 8
    assert all(row.passed and row.states == 3 and row.draws == 2**20 for row in found)
    assert all(0 < row.statistic <= 0.002 for row in found if row.check == "acceptance")


@pytest.mark.parametrize("name", DRAFTERS)
def test_whole_rounds_pass(name):
    found = pairs(name)
    assert {row.proposal for row in found} == {"stale", "flattened", "sharpened", "of the next position"}
    assert all(row.passed and row.dof > 3 and row.p_value > 0.001 for row in found)


def replaces_by_the_target(target, proposal, token, accept, residual):
    accepted = accept_residual(target, proposal, token, accept, residual)[1]
    return torch.where(accepted, token, draw(target, residual)), accepted


def accepts_too_often(target, proposal, token, accept, residual):
    return accept_residual(target, proposal, token, 0.95 * accept, residual)


def test_a_broken_rule_fails(monkeypatch):
    monkeypatch.setattr(checks, "accept_residual", replaces_by_the_target)
    found = check_rule(live_states(), 1.0, 2**16, seed=0)
    assert not any(row.passed for row in found if row.check == "accept-residual")
    monkeypatch.setattr(checks, "accept_residual", accepts_too_often)
    found = check_rule(live_states(), 1.0, 2**20, seed=0)
    assert not any(row.passed for row in found if row.check == "acceptance")


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_broken_verifier_fails(monkeypatch, name):
    monkeypatch.setattr(rejection, "accept_residual", replaces_by_the_target)
    assert not all(row.passed for row in pairs(name, 500))
    monkeypatch.undo()
    monkeypatch.setattr(rejection.Rejection, "_correct", lambda self, step, node, position, token: (token, True))
    assert not all(row.passed for row in pairs(name))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), cells=st.integers(2, 30))
def test_chi_square_is_scipys_where_no_cell_is_rare(seed, cells):
    random = np.random.default_rng(seed)
    law = random.dirichlet(np.full(cells, 5.0))
    counts = random.multinomial(100 * cells * 20, law)
    statistic, dof = chi_square(counts, law)
    if (law * counts.sum() >= 5).all():
        assert dof == cells - 1 and statistic == pytest.approx(stats.chisquare(counts, law * counts.sum()).statistic)


def test_rare_cells_are_pooled_and_the_impossible_is_noticed():
    law = np.array([0.5, 0.3, 0.19, 0.006, 0.004])
    statistic, dof = chi_square(np.array([50, 30, 19, 1, 0]), law)
    assert dof == 2 and statistic == pytest.approx(0)  # the two rare cells go to the third
    assert chi_square(np.array([5000, 3000, 1900, 60, 40]), law)[1] == 4
    assert chi_square(np.array([1, 9, 0]), np.array([0.0, 0.5, 0.5]))[0] == IMPOSSIBLE
    assert chi_square(np.array([7]), np.array([1.0])) == (0, 0)
    assert goodness("x", "y", 7, [(0.0, 0)]).passed
    assert not goodness("x", "y", 7, [(IMPOSSIBLE, 1), (1.0, 3)]).passed
    assert goodness("x", "y", 7, [(4.0, 3), (1.0, 2)]).p_value == pytest.approx(stats.chi2.sf(5.0, 5))
