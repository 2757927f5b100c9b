"""HumanEval (arXiv 2107.03374): complete a function from its signature and docstring; scored by running its tests."""

from __future__ import annotations

import re

from workers.tasks.benchmark import Benchmark, Rows, unique
from workers.tasks.replies import before_stop, fenced
from workers.tasks.rows import Hub
from workers.tasks.sample import Sample, Score
from workers.tasks.sandbox import run_python

INSTRUCTION = "Write a solution to the following problem and make sure that it passes the tests:"
STOPS = ("\nclass ", "\ndef ", "\n#", "\nif ", "\nprint", "<|im_end|>", "</s>")


def build(rows: Rows, published: str) -> list[Sample]:
    samples = []
    for place, row in rows(published):
        prompt = f"{INSTRUCTION}\n```python\n{row['prompt'].rstrip()}\n```\n"
        reference = {"prompt": row["prompt"], "test": row["test"], "entry_point": row["entry_point"]}
        samples.append((place, Sample(row["task_id"], prompt, reference, row["prompt"])))
    return unique(samples)


def program(sample: Sample, output: str) -> str:
    """The program of a reply: a whole function behind the given one, or a continuation of it up to the first stop.

    Indentation is kept as it is. A function replaces the given one, whose helpers and imports it may use.
    """
    prompt, name = sample.reference["prompt"], sample.reference["entry_point"]
    block = fenced(output, f"def {name}")
    code = output if block is None else block
    whole = re.search(rf"^(async )?def {re.escape(name)}\b", code, re.MULTILINE)
    if whole and block is not None:
        return f"{prompt}\n    pass\n\n{code}"
    if whole:  # no fence: the reply may begin with words
        start = re.search(r"^(from |import |def |class |@|async def )", code, re.MULTILINE).start()
        return f"{prompt}\n    pass\n\n{code[start:]}"
    return prompt + (before_stop(code, STOPS) if block is None else code)


def score(sample: Sample, output: str) -> Score:
    """The program passes the reference tests in the sandbox; timed_out: it was too slow."""
    test, name = sample.reference["test"], sample.reference["entry_point"]
    code = f"{program(sample, output)}\n\n{test}\n\ncheck({name})\n"
    outcome = run_python(code, timeout_s=10.0, memory_mb=1024)
    return Score(outcome.ok, {"timed_out": outcome.timed_out})


HUMANEVAL = Benchmark(
    name="humaneval",
    version=1,
    executes_code=True,
    hub=Hub("openai/openai_humaneval", None, {"test": "test"}),
    fields={"task_id": str, "prompt": str, "test": str, "entry_point": str},
    build=build,
    score=score,
)
