"""Trajectory drafts: tree shapes, what their nodes hold, state equality under any rule, and the paper's own acceptance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from targets_for_tests import random_target

from workers.decoding.acceptance import parse_acceptance
from workers.decoding.commit import commit_rule
from workers.decoding.conditionals import Conditionals
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings
from workers.decoding.trajectory_shape import VARIANTS, node_count
from workers.decoding.transition import Step
from workers.decoding.tree import ROOT, DraftTree
from workers.drafters import DraftRequest
from workers.drafters.none import NoDrafts
from workers.drafters.trajectory import Trajectory, build
from workers.errors import UserError
from workers.verifiers import make_verifier
from workers.verifiers.candidates import most_probable

CAUSAL = random_target(1, sharpness=10.0)
FULL = replace(CAUSAL, attention="full")
SHIFTED = replace(FULL, shift=True)
LENGTH, VOCAB, MASK = CAUSAL.block_length, CAUSAL.vocab_size, CAUSAL.mask_id
PROMPT = [5, 9, 2, 30, 7, 7, 41, 3, 12, 18, 25]
M = 9  # mask id of the hand-made cases


def logits_of(rows: list[dict[int, float]]) -> torch.Tensor:
    """fp32 [L, 10]: rows of probabilities of some tokens, the rest shared out evenly; the mask id at -inf."""
    probs = torch.zeros(len(rows), M + 1, dtype=torch.float64)
    for position, row in enumerate(rows):
        probs[position, :M] = (1 - sum(row.values())) / (M - len(row))
        for token, probability in row.items():
            probs[position, token] = probability
    return probs.log().float()


def request(confidences: list[float], filled: int = 0, drafter: Trajectory | None = None, budget: int = 20) -> DraftRequest:
    """Positions whose argmax is their own number + 1, with these confidences and a runner-up 0 of half the rest."""
    stale = Conditionals(logits_of([{i % 8 + 1: c, 0: (1 - c) / 2} for i, c in enumerate(confidences)]))
    state = np.full(len(confidences), M)
    state[:filled] = 5
    tokens, probs = most_probable(stale, (drafter or Trajectory()).hedge)
    return DraftRequest(state, state == M, stale, tokens, probs, budget, -1)


def sets(tree: DraftTree) -> list[tuple[int, ...]]:
    return [tuple(np.flatnonzero(state != M).tolist()) for state in tree.states]


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ((1, 1, "hybrid"), 1), ((2, 2, "hybrid"), 3), ((3, 3, "hybrid"), 6), ((1, 3, "hybrid"), 3), ((2, 3, "hybrid"), 4),
        ((2, 2, "top-2"), 4), ((4, 3, "top-2"), 8), ((2, 2, "full"), 4), ((3, 3, "full"), 9), ((2, 2, "duplicate"), 4),
    ],
)  # fmt: skip
def test_shapes_have_the_counts_of_the_paper(shape, count):
    assert node_count(*shape) == count
    tree = Trajectory(*shape).draft(request([0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15]))
    assert len(tree) == count and tree.depth == shape[1]


CONFIDENCES = [0.3, 0.8, 0.5, 0.7, 0.6]  # positions by rank: 1, 3, 4, 2, 0


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 3), [(1,), (1, 3), (1, 3, 4)]),
        ((2, 2), [(1,), (3,), (1, 3)]),
        # {4} extends {1}, as {1, 3} is there already; {1, 4} outweighs {3, 4}.
        ((3, 3), [(1,), (3,), (4,), (1, 3), (1, 4), (1, 3, 4)]),
        ((2, 2, "full"), [(1,), (3,), (1, 3), (3, 4)]),
        ((2, 2, "duplicate"), [(1,), (3,), (1, 3), (1, 3)]),
        ((2, 2, "top-2"), [(1,), (3,), (1, 3), (1, 4)]),
    ],
)
def test_branches_are_sets_of_positions_by_confidence(shape, expected):
    assert sets(Trajectory(*shape).draft(request(CONFIDENCES))) == expected


def test_a_draft_is_the_child_of_all_it_contains_and_weighs_their_product():
    tree = Trajectory(3, 3).draft(request(CONFIDENCES))
    assert tree.parents == [(-1,), (-1,), (-1,), (0, -1, 1), (2, -1, 0), (3, -1, 0, 1, 2, 4)]
    assert tree.mass == pytest.approx([0.8, 0.7, 0.6, 0.56, 0.48, 0.336])
    assert (tree.states[5] == [M, 2, M, 4, 5]).all()


def test_no_draft_fills_the_block():
    assert sets(Trajectory(3, 3).draft(request(CONFIDENCES, filled=3))) == [(0, 1, 2, 3), (0, 1, 2, 4)]
    assert len(Trajectory(3, 3).draft(request(CONFIDENCES, filled=4))) == 0
    assert len(Trajectory(3, 3, tau=0.5).draft(request(CONFIDENCES, filled=1))) == 0


def test_positions_above_tau_are_in_every_draft():
    assert sets(Trajectory(2, 2, tau=0.7).draft(request(CONFIDENCES))) == [(1, 3, 4), (1, 2, 3), (1, 2, 3, 4)]


def test_token_alternatives_branch_at_the_first_level():
    drafter = Trajectory(3, 2, tokens=2)
    tree = drafter.draft(request([0.55, 0.4, 0.42], drafter=drafter))
    # The runner-up of a position has half of what its best token leaves: 0.225, 0.3, 0.29.
    assert [tuple(state) for state in tree.states] == [(1, M, M), (M, M, 3), (M, 2, M), (1, M, 3), (1, 2, M)]
    drafter = Trajectory(3, 1, tokens=2)
    states = drafter.draft(request([0.5, 0.34], drafter=drafter)).states
    assert [tuple(state) for state in states] == [(1, M), (M, 2), (M, 0)]


def test_options_are_checked():
    for options, message in (
        ({"width": 0}, "width of trajectory"), ({"variant": "wide"}, "variant of trajectory must be one of hybrid"),
        ({"inter_blocks": 4}, "from 0 to 3"), ({"beam": 2}, "no option 'beam'"), ({"depth": 1.5}, "depth of trajectory"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=message):
            build(options, {}, None)


def run(target, drafter=None, verifier: str = "none", **options):
    noise = GumbelNoise(0, "s", VOCAB)
    return decode(target, PROMPT, DecodeSettings(20, **options), drafter or NoDrafts(), make_verifier(verifier), noise)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    target_cache=st.sampled_from([(CAUSAL, "prefix"), (FULL, "dual"), (SHIFTED, "dual"), (FULL, "approximate-prefix"), (FULL, "none")]),
    rule=st.sampled_from(["single", "threshold:0.9", "threshold:0.6", "threshold:0.4", "top-k:2", "factor:1.0"]),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from(VARIANTS)),
    tokens=st.integers(1, 2),
    tau=st.sampled_from([None, 0.4, 0.8]),
    verifier_temperature=st.sampled_from([("greedy", 0.0), ("coupled", 1.0), ("uncoupled", 0.8)]),
    layout=st.sampled_from(["batch", "concat"]),
    padded=st.booleans(),
)
def test_state_equality_is_exact_under_every_rule(
    target_cache, rule, shape, tokens, tau, verifier_temperature, layout, padded
):
    """Neither paper offers this: a threshold decoder that commits exactly what it commits without drafts."""
    (target, cache), (verifier, temperature) = target_cache, verifier_temperature
    shared = {"commit_rule": rule, "cache": cache, "temperature": temperature}
    control = run(target, **shared)
    drafter = Trajectory(*shape, tokens=tokens, tau=tau)
    method = run(target, drafter, verifier, budget=node_count(*shape), layout=layout, padded=padded, **shared)
    assert method.tokens == control.tokens
    assert [p for r in method.rounds for p in r.positions] == [p for r in control.rounds for p in r.positions]
    assert method.nfe <= control.nfe


@pytest.mark.parametrize("rule", ["single", "threshold:0.6"])
@pytest.mark.parametrize(("attention", "cache"), [("full", "dual"), ("block-causal", "prefix")])
def test_exact_drafts_save_forwards(rule, attention, cache):
    shared = {"commit_rule": rule, "cache": cache}
    saved = 0
    for seed in range(5):
        target = replace(random_target(seed), attention=attention)
        control, method = run(target, **shared), run(target, Trajectory(3, 3), "greedy", budget=6, **shared)
        saved += control.nfe - method.nfe
    assert saved > 5


@pytest.mark.parametrize("rule", ["single", "threshold:0.6"])
def test_theorem_1_holds_where_the_state_is_compared_and_not_where_tokens_are(rule):
    """Top-1 decoding with cached keys and values, no inter-block speculation (theorem 1, table 10): equal tokens, equal
    order. Its proof has the position of each step fixed by the rule; the paper's acceptance (section 3.3) asks for the
    token only, and drifts."""
    drifted = 0
    for seed in range(6):
        target = replace(random_target(seed, sharpness=10.0), attention="full")
        shared = {"commit_rule": rule, "cache": "dual"}
        control = run(target, **shared)
        exact = run(target, Trajectory(2, 2), "greedy", budget=3, **shared)
        lossy = run(target, Trajectory(2, 2), "subset-top-1", budget=3, **shared)
        assert exact.tokens == control.tokens
        assert lossy.nfe <= exact.nfe
        drifted += lossy.tokens != control.tokens
    assert drifted > 0


def step_of(states: list[list[int]], rows: list[list[dict[int, float]]], rule: str = "threshold:0.9") -> Step:
    return Step(np.array(states), torch.stack([logits_of(each) for each in rows]), M, commit_rule(rule), 0.0, None)


def tree_of(states: list[list[int]], parents: list[tuple[int, ...]]) -> DraftTree:
    return DraftTree(np.array(states), parents, [1.0] * len(states))


# Three positions: the target prefers 1 at position 0, 2 at position 1, 3 at position 2; what it thinks of 7 varies.
ROOT_ROW = [{1: 0.5, 7: 0.3}, {2: 0.6, 7: 0.25, 6: 0.1}, {3: 0.7}]


@pytest.mark.parametrize(
    ("verifier", "drafts", "path"),
    [
        ("subset-top-1", [[1, M, M]], [0]),  # the rule itself would fill position 2
        ("greedy", [[1, M, M]], []),
        ("greedy", [[M, M, 3]], [0]),
        ("subset-top-1", [[7, M, M], [M, 2, M]], [1]),
        ("subset-top-1", [[7, M, M], [M, 7, M]], []),
        ("subset-top-k:2", [[7, M, M]], [0]),
        ("subset-top-k:2", [[M, 6, M]], []),
        ("subset-top-k:3", [[M, 6, M]], [0]),
        ("subset-threshold:0.55", [[1, M, M], [M, 2, M]], [1]),
        ("subset-threshold:0.9", [[1, M, M], [M, 2, M]], []),
    ],
)
def test_what_is_accepted_at_the_root(verifier, drafts, path):
    tree = tree_of(drafts, [(ROOT,)] * len(drafts))
    step = step_of([[M, M, M], *drafts], [ROOT_ROW] * (1 + len(drafts)))
    walk = make_verifier(verifier).walk(tree, step)
    assert walk.path == path
    # The accepted draft's own forward then commits by the rule: its most confident position, here 2, else 1 or 0.
    state = [*(drafts[path[0]] if path else [M, M, M])]
    best = next(i for i in (2, 1, 0) if state[i] == M)
    state[best] = (1, 2, 3)[best]
    assert walk.state.tolist() == state and walk.steps[-1].tolist() == [best]


def test_tokens_are_checked_under_the_draft_that_adds_to():
    changed = [{1: 0.5}, {6: 0.6, 2: 0.3}, {3: 0.7}]
    states = [[M, M, M], [1, M, M], [1, 2, M]]
    step = step_of(states, [ROOT_ROW, changed, ROOT_ROW])
    # {0, 1} is also a child of the root, which likes it; it is reached through {0} only, which does not.
    tree = tree_of(states[1:], [(ROOT,), (0, ROOT)])
    assert make_verifier("subset-top-1").walk(tree, step).path == [0]
    assert make_verifier("subset-top-1:longest").walk(tree, step).path == [0]
    assert make_verifier("subset-top-k:2").walk(tree, step).path == [0, 1]


def test_greedy_takes_the_first_and_longest_the_longest():
    states = [[M, M, M, M], [1, M, M, M], [M, 2, M, M], [M, 2, 3, M], [7, M, 3, M]]
    rows = [{1: 0.5}, {2: 0.5}, {3: 0.5}, {4: 0.4}]
    step = step_of(states, [rows] * 5)
    tree = tree_of(states[1:], [(ROOT,), (ROOT,), (1,), (0,)])
    greedy, longest = (make_verifier(name).walk(tree, step) for name in ("subset-top-1", "subset-top-1:longest"))
    assert greedy.path == [0] and [each.tolist() for each in greedy.steps] == [[0], [1]]
    assert longest.path == [1, 2] and [each.tolist() for each in longest.steps] == [[1], [2], [0]]
    assert longest.state.tolist() == [1, 2, 3, M]


@pytest.mark.parametrize("verifier", ["subset-top-1", "subset-top-k", "subset-threshold:0.5", "subset-top-1:longest"])
@pytest.mark.parametrize(("target", "cache"), [(FULL, "dual"), (SHIFTED, "dual"), (CAUSAL, "prefix")])
def test_lossy_runs_fill_every_position_once(verifier, target, cache):
    options = {"commit_rule": "threshold:0.6", "cache": cache}
    control, method = run(target, **options), run(target, Trajectory(3, 3), verifier, budget=6, **options)
    order = [p for r in method.rounds for p in r.positions]
    assert sorted(order) == list(range(order and min(order), min(order) + len(order)))
    assert len(method.tokens) == len(control.tokens) == len(order) and MASK not in method.tokens
    assert sum(block.commits for block in method.blocks) == len(order)
    assert not make_verifier(verifier).exact(0)


def test_acceptances_have_one_written_form():
    forms = ("subset-top-1", "subset-top-k", "subset-threshold", "subset-top-k:2:longest", "subset-top-1:longest")
    assert [str(parse_acceptance(text)) for text in forms] == [
        "subset-top-1", "subset-top-k:3", "subset-threshold:0.9", "subset-top-k:2:longest", "subset-top-1:longest",
    ]  # fmt: skip
    for text in ("subset-top-1:2", "subset-top-k:0", "subset-top-k:1.5", "subset-threshold:2", "subset-top-k:2:3", "subset-any"):
        with pytest.raises(UserError):
            parse_acceptance(text)
