"""Stages on data files: what a run records of a benchmark, data that changed, prompts that do not fit."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import rows_for_tests as rows
from targets_for_tests import random_target
from transformers import PreTrainedTokenizerFast

from workers.errors import UserError
from workers.stages import run_stage
from workers.targets.tokenizer import train_tokenizer
from workers.tasks import get_task, samples_digest

EVALUATION = {
    "target": "random", "block_length": 8, "generation_length": 12, "split": "test", "first": 0, "samples": 2,
    "drafter": "none", "drafter_options": {}, "verifier": "none", "budget": 0, "floor": 0.0, "padded": False,
    "temperature": 0.0, "commit_rule": "single", "cache": "prefix", "layout": "batch", "stop": "fill", "seed": 0,
    "allow_code_execution": True,
}  # fmt: skip


class Session:
    device, dtype, journal = "cpu", "float32", None

    def __init__(self, target):
        self._target = target

    def target(self, reference, block_length):
        return self._target

    def progress(self, done, total, **figures):
        pass


@pytest.fixture(scope="module")
def session():
    """A random-weight target with a byte-level tokenizer."""
    tokenizer = train_tokenizer([], 300)
    made = random_target(3, vocab=tokenizer.get_vocab_size(), max_positions=2000)
    return Session(replace(made, tokenizer=PreTrainedTokenizerFast(tokenizer_object=tokenizer)))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return rows.write_all(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize(
    "task, metrics",
    [
        ("gsm8k", {"strict", "flexible"}),
        ("mbpp", {"timed_out"}),
        ("humaneval", {"timed_out"}),
        ("math500", {"exact_match", "boxed"}),
        ("ifeval", {"prompt_strict", "prompt_loose", "instructions", "instructions_strict", "instructions_loose"}),
    ],
)
def test_a_run_records_prompts_and_every_score(session, data, task, metrics):
    params = {**EVALUATION, "task": task, "data": {task: data[task]}}
    result = run_stage("evaluate", params, {}, None, session)
    found = result.samples.to_pylist()
    samples = get_task(task, data).samples("test", 0, 2)
    assert [(row["sample_id"], row["prompt"]) for row in found] == [(sample.id, sample.prompt) for sample in samples]
    assert [json.loads(row["metrics"]).keys() for row in found] == [metrics, metrics]
    assert result.summary["metrics"].keys() == metrics
    assert result.summary["accuracy"] == sum(row["correct"] for row in found) / 2


def test_code_runs_only_with_leave(session, data):
    params = {**EVALUATION, "task": "mbpp", "data": data, "allow_code_execution": False}
    with pytest.raises(UserError, match="allow_code_execution"):
        run_stage("evaluate", params, {}, None, session)


def test_data_that_is_not_that_of_the_plan_is_refused(session, data, tmp_path):
    planned = samples_digest(get_task("gsm8k", data), "test", 0, 2)
    params = {**EVALUATION, "task": "gsm8k", "data": data, "sample_digests": [planned]}
    run_stage("evaluate", params, {}, None, session)
    changed = rows.write_jsonl(tmp_path / "gsm8k.jsonl", rows.gsm8k(5)[2:])
    with pytest.raises(UserError, match="the data of 'gsm8k' has changed since the plan was made"):
        run_stage("evaluate", {**params, "data": {"gsm8k": str(changed)}}, {}, None, session)
    pools = [{"task": "notes", "split": "pool", "first": 0, "count": 2}]
    params = {"target": "random", "block_length": 8, "generation_length": 8, "pools": pools, "batch": 4, "data": data}
    with pytest.raises(UserError, match="the data of 'notes' has changed"):
        run_stage("collect", {**params, "sample_digests": ["0" * 64]}, {}, tmp_path, session)


def test_a_shard_names_its_pools_their_overlap_and_what_did_not_fit(session, data, tmp_path):
    prompts = ["Rewrite: A baker makes 2 trays of 600 rolls each. How many rolls?", "word " * 900, "Say hello."]
    path = rows.write_jsonl(tmp_path / "mine.jsonl", [{"prompt": prompt} for prompt in prompts])
    params = {
        "target": "random",
        "block_length": 8,
        "generation_length": 8,
        "batch": 4,
        "data": {"mine": str(path), "gsm8k": data["gsm8k"]},
        "pools": [{"task": "mine", "split": "pool", "first": 0, "count": 3}],
        "compared": [{"task": "gsm8k", "split": "test", "first": 0, "count": 3}],
    }
    summary = run_stage("collect", params, {}, tmp_path, session)
    assert (summary["samples"], summary["too_long"]) == (2, 1)
    assert summary["overlap"] == [{"task": "gsm8k", "ngrams": 3, "samples": 1, "prompts": 1}]
    shard = pq.read_table(tmp_path / "shard.parquet", columns=["sample_id", "pool"]).to_pylist()
    assert sorted((row["sample_id"], row["pool"]) for row in shard) == [
        ("mine/pool/0", "mine"),
        ("mine/pool/2", "mine"),
    ]
    params["pools"] = [{"task": "mine", "split": "pool", "first": 1, "count": 1}]
    with pytest.raises(UserError, match="none of 1 prompts fits the 2000 positions"):
        run_stage("collect", params, {}, tmp_path, session)
