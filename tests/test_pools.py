"""Prompt pools: what they read, mixtures of them, and the overlap with what is evaluated."""

from __future__ import annotations

import pytest
import rows_for_tests as rows
from hypothesis import given
from hypothesis import strategies as st

from pipeline.mixture import deal
from workers.errors import UserError
from workers.tasks import get_task
from workers.tasks.overlap import ngrams, overlaps
from workers.tasks.sample import Sample

SENTENCE = "one two three four five six seven eight nine ten eleven"


def test_a_file_of_prompts_in_its_order(tmp_path):
    given_rows = [{"prompt": "b", "id": "x/1", "meta": 3}, {"prompt": "a"}, {"id": 7, "prompt": "c"}]
    task = get_task("mine", {"mine": str(rows.write_jsonl(tmp_path / "mine.jsonl", given_rows))})
    samples = task.samples("pool", 0, 9)
    assert [(sample.id, sample.prompt) for sample in samples] == [
        ("mine/pool/x/1", "b"),
        ("mine/pool/1", "a"),
        ("mine/pool/7", "c"),
    ]
    assert task.samples("pool", 1, 1) == samples[1:2]
    assert task.splits == ("pool",) and task.score is None
    with pytest.raises(UserError, match="'mine' is a pool of prompts, it has no test samples"):
        task.samples("test", 0, 1)


@pytest.mark.parametrize(
    "name, row, prompt",
    [
        ("codealpaca", {"instruction": "Sort it.", "input": "3, 1", "output": "1, 3"}, "Sort it.\n\n3, 1"),
        ("codealpaca", {"instruction": "Sort it.", "input": " ", "output": ""}, "Sort it."),
        ("codealpaca", {"id": "c/0", "prompt": "Sort it."}, "Sort it."),
        ("ultrachat", {"prompt": "Hello", "messages": []}, "Hello"),
        ("nemotron-code", {"input": "Write a loop."}, "Write a loop."),
        (
            "nemotron-chat",
            {
                "input": [
                    {"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": "Yes"},
                    {"role": "user", "content": "Why?"},
                ]
            },
            "Why?",
        ),
    ],
)
def test_public_pools_read_their_own_rows_from_a_file_too(tmp_path, name, row, prompt):
    path = str(rows.write_jsonl(tmp_path / "rows.jsonl", [row]))
    assert [sample.prompt for sample in get_task(name, {name: path}).samples("pool", 0, 5)] == [prompt]


@pytest.mark.parametrize(
    "name, row, problem",
    [
        ("mine", {"text": "a"}, "mine.jsonl:1: no field 'prompt', which pool 'mine' needs; the row has text"),
        ("mine", {"prompt": " "}, "mine.jsonl:1: the prompt is empty"),
        ("mine", {"prompt": ["a"]}, "mine.jsonl:1: field 'prompt' should be text"),
        ("codealpaca", {"instruction": "a"}, "mine.jsonl:1: no field 'input'"),
        ("nemotron-chat", {"input": [{"role": "system", "content": "a"}]}, "mine.jsonl:1: the prompt is empty"),
    ],
)
def test_a_bad_row_is_named(tmp_path, name, row, problem):
    path = str(rows.write_jsonl(tmp_path / "mine.jsonl", [row]))
    with pytest.raises(UserError, match=problem):
        get_task(name, {name: path}).samples("pool", 0, 1)


@given(
    weights=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    size=st.integers(1, 30),
    prompts=st.integers(1, 120),
)
def test_a_mixture_deals_its_shares_whatever_the_shards(weights, size, prompts):
    mixture = {f"pool{index}": weight for index, weight in enumerate(weights)}
    dealt: dict[str, list[int]] = {name: [] for name in mixture}
    for start in range(0, prompts, size):
        for pool in deal(mixture, "pool", start, min(start + size, prompts)):
            dealt[pool["task"]] += range(pool["first"], pool["first"] + pool["count"])
    assert sum(map(len, dealt.values())) == prompts
    for name, weight in mixture.items():
        assert dealt[name] == list(range(len(dealt[name])))
        assert abs(len(dealt[name]) - prompts * weight / sum(weights)) <= len(weights)


def test_a_member_may_name_its_split():
    assert deal(["mbpp/pool", "math500"], "calibration", 0, 3) == [
        {"task": "mbpp", "split": "pool", "first": 0, "count": 2},
        {"task": "math500", "split": "calibration", "first": 0, "count": 1},
    ]


def test_two_rows_of_one_id_are_named(tmp_path):
    path = str(rows.write_jsonl(tmp_path / "mine.jsonl", [{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}]))
    with pytest.raises(UserError, match="mine.jsonl:2: the same id as at .*mine.jsonl:1: 'a'"):
        get_task("mine", {"mine": path}).samples("pool", 0, 1)


def test_ngrams_ignore_case_and_punctuation():
    assert list(ngrams("One, two: THREE four!", 3)) == ["one two three", "two three four"]
    assert list(ngrams(SENTENCE)) == [" ".join(SENTENCE.split()[:10]), " ".join(SENTENCE.split()[1:])]
    assert list(ngrams("too short")) == []


def test_overlap_counts_runs_samples_and_prompts():
    evaluated = {
        "gsm8k": [Sample("g0", "unrelated"), Sample("g1", f"Ask: {SENTENCE}?"), Sample("g2", SENTENCE.upper())],
        "mbpp": [Sample("m0", "x", {}, "nothing here")],
    }
    prompts = [Sample("p0", f"He said: {SENTENCE}!"), Sample("p1", SENTENCE[:-7]), Sample("p2", "one two three")]
    gsm8k, mbpp = overlaps(prompts, evaluated)
    assert (gsm8k.task, gsm8k.ngrams, gsm8k.samples, gsm8k.prompts) == ("gsm8k", 2, 2, 2)
    assert (mbpp.task, mbpp.ngrams, mbpp.samples, mbpp.prompts) == ("mbpp", 0, 0, 0)


def test_shared_instructions_and_examples_are_no_overlap(tmp_path):
    data = rows.write_all(tmp_path)
    trained = rows.write_jsonl(
        tmp_path / "train.jsonl", [{**row, "question": "How tall is it?"} for row in rows.gsm8k(2)]
    )
    data["gsm8k"] = {"test": data["gsm8k"], "train": str(trained)}
    for name in ("gsm8k", "mbpp"):
        task = get_task(name, data)
        prompts = [Sample(s.id, s.prompt, {}, s.problem) for s in task.samples("pool", 0, 9)]
        assert overlaps(prompts, {name: task.samples("test", 0, 9)})[0].ngrams == 0
