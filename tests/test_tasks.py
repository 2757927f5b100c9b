"""The task families: deterministic, disjoint splits, references that pass their own scorer."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from workers.errors import UserError
from workers.tasks import SPLITS, TASKS, get_task, samples_digest
from workers.tasks.generated import split_of

NAMES = sorted(TASKS)


@pytest.mark.parametrize("name", NAMES)
def test_samples_do_not_depend_on_the_request(name):
    task = get_task(name)
    whole = task.samples("test", 0, 12)
    assert [task.samples("test", index, 1)[0] for index in range(12)] == whole
    assert whole[5].id == f"{name}/test/5"


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_the_same_in_another_process(name):
    code = f"from workers.tasks import *; print(samples_digest(get_task({name!r}), 'pool', 3, 20))"
    others = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert others == {samples_digest(get_task(name), "pool", 3, 20)}


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_belongs_to_one_split(name):
    task = get_task(name)
    for split in SPLITS:
        assert all(split_of(sample.prompt) == split for sample in task.samples(split, 0, 200))


@pytest.mark.parametrize("name", NAMES)
def test_digest_changes_with_the_data(name):
    task = get_task(name)
    assert len({samples_digest(task, split, first, 5) for split in SPLITS for first in (0, 1)}) == 2 * len(SPLITS)


def test_maths_solutions_are_right():
    """Recomputed from the prompt, independently of the generator."""
    for sample in get_task("tiny-math").samples("test", 0, 200):
        start, *steps = re.findall(
            r"has (\d+)|(?:buys|finds|gets) (\d+)|(?:sells|loses|eats) (\d+)|(doubles)|(triples)", sample.prompt
        )
        value = int(start[0])
        for _, gain, loss, double, triple in steps:
            value = value + int(gain or 0) - int(loss or 0)
            value *= 2 if double else 3 if triple else 1
            assert 1 <= value <= 60
        assert value == sample.reference["answer"]
        assert get_task("tiny-math").score(sample, sample.reference["solution"]).correct


def test_maths_scorer_takes_the_last_answer():
    task = get_task("tiny-math")
    sample = task.samples("test", 0, 1)[0]
    right = sample.reference["answer"]
    assert task.score(sample, f"#### {right + 1}\n####{right} apples").correct
    assert not task.score(sample, f"#### {right}\n#### {right + 1}").correct
    assert not task.score(sample, f"The answer is {right}.").correct
    assert not task.score(sample, f"#### {right}0").correct


def test_code_scorer_runs_the_function():
    task = get_task("tiny-code")
    for sample in task.samples("test", 0, 10):
        assert task.score(sample, sample.reference["solution"]).correct
    name = sample.reference["name"]
    assert not task.score(sample, f"def {name}(nums):\n    return 12345\n").correct
    assert not task.score(sample, "def other(nums):\n    return 0\n").correct
    assert not task.score(sample, "raise SystemExit(0)").correct
    assert not task.score(sample, sample.reference["solution"].replace("result.append", "result.remove")).correct


def test_code_tests_tell_programs_apart():
    """Four tests each, which a program that ignores its argument passes for few samples."""
    samples = get_task("tiny-code").samples("test", 0, 200)
    assert all(len(sample.reference["tests"]) == 4 for sample in samples)
    constant = [sample for sample in samples if len({value for _, value in sample.reference["tests"]}) == 1]
    assert len(constant) < 0.1 * len(samples)


def test_unknown_task_is_a_user_error():
    with pytest.raises(UserError, match="tiny-maths.*tiny-code, tiny-math"):
        get_task("tiny-maths")


def test_tasks_import_no_model_library():
    code = "import sys, workers.tasks; print(sorted({'torch', 'transformers', 'numpy', 'ray'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
