"""Rows in the formats of the published benchmarks, written for these tests, with answers that solve them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

NAMES = ("gsm8k", "mbpp", "humaneval", "math500", "ifeval")


def write_jsonl(path: Path, rows: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def gsm8k(count: int = 3) -> list[dict]:
    return [
        {
            "question": f"A baker makes {n + 2} trays of 600 rolls each. How many rolls is that?",
            "answer": f"Every tray has 600 rolls.\n{n + 2} * 600 = <<{n + 2}*600={600 * (n + 2)}>>{600 * (n + 2):,}\n"
            f"#### {600 * (n + 2):,}",
        }
        for n in range(count)
    ]


def mbpp(numbers: Iterable[int] = (*range(1, 14), 601, 602)) -> list[dict]:
    return [
        {
            "text": f"Write a function that adds {n} to a number.",
            "code": f"def add_{n}(x):\r\n    return x + {n}",
            "task_id": n,
            "test_setup_code": "" if n % 2 else f"shifted = add_{n}",
            "test_list": [f"assert add_{n}(0) == {n}", f"assert add_{n}(-{n}) == 0"]
            + ([] if n % 2 else [f"assert shifted(1) == {n + 1}"]),
            "challenge_test_list": [],
        }
        for n in numbers
    ]


def humaneval(count: int = 3) -> list[dict]:
    return [
        {
            "task_id": f"HumanEval/{n}",
            "prompt": "from typing import List\n\n\ndef helper(x: int) -> int:\n    return x + 1\n\n\n"
            f'def total_{n}(numbers: List[int]) -> int:\n    """ Sum of all numbers plus {n}.\n    >>> total_{n}([1])\n'
            f'    {n + 1}\n    """\n',
            "entry_point": f"total_{n}",
            "canonical_solution": f"    result = {n}\n    for number in numbers:\n"
            "        result += helper(number) - 1\n"
            "    return result\n",
            "test": f"\n\nMETADATA = {{}}\n\n\ndef check(candidate):\n    assert candidate([]) == {n}\n"
            f"    assert candidate([1, 2]) == {n + 3}\n",
        }
        for n in range(count)
    ]


def math500(answers: Iterable[str] = ("\\frac{3}{4}", "12", "(1, 2)")) -> list[dict]:
    return [
        {
            "problem": f"Problem number {n}: find $x$.",
            "solution": f"We find that $x = \\boxed{{{answer}}}$.",
            "answer": answer,
            "subject": "Algebra",
            "level": 1,
            "unique_id": f"test/algebra/{n}.json",
        }
        for n, answer in enumerate(answers)
    ]


def ifeval() -> list[dict]:
    return [
        {
            "key": 1000 + n,
            "prompt": f"Write {n} lines about rain without any commas, in at least five words.",
            "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
            "kwargs": [{}, {"relation": "at least", "num_words": 5}],
        }
        for n in range(3)
    ]


def write_all(folder: Path) -> dict[str, str]:
    """All five as files, and a pool; what a spec's `data` says of them."""
    rows = {"gsm8k": gsm8k(), "mbpp": mbpp(), "humaneval": humaneval(), "math500": math500(), "ifeval": ifeval()}
    rows["notes"] = [{"id": f"note-{n}", "prompt": f"Explain the number {n} to a child."} for n in range(9)]
    return {name: str(write_jsonl(folder / f"{name}.jsonl", content)) for name, content in rows.items()}
