"""Which hypotheses a verifier offers, which path it accepts, and what a round reports about it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.decoding.commit import single
from workers.decoding.conditionals import Conditionals
from workers.decoding.journal import BlockJournal
from workers.decoding.noise import RoundNoise
from workers.decoding.transition import Step
from workers.decoding.tree import ROOT, DraftTree
from workers.drafters import Hedge
from workers.errors import UserError
from workers.verifiers import make_verifier

VOCAB, MASK = 10, 9


def logits_of(seed: int, *shape: int) -> torch.Tensor:
    logits = torch.randn(*shape, VOCAB, generator=torch.Generator().manual_seed(seed)) * 2
    logits[..., MASK] = -torch.inf
    return logits


def step_of(states: np.ndarray, logits: torch.Tensor, temperature: float = 0.0) -> Step:
    rows = torch.from_numpy(np.random.default_rng(5).gumbel(size=logits.shape[1:])).float()
    noise = RoundNoise(rows, np.empty((3, 0))) if temperature else None
    return Step(states, logits, MASK, single, temperature, noise)


def commits(*pairs: tuple[int, int], length: int = 4) -> torch.Tensor:
    """Logits [len(pairs), length, V] with which the target commits (position, token) at each replica in turn."""
    logits = torch.zeros(len(pairs), length, VOCAB)
    logits[..., MASK] = -torch.inf
    for replica, (position, token) in enumerate(pairs):
        logits[replica, position, token] = 5
    return logits


ROOT_STATE = np.full(4, MASK)
# Node 0 fills position 0, node 1 position 2; node 2 both, reachable through either, as in a Spiffy graph.
DIAMOND = DraftTree(
    states=np.array([[1, MASK, MASK, MASK], [MASK, MASK, 3, MASK], [1, MASK, 3, MASK]]),
    parents=[(ROOT,), (ROOT,), (0, 1)],
    mass=[0.5, 0.5, 0.3],
)


@pytest.mark.parametrize(
    ("targets", "path", "positions"),
    [
        (((0, 1), (2, 3), (1, 1), (3, 4)), [0, 2], [0, 2, 3]),
        (((2, 3), (2, 3), (0, 1), (1, 4)), [1, 2], [2, 0, 1]),
        (((0, 1), (2, 4), (0, 1), (1, 4)), [0], [0, 2]),
        (((1, 1), (2, 3), (0, 1), (1, 4)), [], [1]),
    ],
)
@pytest.mark.parametrize("name", ["greedy", "uncoupled", "coupled"])
def test_walk_takes_the_only_path(targets, path, positions, name):
    states = np.concatenate([ROOT_STATE[None], DIAMOND.states])
    walk = make_verifier(name).walk(DIAMOND, step_of(states, commits(*targets)))
    assert walk.path == path and np.concatenate(walk.steps).tolist() == positions
    last = states[walk.last + 1]
    position, token = targets[walk.last + 1]
    assert walk.state[position] == token and (walk.state != last).sum() == 1


@pytest.mark.parametrize(
    ("first", "cause", "position_rank", "token_rank"),
    [((0, 2), "token", 1, 2), ((1, 1), "position", 0, 0), ((3, 1), "position", 3, 0)],
)
def test_reject_cause_and_ranks(first, cause, position_rank, token_rank):
    """Stale confidences fall in the order of positions 1, 0, 2, 3; at position 0 the stale tokens rank 5, 1, 2."""
    stale = commits((0, 5))[0]
    stale[1, 1], stale[0, [5, 1, 2]], stale[2, 3], stale[3, 1] = 5, torch.tensor([4.0, 1.0, 0.5]), 3, 2
    states = np.concatenate([ROOT_STATE[None], DIAMOND.states])
    step = step_of(states, commits(first, (1, 1), (1, 1), (1, 1)))
    walk = make_verifier("greedy").walk(DIAMOND, step)
    journal = BlockJournal(0, start=8)
    found = journal.add(DIAMOND, step, walk, Conditionals(stale), 4, 0.0, 0.0)
    assert (found.reject_cause, found.true_position_rank, found.true_token_rank) == (cause, position_rank, token_rank)
    assert found.positions == [8 + first[0]] and found.drafted == 3 and found.accepted == 0
    stats = journal.stats()
    assert (stats.commits, stats.compared) == (1, 1)
    assert stats.stale_position == (position_rank == 0) and stats.stale_token == (token_rank == 0)


@pytest.mark.parametrize(
    ("preferred", "ranking", "cause", "rank"),
    [(3, None, "budget", 0), (1, None, "position", 1), (1, [9, 0, 9, 1], "budget", 0), (3, [9, 1, 9, 0], "position", 1)],
)
def test_a_tree_that_ends_is_out_of_budget_where_its_drafter_knew_the_position(preferred, ranking, cause, rank):
    """The path ends at a leaf and the target fills position 3 of 1 and 3; `preferred` has the larger stale confidence."""
    states = np.concatenate([ROOT_STATE[None], DIAMOND.states])
    step = step_of(states, commits((0, 1), (2, 3), (1, 1), (3, 4)))
    walk = make_verifier("greedy").walk(DIAMOND, step)
    tree = replace(DIAMOND, ranking=ranking and (lambda state: np.array(ranking)))
    found = BlockJournal(0, 0).add(tree, step, walk, Conditionals(commits((preferred, 4))[0]), 4, 0.0, 0.0)
    assert (found.reject_cause, found.true_order_rank) == (cause, rank)
    assert found.true_position_rank == (preferred != 3)


def test_no_tree_has_no_cause():
    alone = step_of(ROOT_STATE[None], commits((0, 1)))
    none = DraftTree.empty(4)
    found = BlockJournal(0, 0).add(none, alone, make_verifier("none").walk(none, alone), None, 1, 0.0, 0.0)
    assert found.reject_cause is None and found.true_position_rank is None


def test_ties_are_counted_among_masked_positions():
    """Position 0 is as confident as position 1 but filled; then 1 and 2 tie exactly; then 1 leads by 2e-7."""
    journal = BlockJournal(0, 0)
    none = DraftTree.empty(4)
    for first, second in ((0.75, 0.25), (0.5, 0.5), (0.5000002, 0.5)):
        step = step_of(np.array([[3, MASK, MASK, MASK]]), commits((0, 3)))
        step.confidence = np.array([[first, first, second, 0.1]], dtype=np.float32)
        journal.add(none, step, make_verifier("none").walk(none, step), None, 1, 0.0, 0.0)
    assert (journal.stats().exact_ties, journal.stats().near_ties) == (1, 2)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), replicas=st.integers(1, 4), temperature=st.sampled_from([0.0, 0.7, 1.5]))
def test_transition(seed, replicas, temperature):
    """SPOT, section 4.1, position by position: untempered confidence chooses, ties to the lowest index."""
    logits = logits_of(seed, replicas, 5)
    logits[:, 3] = logits[:, 1]
    states = np.random.default_rng(seed).integers(0, VOCAB, (replicas, 5))
    states[:, 4] = MASK
    step = step_of(states, logits, temperature)
    rows = step.noise.rows if temperature else None
    for replica in range(replicas):
        probs = torch.softmax(logits[replica], dim=-1)
        masked = np.flatnonzero(states[replica] == MASK)
        chosen = max(masked, key=lambda s: (probs[s].max().item(), -s))
        expected = states[replica].copy()
        score = probs[chosen].log() / (temperature or 1) + (rows[chosen] if temperature else 0)
        expected[chosen] = score.argmax()
        assert np.array_equal(step.sampled[replica], expected)
        expected[chosen] = logits[replica, chosen].argmax()
        assert np.array_equal(step.greedy[replica], expected)
        assert np.flatnonzero(step.committed[replica]).tolist() == [chosen]


def test_a_full_state_commits_nothing():
    assert not single(np.ones((1, 3), dtype=np.float32), np.zeros((1, 3), dtype=bool)).any()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 4), below=st.sampled_from([0.0, 0.6, 2.0]))
def test_hypotheses(seed, size, below):
    logits = logits_of(seed, 6)
    logits[2] = torch.where(torch.isneginf(logits[2]), logits[2], 0.0)
    stale, hedge = Conditionals(logits), Hedge(size, below)
    probs = torch.softmax(logits, dim=-1).numpy()
    rows = torch.from_numpy(np.random.default_rng(seed).gumbel(size=(6, VOCAB))).float()
    noise = RoundNoise(rows, np.empty((3, 0)))
    for name, temperature in (("greedy", 0.0), ("greedy", 1.5), ("uncoupled", 1.5), ("coupled", 0.0)):
        tokens, found = make_verifier(name).hypotheses(stale, temperature, noise if temperature else None, hedge)
        assert tokens.shape == found.shape == (6, size) and tokens.dtype == np.int64
        assert np.array_equal(tokens[:, 0], logits.argmax(dim=-1).numpy())
        for s in range(6):
            hedged = probs[s].max() < below
            assert (tokens[s, 1:] >= 0).all() if hedged else (tokens[s, 1:] == -1).all()
            present = tokens[s][tokens[s] >= 0]
            assert len(set(present)) == len(present)
            assert np.allclose(found[s, : len(present)], np.sort(probs[s])[::-1][: len(present)], atol=1e-6)
            assert not found[s, len(present) :].any()
    tokens, found = make_verifier("coupled").hypotheses(stale, 1.5, noise, hedge)
    drawn = (torch.from_numpy(probs).log() / 1.5 + rows).argmax(dim=-1).numpy()
    assert np.array_equal(tokens[:, 0], drawn) and (tokens[:, 1:] == -1).all()
    assert np.allclose(found[:, 0], probs[np.arange(6), drawn], atol=1e-6)


def test_conditionals():
    logits = logits_of(1, 6)
    logits[0, 4] = 60.0
    stale = Conditionals(logits)
    probs = torch.softmax(logits.double(), dim=-1)
    torch.testing.assert_close(stale.confidence.double(), probs.amax(dim=-1), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(stale.top_probs.double(), probs.sort(dim=-1, descending=True)[0], atol=1e-6, rtol=1e-5)
    entropy = -(probs * probs.clamp_min(1e-300).log()).sum(dim=-1)
    torch.testing.assert_close(stale.entropy.double(), entropy, atol=1e-5, rtol=1e-5)
    # p1 rounds to 1 at position 0, yet its doubt is known.
    rest = torch.log1p(-probs.amax(dim=-1))
    rest[0] = torch.logsumexp(logits[0, torch.arange(VOCAB) != 4].double(), 0) - 60
    torch.testing.assert_close(stale.log_doubt.double(), rest, atol=1e-4, rtol=1e-4)


def test_unknown_names_are_user_errors():
    with pytest.raises(UserError, match="verifier: 'gready' is unknown; choose one of greedy, uncoupled, coupled"):
        make_verifier("gready")
