"""Level-batched drafting finds exactly what sequential best-first search finds."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.drafters.spot import best_first, greedy_path


def random_order(seed: int, masked: int, sharpness: float):
    """A prefix-conditional order that depends on the set taken only, as the order model's does."""

    def order(taken: np.ndarray) -> np.ndarray:
        rows = []
        for row in taken:
            rng = np.random.default_rng([seed, int("".join("1" if t else "0" for t in row), 2)])
            logits = np.where(row, -np.inf, sharpness * rng.normal(size=masked))
            rows.append(logits - np.logaddexp.reduce(logits))
        return np.array(rows)

    return order


def sequential(order, token_log: np.ndarray, budget: int, floor: float) -> list[tuple]:
    """Plain best-first search, one node at a time: paths of (slot, choice) by falling mass."""
    masked, choices = token_log.shape
    heap, found = [], []

    def expand(path: tuple, log_mass: float) -> None:
        if len(path) >= masked - 1:
            return
        taken = np.zeros(masked, dtype=bool)
        taken[[slot for slot, _ in path]] = True
        log_q = order(taken[None])[0]
        for slot in np.flatnonzero(~taken):
            for choice in range(choices):
                heapq.heappush(heap, (-(log_mass + log_q[slot] + token_log[slot, choice]), (*path, (slot, choice))))

    expand((), 0.0)
    while heap and len(found) < budget:
        cost, path = heapq.heappop(heap)
        if np.isinf(cost) or np.exp(-cost) < floor:
            break
        found.append(path)
        expand(path, -cost)
    return found


def paths(search) -> list[tuple]:
    found: list[tuple] = []
    for parent, slot, choice in zip(search.parent, search.slot, search.choice):
        found.append((*(found[parent] if parent >= 0 else ()), (slot, choice)))
    return found


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    masked=st.integers(1, 7),
    choices=st.sampled_from([1, 2, 4]),
    budget=st.sampled_from([1, 3, 8, 20]),
    floor=st.sampled_from([0.0, 0.02, 0.2]),
    sharpness=st.sampled_from([0.3, 2.0, 8.0]),
)
def test_level_batching_reaches_the_best_first_fixpoint(seed, masked, choices, budget, floor, sharpness):
    rng = np.random.default_rng(seed)
    token_log = np.sort(np.log(rng.dirichlet(np.ones(choices + 1), size=masked)[:, :choices]))[:, ::-1].copy()
    token_log[rng.random((masked, choices)) < 0.3] = -np.inf
    order = random_order(seed, masked, sharpness)
    search = best_first(order, token_log, budget, floor)

    assert paths(search) == sequential(order, token_log, budget, floor)
    assert len(search.parent) <= budget
    assert all(parent < node for node, parent in enumerate(search.parent))
    assert np.all(np.diff(search.log_mass) <= 0)
    above = np.where(search.parent >= 0, search.log_mass[search.parent], 0.0)
    assert np.all(search.log_mass <= above)
    assert np.all(np.exp(search.log_mass) >= floor)
    assert max((len(path) for path in paths(search)), default=0) <= masked - 1


def test_a_near_certain_chain_is_drafted_to_the_last_position_but_one():
    masked = 6
    order = random_order(0, masked, 60.0)
    search = best_first(order, np.zeros((masked, 1)), budget=5)
    assert len(paths(search)[-1]) == pytest.approx(masked - 1)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    masked=st.integers(1, 7),
    budget=st.sampled_from([1, 3, 8]),
    floor=st.sampled_from([0.0, 0.1]),
)
def test_the_chain_takes_the_heaviest_child_each_time(seed, masked, budget, floor):
    token_log = np.log(np.random.default_rng(seed).uniform(0.2, 1.0, size=(masked, 1)))
    order = random_order(seed, masked, 2.0)
    search = greedy_path(order, token_log, budget, floor)
    taken, mass, expected = np.zeros((1, masked), dtype=bool), 0.0, []
    for _ in range(min(budget, masked - 1)):
        children = np.where(taken[0], -np.inf, mass + order(taken)[0] + token_log[:, 0])
        mass = children.max()
        if np.exp(mass) < floor:
            break
        expected.append(int(children.argmax()))
        taken[0, expected[-1]] = True
    assert search.slot.tolist() == expected
    assert search.parent.tolist() == list(range(-1, len(expected) - 1)) and not search.choice.any()
    assert len(expected) < 1 or search.log_mass[0] == best_first(order, token_log, 1).log_mass[0]
