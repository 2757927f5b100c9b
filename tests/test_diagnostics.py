"""What the journal of a block counts, against counts made by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from targets_for_tests import random_target

from workers.decoding.commit import single
from workers.decoding.conditionals import Conditionals
from workers.decoding.journal import BlockJournal
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import BlockStats, DecodeSettings
from workers.decoding.transition import Step
from workers.decoding.tree import DraftTree
from workers.drafters import TargetInfo, make_drafter
from workers.verifiers import Walk, make_verifier

MASK = 9
LAWS = [  # position -> token -> weight; every token that is not named weighs 1, so that sums are easy
    {2: {3: 92}, 3: {4: 32}, 1: {1: 12}, 0: {1: 4, 2: 2}},
    {2: {0: 1}, 3: {4: 32}, 0: {1: 8, 7: 4, 5: 3, 2: 2}, 1: {6: 4, 1: 2}},
    {2: {0: 1}, 3: {0: 1}, 1: {1: 12}, 0: {1: 4, 2: 2}},
    {2: {0: 1}, 3: {0: 1}, 1: {0: 1}, 0: {1: 4, 2: 2}},
]
COMMITS = [(2, 3), (3, 4), (1, 1), (0, 2)]


def logits_of(law: dict[int, dict[int, int]]) -> torch.Tensor:
    logits = torch.zeros(4, MASK + 1)
    logits[:, MASK] = -torch.inf
    for position, weights in law.items():
        for token, weight in weights.items():
            logits[position, token] = np.log(weight)
    return logits


def one_by_one(tau: float = 0.9) -> BlockStats:
    """A block without drafts, each forward with a law of its own; the last commit is not the argmax."""
    journal, state, none = BlockJournal(0, 0, tau), np.full(4, MASK), DraftTree.empty(4)
    stale = None
    for law, (position, token) in zip(LAWS, COMMITS):
        logits = logits_of(law)
        step = Step(state[None], logits[None], MASK, single, 1.0, None, stale)
        state = state.copy()
        state[position] = token
        journal.add(none, step, Walk([], [np.array([position])], state), stale, 1, 0.0, 0.0)
        stale = Conditionals(logits)
    return journal.stats()


def test_the_stale_position_and_token_of_each_commit():
    """Order of the stale confidences: 3 1 0, then 0 1, then 0; stale tokens at the commits: 4 right, 6 for 1, 1 for 2."""
    stats = one_by_one()
    assert (stats.commits, stats.compared, stats.steps_compared, stats.roots_compared) == (4, 3, 3, 3)
    assert (stats.stale_token, stats.root_token) == (1, 1)
    assert (stats.stale_position, stats.root_position) == (2, 2)


def test_the_argmax_and_the_probability_of_each_commit():
    """Chances 92/100, 32/40, 12/20 and 2/13; the last is the second choice."""
    stats = one_by_one()
    assert stats.argmax == 3
    assert stats.probability == pytest.approx(0.92 + 0.8 + 0.6 + 2 / 13)


def test_coverage_of_the_next_commits():
    """Ranks of the coming tokens: 0 0 1 from the first stale law, 1 3 from the second, 1 from the third."""
    stats = one_by_one()
    rest = [0] * 5
    assert stats.coverage_roots == [3, 2, 1, *rest]
    assert stats.covered_1 == [1, 1, 0, *rest]
    assert stats.covered_2 == [3, 1, 1, *rest]
    assert stats.covered_4 == stats.covered_8 == [3, 2, 1, *rest]
    assert stats.covered_positions == [2, 2, 1, *rest]


def test_positions_in_doubt_and_the_rank_of_their_final_token():
    """Masked stale confidences: 32/40 at 3, 12/20 at 1, 4/13 at 0; then 8/22 at 0 and 4/13 at 1; then 4/13 at 0. Final
    tokens 4 1 2 at 3 1 0 rank 0 0 1 at first, 1 and 3 then, and 1 in the end."""
    stats = one_by_one()
    assert stats.doubtful == 6
    assert stats.doubtful_covered == [2, 5, 5, 6, 6, 6, 6, 6]
    assert one_by_one(tau=0.59).doubtful == 4


def test_a_round_says_how_many_positions_are_certain_where_it_stopped():
    """0.92, 0.8, 0.6 and 4/13: masked at the root, then at the draft that fills 2."""
    full, tree = np.full(4, MASK), DraftTree(np.array([[MASK, MASK, 3, MASK]]), [(-1,)], [0.9])
    states = np.stack([full, tree.states[0]])
    step = Step(states, logits_of(LAWS[0]).expand(2, 4, -1), MASK, single, 0.0, None)
    journal = BlockJournal(0, 0, tau=0.8)
    stopped = Walk([], [np.array([2])], tree.states[0])
    taken = Walk([0], [np.array([2]), np.array([3])], np.array([MASK, MASK, 3, 4]))
    rounds = [journal.add(tree, step, walk, Conditionals(logits_of(LAWS[0])), 2, 0.0, 0.0) for walk in (stopped, taken)]
    assert [(r.masked, r.certain, r.levels, r.level) for r in rounds] == [(4, 2, 1, 0), (3, 1, 1, 1)]


def test_drafts_are_compared_along_the_path_and_binned_by_mass():
    """Path 0 then 2 then the bonus at 3; the stale order 2 3 1 0 has the second and the third step first at their time."""
    full = np.full(4, MASK)
    drafts = np.array([[1, MASK, MASK, MASK], [MASK, MASK, 3, MASK], [1, MASK, 3, MASK], [MASK, 5, MASK, MASK]])
    tree = DraftTree(drafts, [(-1,), (-1,), (0, 1), (-1,)], [0.5, 0.55, 0.31, 1.0])
    state = np.array([1, MASK, 3, 4])
    step = Step(np.concatenate([full[None], drafts]), logits_of(LAWS[0]).expand(5, 4, -1), MASK, single, 0.0, None)
    walk = Walk([0, 2], [np.array([0]), np.array([2]), np.array([3])], state)
    journal = BlockJournal(0, 0)
    journal.add(tree, step, walk, Conditionals(logits_of(LAWS[0])), 5, 0.0, 0.0)
    stats = journal.stats()
    assert (stats.steps_compared, stats.stale_position, stats.stale_token) == (3, 2, 3)
    assert (stats.roots_compared, stats.root_position, stats.root_token) == (1, 0, 1)
    assert stats.mass_drafted == [0, 0, 0, 1, 0, 2, 0, 0, 0, 1]
    assert stats.mass_accepted == [0, 0, 0, 1, 0, 1, 0, 0, 0, 0]
    assert stats.mass_sum == pytest.approx([0, 0, 0, 0.31, 0, 1.05, 0, 0, 0, 1.0])


def test_a_step_of_several_commits_has_one_top_position():
    state = np.array([MASK, 1, 3, 7])
    step = Step(np.full((1, 4), MASK), logits_of(LAWS[0])[None], MASK, single, 0.0, None)
    journal = BlockJournal(0, 0)
    walk = Walk([], [np.array([1, 2, 3])], state)
    journal.add(DraftTree.empty(4), step, walk, Conditionals(logits_of(LAWS[0])), 1, 0.0, 0.0)
    stats = journal.stats()
    assert (stats.commits, stats.compared, stats.stale_token, stats.argmax) == (3, 3, 2, 2)
    assert (stats.steps_compared, stats.stale_position) == (1, 1)


TARGETS = [random_target(seed) for seed in range(2)]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(target=st.sampled_from(TARGETS), temperature=st.sampled_from([0.0, 1.5]), budget=st.integers(1, 9))
def test_drafting_changes_what_is_compared_but_not_what_is_committed(target, temperature, budget):
    """Exact drafts commit the same tokens from the same laws; each round but a block's first has one root."""
    info = TargetInfo(target.block_length, target.vocab_size, target.mask_id)
    found = {}
    for name in ("none", "tree"):
        options = DecodeSettings(20, budget=budget if name == "tree" else 0, temperature=temperature)
        drafter, verifier = make_drafter(name, {}, {}, info), make_verifier("coupled")
        found[name] = decode(target, [5, 9, 2], options, drafter, verifier, GumbelNoise(0, "s", target.vocab_size))
    for control, drafted in zip(found["none"].blocks, found["tree"].blocks, strict=True):
        assert (control.commits, control.argmax) == (drafted.commits, drafted.argmax)
        assert control.probability == pytest.approx(drafted.probability, rel=1e-4)
        assert temperature > 0 or control.argmax == control.commits
    for decoded in found.values():
        assert sum(block.roots_compared for block in decoded.blocks) == decoded.nfe - len(decoded.blocks)
        assert sum(sum(block.mass_drafted) for block in decoded.blocks) == sum(r.drafted for r in decoded.rounds)
        assert sum(sum(block.mass_accepted) for block in decoded.blocks) == sum(r.accepted for r in decoded.rounds)
        for block in decoded.blocks:
            assert block.coverage_roots[0] == block.roots_compared and block.covered_1[0] == block.root_token
            assert block.covered_positions[0] == block.root_position
            curves = [block.covered_1, block.covered_2, block.covered_4, block.covered_8, block.coverage_roots]
            assert all(lower <= upper for small, large in zip(curves, curves[1:]) for lower, upper in zip(small, large))
