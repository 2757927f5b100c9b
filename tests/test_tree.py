"""Draft trees, and the drafters that build them, keep the rules the loop relies on."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import torch
from drafters_for_tests import RandomGraph
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.decoding.conditionals import Conditionals
from workers.decoding.noise import RoundNoise
from workers.decoding.tree import ROOT, DraftTree
from workers.drafters import DraftRequest, Hedge
from workers.drafters.chain import Chain
from workers.drafters.tree import ConfidenceTree
from workers.verifiers import make_verifier

VOCAB = 12
MASK = VOCAB - 1


def request_of(seed: int, length: int, masks: int, budget: int, hedge: Hedge, temperature: float = 0.0) -> DraftRequest:
    random = np.random.default_rng(seed)
    logits = torch.from_numpy(random.normal(scale=3, size=(length, VOCAB))).float()
    logits[:, MASK] = -torch.inf
    state = random.integers(0, MASK, length)
    state[random.permutation(length)[:masks]] = MASK
    stale = Conditionals(logits)
    rows = torch.from_numpy(random.gumbel(size=(length, VOCAB))).float()
    noise = RoundNoise(rows, np.empty((3, 0))) if temperature else None
    tokens, probs = make_verifier("coupled").hypotheses(stale, temperature, noise, hedge)
    return DraftRequest(state, state == MASK, stale, tokens, probs, budget, 0)


def check(tree: DraftTree, request: DraftRequest) -> None:
    """At most `budget` nodes; each fills one masked position of every parent and leaves masks; no twins."""
    assert len(tree) == len(tree.states) == len(tree.mass) <= request.budget
    assert tree.states.shape[1:] == request.state.shape
    for node, parents in enumerate(tree.parents):
        assert parents and all(ROOT <= parent < node for parent in parents)
        assert (tree.states[node] == MASK).any()
        for parent in parents:
            before = request.state if parent == ROOT else tree.states[parent]
            (position,) = np.flatnonzero(before != tree.states[node])
            assert before[position] == MASK
            assert tree.child(parent, tree.states[node]) == node


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 9),
    data=st.data(),
    budget=st.integers(1, 25),
    temperature=st.sampled_from([0.0, 1.0]),
    drafter=st.sampled_from([Chain(), Chain(9), ConfidenceTree(), ConfidenceTree(3, 1.0), RandomGraph(0, MASK)]),
)
def test_drafts_are_valid(seed, length, data, budget, temperature, drafter):
    masks = data.draw(st.integers(1, length))
    request = request_of(seed, length, masks, budget, drafter.hedge, temperature)
    tree = drafter.draft(request)
    check(tree, request)
    if masks > 1 and not isinstance(drafter, RandomGraph):
        assert len(tree) > 0
        assert all(0 < mass <= 1 for mass in tree.mass)


def test_chain_follows_the_samplers_order():
    request = request_of(3, 8, 6, 20, Chain.hedge)
    tree = Chain().draft(request)
    order = sorted(np.flatnonzero(request.masked), key=lambda s: -request.stale.confidence[s])
    assert tree.parents == [(-1,), (0,), (1,), (2,)]
    state = request.state.copy()
    for node, position in enumerate(order[:4]):
        state[position] = request.stale.logits[position].argmax()
        assert np.array_equal(tree.states[node], state)
    assert len(Chain().draft(request_of(3, 8, 6, 2, Chain.hedge))) == 2
    assert len(Chain().draft(request_of(3, 8, 3, 20, Chain.hedge))) == 2


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), masks=st.integers(2, 4), budget=st.integers(1, 30))
def test_best_first_finds_the_heaviest_nodes(seed, masks, budget):
    """Against enumeration of every path: an edge weighs its confidence over the sum of those still masked."""
    request = request_of(seed, 5, masks, budget, Hedge())
    confidence = request.stale.confidence.numpy().astype(float)
    masked = np.flatnonzero(request.masked)
    every = []
    for depth in range(1, masks):
        for path in permutations(masked, depth):
            mass = 1.0
            for taken, position in enumerate(path):
                left = [s for s in masked if s not in path[:taken]]
                mass *= confidence[position] / confidence[left].sum()
            every.append(mass)
    expected = sorted(every, reverse=True)[:budget]
    tree = ConfidenceTree().draft(request)
    assert np.allclose(tree.mass, expected) and len(tree) == len(expected)


def test_grow_and_child():
    root = np.array([7, MASK, MASK, MASK])
    tree = DraftTree.grow(root, [(ROOT, 1, 4), (0, 3, 5), (ROOT, 3, 5), (2, 1, 4)], [0.5, 0.2, 0.4, 0.1])
    assert tree.states.tolist() == [[7, 4, MASK, MASK], [7, 4, MASK, 5], [7, MASK, MASK, 5], [7, 4, MASK, 5]]
    assert (root == [7, MASK, MASK, MASK]).all()
    # Two orders that reach the same state are two nodes, each the child of its own parent.
    assert tree.child(0, tree.states[3]) == 1 and tree.child(2, tree.states[1]) == 3
    assert tree.child(ROOT, tree.states[1]) is None and tree.children(3) == []
    assert len(DraftTree.empty(4)) == 0 and DraftTree.empty(4).child(ROOT, root) is None
