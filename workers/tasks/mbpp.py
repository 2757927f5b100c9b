"""MBPP (arXiv 2108.07732): short Python functions, 3-shot with the exemplars 2, 3 and 4 of the prompt split."""

from __future__ import annotations

from workers.errors import UserError
from workers.tasks.benchmark import Benchmark, Rows, unique
from workers.tasks.replies import before_stop, fenced
from workers.tasks.rows import Hub, Row
from workers.tasks.sample import Sample, Score
from workers.tasks.sandbox import run_python

EXEMPLARS = (2, 3, 4)
STOPS = ("[DONE]", "<|im_end|>", "</s>")

# The published ranges of task ids, inclusive.
RANGES = {"prompt": (1, 10), "test": (11, 510), "validation": (511, 600), "train": (601, 974)}


def sort(row: Row) -> str | None:
    return next((split for split, (first, last) in RANGES.items() if first <= row["task_id"] <= last), None)


def ask(row: Row) -> str:
    tests = "\n".join(row["test_list"])
    return (
        f"You are an expert Python programmer, and here is your task: {row['text'].strip()} "
        f"Your code should pass these tests:\n\n{tests}\n[BEGIN]\n"
    )


def build(rows: Rows, published: str) -> list[Sample]:
    shown = {row["task_id"]: row for _, row in rows("prompt")}
    missing = [number for number in EXEMPLARS if number not in shown]
    if missing:
        raise UserError(
            f"'mbpp' shows the tasks {', '.join(map(str, EXEMPLARS))} as examples; its prompt rows lack {missing[0]}"
        )
    shots = "".join(f"{ask(shown[number])}{unix(shown[number]['code'])}\n[DONE]\n\n" for number in EXEMPLARS)
    samples = []
    for place, row in rows(published):
        reference = {"setup": row["test_setup_code"], "tests": list(row["test_list"])}
        samples.append((place, Sample(f"mbpp/{published}/{row['task_id']}", shots + ask(row), reference, row["text"])))
    return unique(samples)


def unix(code: str) -> str:
    return code.replace("\r\n", "\n").strip()


def program(output: str) -> str:
    """The code of a reply: behind [BEGIN] if it repeats that, up to [DONE], the first fenced block if there is one."""
    code = before_stop(output, STOPS).rpartition("[BEGIN]")[2]
    block = fenced(code)
    return code if block is None else block


def score(sample: Sample, output: str) -> Score:
    """The code passes the three reference tests in the sandbox; it runs before their setup code, which may need it."""
    tests = "\n".join(sample.reference["tests"])
    code = f"{program(output)}\n\n{sample.reference['setup']}\n\n{tests}\n"
    outcome = run_python(code, timeout_s=10.0, memory_mb=1024)
    return Score(outcome.ok, {"timed_out": outcome.timed_out})


MBPP = Benchmark(
    name="mbpp",
    version=1,
    executes_code=True,
    hub=Hub("google-research-datasets/mbpp", "full", {split: split for split in RANGES}),
    fields={"task_id": int, "text": str, "code": str, "test_setup_code": str, "test_list": list},
    build=build,
    score=score,
    sort=sort,
)
