"""The order model and its features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.targets_for_tests import random_target
from workers.decoding.conditionals import Conditionals
from workers.drafters.features import TOP, Roots, path_features, preference, root_of, static_features, static_size
from workers.drafters.order_model import OrderModel, OrderModelConfig, load_order_model, save_order_model
from workers.errors import UserError
from workers.stages.collect import SCHEMA, record_batch
from workers.stages.examples import make_batch, read_shards
from workers.stages.trajectories import Prompt, decode_batch
from workers.tasks.sample import Sample

SMALL = OrderModelConfig(layers=2, width=16, heads=2)


def random_roots(seed: int, batch: int, masked: int, length: int = 12) -> Roots:
    rng = np.random.default_rng(seed)
    probs = np.sort(rng.dirichlet(np.full(TOP, 0.1), size=(batch, masked)))[..., ::-1].astype(np.float16)
    index = np.stack([rng.permutation(length)[:masked] for _ in range(batch)])
    doubt = np.sort(rng.uniform(-20, 0, size=(batch, masked))).astype(np.float16)
    last = (index.sum(1) + 1) % length
    return Roots(probs, doubt, index, last, doubt[:, 0], length)


def shaken(model: OrderModel, seed: int = 0) -> OrderModel:
    """A model whose output layer is not zero, as after training."""
    torch.nn.init.normal_(model.head.weight, generator=torch.Generator().manual_seed(seed))
    return model.eval().requires_grad_(False)


@settings(max_examples=25)
@given(seed=st.integers(0, 999), masked=st.integers(2, 12), root_layers=st.sampled_from([0, 1]))
def test_q_is_a_distribution_over_the_positions_not_taken(seed, masked, root_layers):
    model = shaken(OrderModel(OrderModelConfig(layers=2, width=16, heads=2, root_layers=root_layers)))
    taken = np.random.default_rng(seed).random((3, 4, masked)) < 0.5
    taken[..., seed % masked] = False
    log_q = model(random_roots(seed, 3, masked), taken)
    assert np.all(log_q[torch.from_numpy(taken)].numpy() == -np.inf)
    assert torch.allclose(log_q.exp().sum(-1), torch.ones(3, 4), atol=1e-5)


def test_an_untrained_model_ranks_positions_as_stale_confidence_does():
    taken = np.zeros((1, 1, 9), dtype=bool)
    taken[..., [0, 3]] = True
    log_q = OrderModel(SMALL)(random_roots(1, 1, 9), taken)[0, 0]
    assert log_q.argsort(descending=True)[:7].tolist() == [1, 2, 4, 5, 6, 7, 8]


def test_a_prefix_is_scored_alike_alone_and_among_others():
    model = shaken(OrderModel(SMALL))
    roots = random_roots(2, 1, 10)
    taken = np.random.default_rng(3).random((1, 6, 10)) < 0.4
    encoded = model.encode(roots)
    together = model.score(encoded, roots, taken)
    alone = torch.cat([model.score(encoded, roots, taken[:, k : k + 1]) for k in range(6)], dim=1)
    assert torch.allclose(together, alone, atol=1e-5)


def test_features_have_the_declared_size_and_are_finite_at_the_extremes():
    roots = random_roots(4, 2, 7)
    roots.probs[0, 0] = 0.0
    roots.probs[0, 0, 0] = 1.0
    roots.log_doubt[0, 0] = -np.inf
    for top in (1, 5, TOP):
        features = static_features(roots, top)
        assert features.shape == (2, 7, static_size(top)) and np.isfinite(features).all()
    assert np.isfinite(path_features(roots, np.zeros((2, 3, 7), dtype=bool))).all()


def test_path_features_see_the_neighbours_that_a_prefix_fills():
    flat = np.full((1, 3, TOP), 1 / TOP, dtype=np.float16)
    roots = Roots(flat, np.zeros((1, 3), dtype=np.float16), np.array([[4, 2, 3]]), np.array([0]), np.zeros(1, dtype=np.float16), 6)
    neighbours = slice(10, 14)  # left and right filled, left and right filled since the stale forward
    before = path_features(roots, np.array([[[False, False, False]]]))[0, 0, 2, neighbours]
    after = path_features(roots, np.array([[[True, False, False]]]))[0, 0, 2, neighbours]
    assert before.tolist() == [0, 0, 0, 0]
    assert after.tolist() == [0, 1, 0, 1]


def test_training_and_drafting_see_the_same_features(tmp_path):
    import pyarrow.parquet as pq

    target = random_target(block_length=8)
    prompt = Prompt(Sample("t/0", "", {}), "t", "pool", [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])
    table = record_batch(target, [prompt], generation_length=12)
    assert table.schema == SCHEMA
    pq.write_table(table, tmp_path / "shard.parquet")
    data = read_shards([tmp_path])
    for state, step in enumerate(decode_batch(target, [prompt.tokens], generation_length=12)):
        masks = int(step.masked.sum())
        assert masks == data.count[state]
        if masks < 3:
            continue
        masked = step.masked[0].copy()
        masked[step.position[0]] = False
        stale = Conditionals(step.logits[0])
        roots = root_of(stale, preference(stale, masked), int(step.position[0]))
        trained = make_batch(data, np.array([state]), np.array([[0, 1]])).roots
        assert np.array_equal(roots.index, trained.index) and np.array_equal(roots.last, trained.last)
        assert np.array_equal(static_features(roots), static_features(trained))


def test_examples_replay_the_true_commits(tmp_path):
    import pyarrow.parquet as pq

    target = random_target(block_length=8)
    prompt = Prompt(Sample("t/0", "", {}), "t", "pool", [3, 4, 5])
    table = record_batch(target, [prompt], generation_length=13)
    pq.write_table(table, tmp_path / "shard.parquet")
    data = read_shards([tmp_path])
    commits = table["commits"][0].as_py()
    for state in np.flatnonzero(data.count >= 4):
        batch = make_batch(data, np.array([state]), np.array([[0, 2]]))
        index = batch.roots.index[0]
        block = commits[state] // 8
        for row, depth in enumerate((0, 2)):
            done = {commit % 8 for commit in commits[state + 1 : state + 1 + depth]}
            assert set(index[batch.taken[0, row]]) == done
            assert commits[state + 1 + depth] == block * 8 + index[batch.label[0, row]]


def test_saving_and_loading_keeps_every_bit_and_damage_is_a_user_error(tmp_path):
    model = shaken(OrderModel(SMALL))
    save_order_model(model, tmp_path, {"figures": {}})
    loaded = load_order_model(tmp_path)
    roots, taken = random_roots(5, 2, 6), np.zeros((2, 1, 6), dtype=bool)
    assert torch.equal(model(roots, taken), loaded(roots, taken))
    (tmp_path / "order_model.json").write_text('{"config": {"layers": 1, "width": 16, "heads": 2}}')
    with pytest.raises(UserError, match="do not fit"):
        load_order_model(tmp_path)
    with pytest.raises(UserError, match="not an order model"):
        load_order_model(tmp_path / "absent")
