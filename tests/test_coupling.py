"""Theory of the coupled noise against the noise itself, and broken verifiers against the exactness tests."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from targets_for_tests import random_target

from workers.decoding.commit import single
from workers.decoding.conditionals import Conditionals
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise, RoundNoise
from workers.decoding.records import DecodeSettings, Decoded
from workers.decoding.transition import Step
from workers.decoding.tree import ROOT
from workers.drafters import ORACLES, Hedge, TargetInfo, make_drafter
from workers.drafters.tree import ConfidenceTree
from workers.verifiers import Walk, make_verifier
from workers.verifiers.checks import gumbel_agreement, total_variation
from workers.verifiers.coupled import Coupled
from workers.verifiers.residual import tempered

DRAWS = 20_000
ROWS = GumbelNoise(0, "agreement", 8).rows(0, DRAWS)


@pytest.mark.parametrize(
    ("scale", "change", "temperature"), [(1, 0.3, 1.0), (2, 1.0, 1.0), (3, 1.5, 1.0), (4, 1.5, 2.0)]
)
def test_drafts_and_commits_agree_as_often_as_the_closed_form_says(scale, change, temperature):
    """Drafts of the coupled verifier against draws of the transition, both from the product's noise."""
    random = np.random.default_rng(scale)
    fresh = torch.from_numpy(scale * random.normal(size=8)).float()
    stale = fresh + torch.from_numpy(change * random.normal(size=8)).float()
    noise = RoundNoise(ROWS, np.empty((3, 0)))
    drafted, _ = make_verifier("coupled").hypotheses(Conditionals(stale.expand(DRAWS, 8)), temperature, noise, Hedge())
    states = np.full((1, DRAWS), 99)
    step = Step(states, fresh.expand(1, DRAWS, 8), 99, lambda confidence, masked: masked, temperature, noise)
    measured = (drafted[:, 0] == step.sampled[0]).mean()
    p, q = tempered(fresh, temperature), tempered(stale, temperature)
    exact, tv = gumbel_agreement(p, q), total_variation(p, q)
    assert 0.02 < tv < 0.9
    assert measured == pytest.approx(exact, abs=4 * (exact * (1 - exact) / DRAWS) ** 0.5)
    assert (1 - tv) / (1 + tv) <= exact <= 1 - tv
    # Independent draws would agree far less often: what coupling is for.
    assert exact > float((p * q).sum()) + 0.02


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 30), sharpness=st.sampled_from([0.05, 0.5, 5.0]))
def test_the_bound_of_the_paper_holds_for_any_two_laws(seed, size, sharpness):
    p, q = torch.from_numpy(np.random.default_rng(seed).dirichlet(np.full(size, sharpness), 2))
    tv = total_variation(p, q)
    exact = gumbel_agreement(p, q)
    assert (1 - tv) / (1 + tv) - 1e-9 <= exact <= 1 - tv + 1e-9
    assert gumbel_agreement(p, p) == pytest.approx(1.0) and exact == pytest.approx(gumbel_agreement(q, p))


def test_laws_without_a_common_token_never_agree():
    p, q = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.9, 0.1]], dtype=torch.float64)
    assert gumbel_agreement(p, q) == 0 and total_variation(p, q) == 1


TARGET = random_target(0)
SATURATED = random_target(1, sharpness=400.0)  # confidences of exactly 1, so that the tie-break decides the order
LENGTH, VOCAB = TARGET.block_length, TARGET.vocab_size
PROMPT = [5, 9, 2, 30, 7, 7, 41, 3, 12, 18, 25]
INFO = TargetInfo(LENGTH, VOCAB, VOCAB - 1)


def run(drafter="none", verifier=None, temperature=0.0, target=TARGET, budget=6, layout="batch", sample="s") -> Decoded:
    chosen = drafter if not isinstance(drafter, str) else make_drafter(drafter, {}, {}, INFO)
    options = DecodeSettings(21, budget=0 if drafter == "none" else budget, temperature=temperature, layout=layout)
    return decode(target, PROMPT, options, chosen, verifier or make_verifier("coupled"), GumbelNoise(7, sample, VOCAB))


def order(decoded: Decoded) -> list[int]:
    return [position for r in decoded.rounds for position in r.positions]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_tokens_are_the_same_under_every_drafter(temperature):
    """SPOT, proposition 2, path by path: bitwise equal tokens and order whoever drafts, however much, in any layout."""
    control = run(temperature=temperature)
    for drafter in ("chain", "tree", *ORACLES):
        for budget, layout in ((1, "batch"), (7, "concat"), (12, "batch")):
            method = run(drafter, None, temperature, budget=budget, layout=layout)
            assert method.tokens == control.tokens and order(method) == order(control)


class Mutant(Coupled):
    """Follows a changed idea of what the target does at each state."""

    def accept(self, tree, step: Step) -> np.ndarray: ...

    def walk(self, tree, step: Step) -> Walk:
        accept = self.accept(tree, step)
        path, node = [], ROOT
        while (child := tree.child(node, accept[node + 1])) is not None:
            path.append(child)
            node = child
        reached = [*(step.states[n + 1] for n in (ROOT, *path)), accept[node + 1]]
        steps = [np.flatnonzero(before != after) for before, after in zip(reached, reached[1:])]
        return Walk(path, steps, reached[-1])


class IndependentNoise(Mutant):
    def accept(self, tree, step):
        rows = torch.from_numpy(np.random.default_rng(len(tree)).gumbel(size=step.logits.shape[1:])).float()
        return Step(step.states, step.logits, VOCAB - 1, single, step.temperature, RoundNoise(rows, None)).sampled


class ForgottenTemperature(Mutant):
    """Draws at temperature 1 whatever was asked for."""

    def accept(self, tree, step):
        return Step(step.states, step.logits, VOCAB - 1, single, 1.0, step.noise).sampled


class TieToTheHighest(Mutant):
    """Breaks ties of confidence to the highest position."""

    def accept(self, tree, step):
        def last(confidence, masked):
            return single(confidence[:, ::-1], masked[:, ::-1])[:, ::-1]

        return Step(step.states, step.logits, VOCAB - 1, last, step.temperature, step.noise).sampled


class Orphans(Mutant):
    """Accepts a child that its parent leads to, without asking whether the target reaches the parent."""

    def accept(self, tree, step):
        accept = step.sampled.copy()
        for node, parents in enumerate(tree.parents):
            if parents[0] != ROOT and np.array_equal(accept[parents[0] + 1], tree.states[node]):
                accept[0] = tree.states[parents[0]]
                break
        return accept


class StaleCommits(Mutant):
    """Commits what the root would commit, at every state of the tree."""

    def accept(self, tree, step):
        shared = step.logits[:1].expand(step.logits.shape)
        return Step(step.states, shared, VOCAB - 1, single, step.temperature, step.noise).sampled


def differs(verifier, temperature, target=TARGET) -> bool:
    found = False
    for sample in ("s", "t", "u"):
        control = run(temperature=temperature, target=target, sample=sample)
        method = run(ConfidenceTree(), verifier, temperature, target, 8, sample=sample)
        found |= method.tokens != control.tokens or order(method) != order(control)
    return found


class Faithful(Mutant):
    def accept(self, tree, step):
        return step.sampled


@pytest.mark.parametrize(
    ("broken", "temperature", "target"),
    [
        (IndependentNoise(), 1.0, TARGET),
        (ForgottenTemperature(), 0.5, TARGET),
        (TieToTheHighest(), 0.0, SATURATED),
        (Orphans(), 0.0, TARGET),
        (Orphans(), 1.0, TARGET),
        (StaleCommits(), 0.0, TARGET),
    ],
)
def test_a_broken_verifier_does_not_pass(broken, temperature, target):
    """The comparison that proves exactness elsewhere finds each of these, and finds nothing where nothing is broken."""
    assert differs(broken, temperature, target)
    assert not differs(Faithful(), temperature, target)


def test_the_saturated_target_has_ties():
    assert run(target=SATURATED).exact_ties > 3
