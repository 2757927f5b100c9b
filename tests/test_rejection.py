"""Rejection sampling follows the target's law on chains and position trees, and these tests notice when it does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from laws_for_tests import MASK, TARGET, VOCAB, p_value
from scipy import stats

from workers.decoding import loop
from workers.decoding.commit import single
from workers.decoding.conditionals import Conditionals
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise, RoundNoise
from workers.decoding.records import DecodeSettings
from workers.decoding.transition import Step, Transition
from workers.decoding.tree import ROOT, DraftTree
from workers.drafters import Drafter, DraftRequest, Hedge
from workers.drafters.chain import Chain
from workers.drafters.none import NoDrafts
from workers.drafters.order_model import OrderModel, OrderModelConfig
from workers.drafters.spot import SpotDrafter
from workers.drafters.tree import ConfidenceTree
from workers.verifiers import make_verifier, rejection
from workers.verifiers.residual import accept_residual, draw, tempered

NOTICED = 1e-4
CHAINS, TREES = make_verifier("rejection"), make_verifier("pt-rejection")


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


@pytest.fixture
def miscalibrated(monkeypatch):
    """Drafts are drawn from laws far flatter than the stale ones."""
    monkeypatch.setattr(loop, "Conditionals", lambda logits, confidence: Conditionals(logits / 4, confidence))


@pytest.mark.parametrize(
    ("drafter", "verifier", "temperature"),
    [
        (NoDrafts(), make_verifier("none"), 1.0),
        (Chain(), CHAINS, 0.7),
        (ConfidenceTree(), TREES, 1.5),
        (ConfidenceTree(), make_verifier("coupled"), 1.0),
    ],
)
def test_decoding_follows_the_exact_law(drafter, verifier, temperature):
    """Chi-square of whole blocks against draft-free temperature sampling, enumerated; drafts do save forwards."""
    p, forwards = p_value(drafter, verifier, temperature, trials=600)
    assert p > 0.01
    assert forwards < 3.5 or isinstance(drafter, NoDrafts)


@pytest.mark.parametrize(("drafter", "verifier"), [(Chain(), CHAINS), (ConfidenceTree(), TREES)])
def test_wrong_proposals_cost_acceptance_only(miscalibrated, drafter, verifier):
    assert p_value(drafter, verifier, 1.0, trials=600)[0] > 0.01


class Peeking(Drafter):
    """Drafts only tokens the stale law likes, so that what is drafted depends on the draws."""

    def draft(self, request: DraftRequest) -> DraftTree:
        probs = request.stale.log_probs.exp().numpy()[np.arange(len(request.state)), request.tokens[:, 0]]
        positions = np.flatnonzero(request.masked & (probs > 0.4))[: request.masked.sum() - 1]
        edges = [(ROOT, int(position), int(request.tokens[position, 0])) for position in positions]
        return DraftTree.grow(request.state, edges, [1.0] * len(edges))


def ignores_the_proposal(target, proposal, token, accept, residual):
    """Replaces a rejected draw by one of the target's law, not of the residual."""
    _, accepted = accept_residual(target, proposal, token, accept, residual)
    return torch.where(accepted, token, draw(target, residual)), accepted


def accepts_all(target, proposal, token, accept, residual):
    return token, torch.ones_like(token, dtype=torch.bool)


def rejects_by_matching(target, proposal, token, accept, residual):
    """Accepts with the target's probability and then draws the residual all the same."""
    accepted = accept < target[token]
    return torch.where(accepted, token, draw((target - proposal).clamp_min(1e-12), residual)), accepted


@pytest.mark.parametrize("broken", [ignores_the_proposal, accepts_all, rejects_by_matching])
@pytest.mark.parametrize(("drafter", "verifier"), [(Chain(), CHAINS), (ConfidenceTree(), TREES)])
def test_a_broken_rule_is_noticed(monkeypatch, miscalibrated, broken, drafter, verifier):
    monkeypatch.setattr(rejection, "accept_residual", broken)
    assert p_value(drafter, verifier, 1.0, trials=700)[0] < NOTICED


def test_a_wrong_proposal_law_is_noticed(monkeypatch):
    """Draws come from the tempered stale law; a verifier that takes them for untempered draws is wrong."""
    monkeypatch.setattr(rejection.Rejection, "_correct", lambda *args: corrected_at(*args, proposal_temperature=1.0))
    assert p_value(Chain(), CHAINS, 0.5, trials=1000)[0] < NOTICED


def corrected_at(self, step, node, position, token, proposal_temperature):
    target = tempered(step.logits[node + 1, position], step.temperature)
    proposal = tempered(step.stale.logits[position], proposal_temperature)
    accept, residual = torch.from_numpy(step.noise.uniforms[1:, position, None])
    tokens, accepted = accept_residual(target, proposal, torch.tensor([token]), accept, residual)
    return int(tokens), bool(accepted)


def test_a_topology_that_depends_on_the_draws_is_noticed():
    """Why hypotheses hide the probability of the drawn token: PT-RS is not exact for a drafter that looks at it."""
    assert p_value(Peeking(), TREES, 1.5, trials=500)[0] < NOTICED


class OneNoiseForAll(Transition):
    """Tokens of every draw and every link hang on one number."""

    def open_round(self, round: int) -> None:
        super().open_round(round)
        if self.noise is not None:
            self.noise = RoundNoise(self.noise.rows, np.full((3, len(self.noise.rows)), self.noise.uniforms[0, 0]))


def test_dependent_uniforms_are_noticed(miscalibrated):
    assert p_value(Chain(), CHAINS, 1.5, trials=500, transition=OneNoiseForAll)[0] < NOTICED


def laws(seed: int, size: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(seed)
    target, proposal = random.dirichlet(np.full(size, 0.4), 2)
    target[random.integers(size)] = 0
    proposal[random.integers(size)] = 0
    return torch.from_numpy(target / target.sum()), torch.from_numpy(proposal / proposal.sum())


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_accept_residual(seed):
    """SPOT, proposition 3: committed tokens follow the target's law, and 1 - TV of the draws are accepted."""
    target, proposal = laws(seed)
    uniforms = torch.from_numpy(np.random.default_rng(seed).random((3, 20_000)))
    token = draw(proposal, uniforms[0])
    committed, accepted = accept_residual(target, proposal, token, uniforms[1], uniforms[2])
    assert torch.equal(committed[accepted], token[accepted]) and not (committed == token)[~accepted].any()
    counts = torch.bincount(committed, minlength=len(target)).numpy()
    assert not counts[target.numpy() == 0].any()
    likely = target.numpy() * 20_000 > 5
    expected = np.append(target.numpy()[likely], max(1e-12, target.numpy()[~likely].sum())) * 20_000
    observed = np.append(counts[likely], counts[~likely].sum())
    assert stats.chi2.sf(((observed - expected) ** 2 / np.maximum(expected, 1)).sum(), likely.sum()) > 1e-4
    assert float(accepted.double().mean()) == pytest.approx(float(torch.minimum(target, proposal).sum()), abs=0.015)


def test_equal_laws_are_never_rejected_and_draws_are_quantiles():
    target, _ = laws(1)
    uniforms = torch.from_numpy(np.random.default_rng(0).random((3, 2000)))
    assert accept_residual(target, target.clone(), draw(target, uniforms[0]), *uniforms[1:])[1].all()
    grid = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    counts = torch.bincount(draw(target, grid), minlength=len(target))
    assert (counts - 1000 * target).abs().max() <= 1.0
    edge = torch.tensor([0.0, 1 - 2.0**-53], dtype=torch.float64)
    positive = torch.tensor([0.0, 0.3, 0.0, 0.7, 0.0], dtype=torch.float64)
    assert draw(positive, edge).tolist() == [1, 3]


def request_of(seed: int, uniforms: np.ndarray, hedge: Hedge) -> DraftRequest:
    logits = torch.randn(8, 10, generator=torch.Generator().manual_seed(seed)) * 2
    logits[:, 9] = -torch.inf
    state = np.where(np.arange(8) < 2, 1, 9)
    stale = Conditionals(logits)
    noise = RoundNoise(torch.zeros(8, 10), uniforms)
    tokens, probs = TREES.hypotheses(stale, 1.3, noise, hedge)
    assert (tokens[:, 0] < 9).all() and (tokens[:, 1:] == -1).all()
    return DraftRequest(state, state == 9, stale, tokens, probs, 9, 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["chain", "tree", "spot", "spot with a floor"])
def test_what_is_drafted_does_not_depend_on_the_draws(name, seed):
    """Positions and masses of the tree stay, only tokens change, when other tokens are drawn."""
    torch.manual_seed(0)
    model = OrderModel(OrderModelConfig(layers=1, width=16, heads=2)).eval()
    drafter = {
        "chain": Chain(),
        "tree": ConfidenceTree(),
        "spot": SpotDrafter(model, Hedge(2)),
        "spot with a floor": SpotDrafter(model, Hedge(2), floor=0.02),
    }[name]
    first, second = (
        drafter.draft(request_of(seed, np.random.default_rng(draws).random((3, 8)), drafter.hedge)) for draws in (1, 2)
    )
    assert first.parents == second.parents and first.mass == second.mass and len(first) > 1
    assert np.array_equal(first.states == 9, second.states == 9) and not np.array_equal(first.states, second.states)


def test_decoding_is_reproducible_and_at_zero_the_controls():
    def run(verifier, drafter, temperature, sample="s"):
        options = DecodeSettings(12, budget=6, temperature=temperature)
        noise = GumbelNoise(0, sample, VOCAB)
        return decode(TARGET, [1, 2, 0], options, drafter, make_verifier(verifier), noise).tokens

    for verifier, drafter in (("rejection", Chain()), ("pt-rejection", ConfidenceTree(2, 1.1))):
        assert run(verifier, drafter, 0.0) == run("none", NoDrafts(), 0.0)
        assert run(verifier, drafter, 1.0) == run(verifier, drafter, 1.0)
        assert len({tuple(run(verifier, drafter, 1.0, f"s{i}")) for i in range(4)}) == 4


def test_numbers_of_a_round_are_its_own():
    noise = GumbelNoise(0, "s", 8)
    found = [noise.uniforms(start, number, (3, 4)) for start in (0, 8) for number in (0, 1)]
    assert len({values.tobytes() for values in found}) == 4
    assert np.array_equal(found[1], GumbelNoise(0, "s", 8).uniforms(0, 1, (3, 4)))
    values = noise.uniforms(0, 3, (20_000,))
    assert stats.kstest(values, "uniform").pvalue > 0.01
    gumbel = np.exp(-np.exp(-noise.row(0).astype(np.float64)))
    assert not np.isclose(gumbel, noise.uniforms(0, 0, (8,))).any()


def step_of(tree: DraftTree) -> Step:
    states = np.concatenate([np.full((1, 3), MASK), tree.states])
    logits = torch.zeros(len(states), 3, VOCAB)
    logits[..., MASK] = -torch.inf
    logits[:, 1, 2] = 3
    noise = RoundNoise(torch.zeros(3, VOCAB), np.full((3, 3), 0.5))
    return Step(states, logits, MASK, single, 1.0, noise, Conditionals(logits[0]))


def test_trees_that_cannot_be_verified_are_refused():
    root = np.full(3, MASK)
    branched = DraftTree.grow(root, [(ROOT, 0, 1), (ROOT, 1, 2)], [0.5, 0.5])
    with pytest.raises(ValueError, match="rejection verifies chains"):
        CHAINS.walk(branched, step_of(branched))
    assert TREES.walk(branched, step_of(branched)).path == [1]
    hedged = DraftTree.grow(root, [(ROOT, 1, 1), (ROOT, 1, 2)], [0.5, 0.5])
    with pytest.raises(ValueError, match="one token per position"):
        TREES.walk(hedged, step_of(hedged))
