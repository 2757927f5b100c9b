"""Stages on tiny random-weight targets: collection, training, calibration and evaluation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from tests.targets_for_tests import random_target
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings
from workers.drafters import TargetInfo, make_drafter
from workers.drafters.features import TOP
from workers.drafters.order_model import OrderModel, OrderModelConfig
from workers.errors import UserError
from workers.stages import run_stage
from workers.stages.calibrate_floor import choose
from workers.stages.collect import SCHEMA, record_batch
from workers.stages.examples import draw_depths, read_shards, split_samples
from workers.stages.train import make_optimizers
from workers.stages.trajectories import Prompt, group
from workers.stages.versions import STAGE_VERSIONS
from workers.targets.tokenizer import train_tokenizer
from workers.tasks.sample import Sample
from workers.verifiers import make_verifier


class Session:
    """A worker that lends one target and notes the progress it is told."""

    device, dtype = "cpu", "float32"

    def __init__(self, target=None, journal: Path | None = None):
        self._target, self.journal = target, journal
        self.reports: list[tuple[int, int]] = []

    def target(self, reference, block_length):
        return self._target

    def progress(self, done, total, **figures):
        self.reports.append((done, total))


@pytest.fixture(scope="module")
def target():
    """A random-weight target with a byte-level tokenizer, so that it reads the real tasks."""
    tokenizer = train_tokenizer([], 300)
    vocab = tokenizer.get_vocab_size()
    made = random_target(3, vocab=vocab, max_positions=600)
    return replace(made, tokenizer=PreTrainedTokenizerFast(tokenizer_object=tokenizer))


POOLS = [{"task": task, "split": "calibration", "first": 0, "count": 2} for task in ("tiny-math", "tiny-code")]
DECODING = {"target": "random", "block_length": 8, "generation_length": 12, "pools": POOLS}


def prompts_of(lengths: list[int]) -> list[Prompt]:
    rng = np.random.default_rng(len(lengths))
    rows = [rng.integers(1, 40, size=length).tolist() for length in lengths]
    return [Prompt(Sample(f"t/{index}", "", {}), "t", "pool", row) for index, row in enumerate(rows)]


@settings(max_examples=12)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6), generation=st.integers(1, 20))
def test_batched_collection_commits_what_the_decode_loop_commits(lengths, generation):
    target = random_target(1)
    prompts = prompts_of(lengths)
    batches = group(lengths, generation, 8, batch=3)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    settings = DecodeSettings(generation_length=generation)
    none = make_drafter("none", {}, {}, TargetInfo(8, target.vocab_size, target.mask_id))
    for batch in batches:
        chosen = [prompts[index] for index in batch]
        for prompt, row in zip(chosen, record_batch(target, chosen, generation).to_pylist()):
            noise = GumbelNoise(0, prompt.sample.id, target.vocab_size)
            done = decode(target, prompt.tokens, settings, none, make_verifier("none"), noise)
            assert row["tokens"] == done.tokens
            assert row["commits"] == [position for entry in done.rounds for position in entry.positions]


def test_a_shard_says_what_was_known_at_every_state(tmp_path, target):
    summary = run_stage("collect", {**DECODING, "batch": 2, "seed": 0}, {}, tmp_path, Session(target))
    table = pq.read_table(tmp_path / "shard.parquet")
    assert table.schema == SCHEMA and table.num_rows == summary["samples"] == 4
    for row in table.to_pylist():
        assert row["pool"] in ("tiny-math", "tiny-code") and row["split"] == "calibration"
        assert len(row["positions"]) == len(row["log_doubt"]) == len(row["top_probs"]) == sum(row["counts"])
        probs = np.array(row["top_probs"], dtype=np.float32)
        assert np.all(np.diff(probs, axis=1) <= 0) and np.all(probs.sum(1) < 1.01)
        start = 0
        for commit, count in zip(row["commits"], row["counts"]):
            assert row["positions"][start] == commit % 8 and row["delays"][start] == 0
            assert sorted(row["delays"][start : start + count]) == list(range(count))
            assert np.all(np.diff(probs[start : start + count, 0]) <= 0)
            start += count


def synthetic_shard(directory: Path, samples: int, seed: int = 0, length: int = 8) -> Path:
    """A target that commits strictly from left to right while its confidences say nothing about the order."""
    rng = np.random.default_rng(seed)
    rows = []
    for sample in range(samples):
        counts, positions, delays, doubts, probs = [], [], [], [], []
        for step in range(length):
            # The commit itself is known to the stale forward only as its own most confident position.
            rest = rng.permutation(np.arange(step + 1, length))
            order = np.concatenate([[step], rest]).astype(int)
            top = np.sort(rng.uniform(0.3, 0.95, size=len(order)))[::-1]
            counts.append(len(order))
            positions.extend(order.tolist())
            delays.extend((order - step).tolist())
            doubts.extend(np.log1p(-top).tolist())
            probs.extend([[p, 1 - p, *[0.0] * (TOP - 2)] for p in top])
        rows.append(
            {
                "sample_id": f"s/{seed}/{sample:04d}",
                "pool": "synthetic",
                "split": "pool",
                "block_length": length,
                "prompt_tokens": [],
                "tokens": list(range(length)),
                "commits": list(range(length)),
                "counts": counts,
                "positions": positions,
                "delays": delays,
                "log_doubt": np.array(doubts, dtype=np.float16),
                "top_probs": [list(np.array(p, dtype=np.float16)) for p in probs],
            }
        )
    directory.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), directory / "shard.parquet")
    return directory


TRAINING = {"layers": 2, "width": 16, "heads": 2, "d_max": 5, "epochs": 8, "lr": 1e-2, "batch": 64, "held_out": 0.2, "seed": 0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("train")
    shards = [synthetic_shard(root / f"shard{seed}", 30, seed) for seed in (0, 1)]
    out = root / "model"
    out.mkdir()
    return shards, out, run_stage("train", TRAINING, {"shards": shards}, out, Session())


def test_training_learns_an_order_that_stale_confidence_does_not_know(trained):
    _, out, summary = trained
    curve = json.loads((out / "curve.json").read_text())
    assert [row["epoch"] for row in curve] == list(range(TRAINING["epochs"] + 1))
    assert curve[-1]["held_out_loss"] < 0.3 * curve[0]["held_out_loss"]
    assert summary["accuracy"] > 0.95 and summary["baseline"] < 0.5
    assert len(curve[-1]["accuracy_by_depth"]) == len(curve[-1]["baseline_by_depth"]) == TRAINING["d_max"] + 1


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_every_parameter_belongs_to_exactly_one_optimizer(optimizer):
    model = OrderModel(OrderModelConfig(layers=2, width=16, heads=2))
    optimizers = make_optimizers(model, {"optimizer": optimizer, "lr": 1e-3})
    assert len(optimizers) == (2 if optimizer == "muon" else 1)
    owned = [id(p) for each in optimizers for group in each.param_groups for p in group["params"]]
    assert sorted(owned) == sorted(map(id, model.parameters()))


def test_training_depends_on_seed_and_data_alone_not_on_the_order_of_shards(trained, tmp_path):
    shards, out, _ = trained
    run_stage("train", TRAINING, {"shards": shards[::-1]}, tmp_path, Session())
    for name in ("order_model.safetensors", "order_model.json", "curve.json"):
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes()


def test_held_out_samples_do_not_depend_on_what_else_was_collected_in_which_order():
    ids = [f"s/{index}" for index in range(50)]
    held = {sample for sample, out in zip(ids, split_samples(ids, 0.2, 0)) if out}
    again = {sample for sample, out in zip(ids[::-1], split_samples(ids[::-1], 0.2, 0)) if out}
    assert held == again and len(held) == 10


@given(masked=st.integers(2, 31), d_max=st.integers(0, 30), prefixes=st.integers(1, 6), seed=st.integers(0, 99))
def test_drawn_depths_leave_a_choice_and_respect_the_limit(masked, d_max, prefixes, seed):
    depths = draw_depths(masked, d_max, 40, prefixes, np.random.default_rng(seed))
    assert depths.min() >= 0 and depths.max() <= min(d_max, masked - 2)


def test_shards_that_cannot_be_trained_on_are_user_errors(tmp_path):
    narrow = synthetic_shard(tmp_path / "narrow", 2, length=4)
    wide = synthetic_shard(tmp_path / "wide", 2, length=8)
    with pytest.raises(UserError, match="block lengths"):
        read_shards([narrow, wide])


def test_spiffy_is_calibrated_into_a_graph_that_drafts(tmp_path, target):
    summary = run_stage("calibrate-spiffy", {**DECODING, "nodes": 6, "lookahead": 3}, {}, tmp_path, Session(target))
    document = json.loads((tmp_path / "graph.json").read_text())
    assert summary["nodes"] == len(document["nodes"]) == 6
    assert document["opportunities"] > 0 and document["depth"] <= 3
    assert all(parent < number for number, node in enumerate(document["nodes"]) for parent in node["parents"])
    made = make_drafter("spiffy", {}, {"spiffy": tmp_path}, TargetInfo(8, target.vocab_size, target.mask_id))
    assert len(made.graph) == 6


def test_the_smaller_floor_wins_inside_the_tie_band():
    means = {0.0: 1.0, 0.02: 1.20, 0.05: 1.23, 0.1: 1.1}
    assert choose(means, 0.03) == 0.02
    assert choose(means, 0.02) == 0.05
    assert choose({0.0: 1.0, 0.1: 0.9}, 0.03) == 0.0


def test_a_declared_cost_makes_the_floor_reproducible(tmp_path, target, trained):
    params = {**DECODING, "grid": [0.0, 0.2], "budgets": [4, 8], "cost": {"replica": 0.1, "level": 0.05}}
    documents = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run_stage("calibrate-floor", params, {"order_model": trained[1]}, tmp_path / name, Session(target))
        documents.append((tmp_path / name / "floor.json").read_text())
    document = json.loads(documents[0])
    assert documents[0] == documents[1]
    assert [(row["floor"], row["budget"]) for row in document["grid"]] == [(0.0, 4), (0.0, 8), (0.2, 4), (0.2, 8)]
    assert document["floor"] in params["grid"]
    with pytest.raises(UserError, match="calibration split"):
        test_pools = [{**POOLS[0], "split": "test"}]
        run_stage("calibrate-floor", {**params, "pools": test_pools}, {"order_model": trained[1]}, tmp_path, Session(target))


EVALUATION = {
    "target": "random",
    "task": "tiny-math",
    "split": "test",
    "first": 0,
    "samples": 3,
    "drafter": "spot",
    "drafter_options": {"hedge": 2},
    "verifier": "coupled",
    "budget": 8,
    "floor": 0.0,
    "padded": False,
    "temperature": 1.0,
    "commit_rule": "single",
    "cache": "prefix",
    "layout": "batch",
    "stop": "fill",
    "generation_length": 12,
    "block_length": 8,
    "seed": 0,
    "allow_code_execution": False,
}
CONTROL = {**EVALUATION, "drafter": "none", "drafter_options": {}, "verifier": "none", "budget": 0}
TIMES = ["wall_s", "draft_s", "forward_s", "journal_s"]


def evaluate(params, session, inputs=None):
    return run_stage("evaluate", params, inputs or {}, None, session)


def test_an_interrupted_run_goes_on_per_sample_and_ends_alike(tmp_path, target, trained):
    inputs = {"order_model": trained[1]}
    whole = evaluate(EVALUATION, Session(target, tmp_path / "whole.jsonl"), inputs)
    assert whole.summary["segments"] == 1
    lines = (tmp_path / "whole.jsonl").read_text().splitlines(keepends=True)
    broken = tmp_path / "broken.jsonl"
    broken.write_text(lines[0] + lines[1][: len(lines[1]) // 2])

    session = Session(target, broken)
    resumed = evaluate(EVALUATION, session, inputs)
    assert [report[0] for report in session.reports] == [2, 3]
    assert resumed.summary["segments"] == 2
    for name in ("samples", "rounds"):
        assert getattr(resumed, name).drop_columns([c for c in TIMES if c in getattr(resumed, name).column_names]) == getattr(
            whole, name
        ).drop_columns([c for c in TIMES if c in getattr(whole, name).column_names])
    first = json.loads(lines[0])["sample"]
    assert resumed.samples["wall_s"][0].as_py() == first["wall_s"]
    assert resumed.summary["wall_s"] == pytest.approx(sum(resumed.samples["wall_s"].to_pylist()))
    assert evaluate(EVALUATION, Session(target, broken), inputs).summary == {**resumed.summary, "warmup_s": 0.0}


def test_a_run_reports_its_figures_and_an_exact_method_matches_its_control(target, trained):
    control = evaluate(CONTROL, Session(target))
    method = evaluate(EVALUATION, Session(target), {"order_model": trained[1]})
    assert method.samples["tokens"] == control.samples["tokens"]
    assert method.summary["nfe"] <= control.summary["nfe"] == np.mean(control.samples["generated_tokens"])
    assert method.summary["distribution_preserving"] and control.summary["distribution_preserving"]
    rounds = method.rounds.to_pylist()
    assert len(rounds) == sum(method.samples["nfe"].to_pylist())
    drafted = [row["accepted"] for row in rounds if row["drafted"] > 0]
    assert method.summary["accepted_per_round_pooled"] == pytest.approx(np.mean(drafted))
    row = method.samples.to_pylist()[0]
    assert row["answer_tokens"] <= row["generated_tokens"] == len(row["tokens"])
    assert method.summary["tok_s"] == pytest.approx(
        sum(method.samples["generated_tokens"].to_pylist()) / sum(method.samples["wall_s"].to_pylist())
    )


def test_greedy_match_at_a_temperature_is_not_distribution_preserving(target, trained):
    greedy = evaluate({**EVALUATION, "verifier": "greedy"}, Session(target), {"order_model": trained[1]})
    assert not greedy.summary["distribution_preserving"]
    cold = {**EVALUATION, "verifier": "greedy", "temperature": 0.0}
    assert evaluate(cold, Session(target), {"order_model": trained[1]}).summary["distribution_preserving"]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"task": "tiny-code"}, "allow_code_execution"),
        ({"samples": 0}, "at least 1"),
        ({"generation_length": 600}, "sample tiny-math/test/0: .*generation_length"),
        ({"floor": "calibrated"}, "no calibrate-floor stage"),
        ({"drafter": "spiffy", "drafter_options": {}}, "draft graph"),
        ({"drafter": "magic"}, "magic"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_in_one_line(target, change, message):
    with pytest.raises(UserError, match=message) as error:
        evaluate({**EVALUATION, **change}, Session(target))
    assert "\n" not in str(error.value)


def test_every_stage_has_a_version_and_an_unknown_one_is_refused(tmp_path):
    from workers.stages import KINDS

    assert set(STAGE_VERSIONS) == set(KINDS)
    with pytest.raises(UserError, match="unknown"):
        run_stage("polish", {}, {}, tmp_path, Session())
