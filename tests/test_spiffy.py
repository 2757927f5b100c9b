"""Spiffy's draft graph: selection, truncation, instantiation; and that graph and tree drafts never change the output."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.targets_for_tests import random_target
from workers.decoding.conditionals import Conditionals
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings
from workers.decoding.tree import ROOT
from workers.drafters import DraftRequest, Hedge, TargetInfo, make_drafter
from workers.drafters.order_model import OrderModel, OrderModelConfig
from workers.drafters.spiffy import ACCUMULATIONS, ROOT_PAIRS, SpiffyDrafter, degree_one, load_graph, parents_of, save_graph, select
from workers.drafters.spot import SpotDrafter
from workers.errors import UserError
from workers.stages.calibrate_spiffy import block_pairs
from workers.stages.trajectories import decode_batch
from workers.verifiers import make_verifier

GRAPH = [
    frozenset(pairs)
    for pairs in (
        [(0, 0)],
        [(1, 0)],
        [(0, 0), (1, 0)],
        [(0, 0), (1, 0), (2, 0)],
        [(0, 1)],
        [(2, 0)],
        [(0, 0), (2, 0)],
        [(0, 0), (1, 0), (2, 0), (3, 0)],
    )
]

node_sets = st.dictionaries(
    st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=1, max_size=4), st.integers(1, 50), max_size=30
)


@given(counts=node_sets, nodes=st.integers(1, 24))
def test_every_prefix_of_the_selection_is_connected_to_the_root(counts, nodes):
    chosen = select(degree_one(Counter(counts)), nodes)
    assert len(set(chosen)) == len(chosen) <= nodes
    inside = {ROOT_PAIRS}
    for node in chosen:
        assert any(parent in inside for parent in parents_of(node))
        inside.add(node)


def test_degree_one_accumulation_adds_the_counts_of_all_parents():
    a, b = frozenset({(0, 0)}), frozenset({(1, 0)})
    assert degree_one({a: 5, b: 3, a | b: 2}) == {a: 5, b: 3, a | b: 10}


def test_plain_counts_keep_the_states_most_often_passed_through():
    chain = [frozenset((rank, 0) for rank in range(size)) for size in (1, 2, 3)]
    rare = [frozenset({(0, 0), (rank, 0)}) for rank in (5, 6)]
    counts = {**dict(zip(chain, (70, 50, 40))), **dict.fromkeys(rare, 1)}
    assert select(ACCUMULATIONS["none"](counts), 3) == chain


def request(masked_count: int, budget: int, tokens: np.ndarray | None = None) -> DraftRequest:
    length, vocab = 8, 20
    logits = torch.randn(length, vocab, generator=torch.Generator().manual_seed(1)) * 3
    stale = Conditionals(logits)
    masked = np.arange(length) < masked_count
    state = np.where(masked, vocab - 1, 3)
    top = stale.top_tokens[:, :2].numpy() if tokens is None else tokens
    return DraftRequest(state, masked, stale, top, stale.top_probs[:, :2].numpy(), budget, 6)


def test_a_node_adds_the_ranked_tokens_and_may_have_several_parents():
    asked = request(masked_count=6, budget=8)
    tree = SpiffyDrafter(GRAPH).draft(asked)
    confidence = np.where(asked.masked, asked.stale.confidence.numpy(), -1)
    first, second = np.argsort(-confidence, kind="stable")[:2]
    assert tree.parents[0] == (ROOT,) and tree.parents[2] == (0, 1)
    changed = np.flatnonzero(tree.states[2] != asked.state)
    assert sorted(changed) == sorted([first, second])
    assert tree.states[4][first] == asked.stale.top_tokens[first, 1]


@given(masked=st.integers(1, 8), budget=st.integers(1, 8))
def test_truncation_is_a_prefix_that_never_fills_the_block(masked, budget):
    whole = SpiffyDrafter(GRAPH).draft(request(masked, len(GRAPH)))
    cut = SpiffyDrafter(GRAPH).draft(request(masked, budget))
    assert len(cut) == min(budget, len(whole))
    assert np.array_equal(cut.states, whole.states[: len(cut)])
    assert all(parent < node for node, parents in enumerate(cut.parents) for parent in parents)
    assert all((state == 19).any() for state in whole.states)


def test_nodes_without_a_token_hypothesis_are_left_out_with_all_that_hangs_on_them():
    asked = request(6, 8)
    coupled = asked.tokens.copy()
    coupled[:, 1] = -1
    tree = SpiffyDrafter(GRAPH).draft(request(6, 8, coupled))
    assert len(tree) == len(GRAPH) - 1


def test_ranking_by_the_draw_puts_the_likeliest_draw_first():
    asked = request(6, 1)
    probs = asked.token_probs.copy()
    probs[:, 0] = [0.1, 0.3, 0.2, 0.9, 0.4, 0.8, 1.0, 1.0]  # the last two are filled
    tree = SpiffyDrafter(GRAPH, "draw").draft(replace(asked, token_probs=probs))
    assert np.flatnonzero(tree.states[0] != asked.state).tolist() == [3]


@settings(max_examples=5)
@given(seed=st.integers(0, 50))
def test_a_sampled_batch_decodes_what_the_loop_decodes_under_the_same_noise(seed):
    target = random_target(seed % 3)
    prompts = [np.random.default_rng([seed, row]).integers(1, 40, size=9 + row).tolist() for row in range(3)]
    noise = [GumbelNoise(seed, f"sample {row}", target.vocab_size) for row in range(3)]
    written = [dict[tuple[int, int], int]() for _ in prompts]
    for step in decode_batch(target, prompts, 12, 1.0, noise):
        for row in np.flatnonzero(step.active):
            written[row][step.block, int(step.position[row])] = int(step.token[row])
    settings_ = DecodeSettings(generation_length=12, budget=0, temperature=1.0)
    for row, prompt in enumerate(prompts):
        none = make_drafter("none", {}, {}, TargetInfo(8, 48, 47))
        done = decode(target, prompt, settings_, none, make_verifier("none"), noise[row])
        assert [token for _, token in sorted(written[row].items())] == done.tokens


def test_opportunities_count_ranks_before_the_last_commit_and_stop_at_the_last_mask():
    orders = [[2, 0, 1, 3], [0, 3, 1], [3, 1], [1]]
    top = np.array([[7, 8], [7, 8], [7, 8], [7, 8]])
    history = [(np.array(order), top, order[0], 7) for order in orders]
    history[1] = (*history[1][:3], 8)
    # From the first forward: 2 is committed, 0 ranks first with its second token, 3 last of (0, 1, 3).
    assert block_pairs(history) == [[(0, 1), (2, 0)], [(0, 0)], []]


def test_a_graph_file_reads_back_in_selection_order(tmp_path):
    save_graph(tmp_path / "graph.json", GRAPH, Counter({GRAPH[0]: 9}), {"prompts": 3})
    assert load_graph(tmp_path) == GRAPH
    document = json.loads((tmp_path / "graph.json").read_text())
    assert document["prompts"] == 3 and document["nodes"][2]["parents"] == [0, 1]
    (tmp_path / "graph.json").write_text("[]")
    with pytest.raises(UserError, match="run the calibrate stage again"):
        make_drafter("spiffy", {}, {"spiffy": tmp_path}, TargetInfo(8, 20, 19))


def spot(floor: float = 0.0) -> SpotDrafter:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = OrderModel(OrderModelConfig(layers=1, width=16, heads=2))
        torch.nn.init.normal_(model.head.weight, std=0.3)
    return SpotDrafter(model.eval().requires_grad_(False), Hedge(2, 0.6), floor=floor)


def test_what_spot_ranks_a_position_by_is_what_its_drafts_were_weighed_with():
    """The mass of a draft is that of its parent times q of its position times the probability of its token."""
    asked = request(6, 20)
    with torch.inference_mode():
        tree = spot().draft(asked)
        for node, (parent,) in enumerate(tree.parents):
            before, mass = (asked.state, 1.0) if parent == ROOT else (tree.states[parent], tree.mass[parent])
            (position,) = np.flatnonzero(tree.states[node] != before)
            chosen = asked.tokens[position] == tree.states[node][position]
            log_q = tree.ranking(before)
            assert np.exp(log_q[np.flatnonzero(before == 19)]).sum() == pytest.approx(1)
            assert tree.mass[node] == pytest.approx(mass * np.exp(log_q[position]) * asked.token_probs[position, chosen].sum(), rel=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["spiffy", "spiffy-draw", "spot", "spot-floor"])
@settings(max_examples=6)
@given(seed=st.integers(0, 50), prompt=st.integers(1, 19), budget=st.sampled_from([1, 8, 20]))
def test_decoding_equals_the_control_token_for_token(kind, temperature, seed, prompt, budget):
    target = random_target(seed % 3)
    makers = {
        "spiffy": lambda: SpiffyDrafter(GRAPH),
        "spiffy-draw": lambda: SpiffyDrafter(GRAPH, "draw"),
        "spot": spot,
        "spot-floor": lambda: spot(0.2),
    }
    drafter = makers[kind]()
    noise = GumbelNoise(seed, "sample", target.vocab_size)
    tokens = np.random.default_rng(seed).integers(1, 40, size=prompt).tolist()

    def run(drafter, verifier: str, budget: int):
        settings = DecodeSettings(generation_length=20, budget=budget, temperature=temperature)
        return decode(target, tokens, settings, drafter, make_verifier(verifier), noise)

    control = run(make_drafter("none", {}, {}, TargetInfo(8, 48, 47)), "none", 0)
    drafted = run(drafter, "coupled", budget)
    assert drafted.tokens == control.tokens
    assert drafted.nfe <= control.nfe
    assert max(r.drafted for r in drafted.rounds) <= budget
