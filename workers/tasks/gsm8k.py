"""GSM8K: grade-school word problems (arXiv 2110.14168); zero-shot, the answer after `####` or the last number."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from workers.errors import UserError
from workers.tasks.benchmark import Benchmark, Rows
from workers.tasks.replies import before_stop
from workers.tasks.rows import Hub
from workers.tasks.sample import Sample, Score

INSTRUCTION = "Solve this step by step. Give the final answer as a number on a last line that starts with ####."
STOPS = ("Question:", "</s>", "<|im_end|>")

# The filters of lm-evaluation-harness, which both look at the text as it is.
STRICT = re.compile(r"#### (\-?[0-9\.\,]+)")
FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
IGNORED = (re.compile(","), re.compile(r"\$"), re.compile("(?s).*#### "), re.compile(r"\.$"))

MARKED = re.compile(r"####\s*\$?\s*(-?\$?[0-9][0-9.,]*)")
NUMBER = re.compile(r"-?\$?[0-9][0-9.,]*|-?\$?\.[0-9]+")


def build(rows: Rows, published: str) -> list[Sample]:
    samples = []
    for index, (place, row) in enumerate(rows(published)):
        marked = STRICT.search(row["answer"])
        if marked is None:
            raise UserError(f"{place}: the answer has no '#### NUMBER'")
        problem, reference = row["question"].strip(), {"answer": marked[1].replace(",", "")}
        samples.append(Sample(f"gsm8k/{published}/{index}", f"{problem}\n\n{INSTRUCTION}", reference, problem))
    return samples


def score(sample: Sample, output: str) -> Score:
    """correct: the number behind the first `####`, else the last number (SPOT, appendix E), equal in value.

    strict, flexible: the exact matches of lm-evaluation-harness, text against text, where $29.00 is not 29.
    """
    answer, text = sample.reference["answer"], before_stop(output, STOPS)
    strict = STRICT.search(text)
    loose = FLEXIBLE.findall(text)
    return Score(
        value(final_number(text)) == Decimal(answer),
        {
            "strict": strict is not None and exact(strict[1], answer),
            "flexible": bool(loose) and exact(next(filter(None, loose[-1])).strip(), answer),
        },
    )


def final_number(text: str) -> str:
    marked = MARKED.search(text)
    if marked:
        return marked[1]
    numbers = NUMBER.findall(text)
    return numbers[-1] if numbers else ""


def value(number: str) -> Decimal | None:
    """The value of a number as people write it: $1,234.50 and 18. are numbers; None for anything else."""
    try:
        return Decimal(number.replace(",", "").replace("$", "").rstrip("."))
    except InvalidOperation:
        return None


def exact(found: str, answer: str) -> bool:
    """exact_match of lm-evaluation-harness, ignoring case, commas, dollar signs and one full stop at the end."""
    for pattern in IGNORED:
        found, answer = pattern.sub("", found), pattern.sub("", answer)
    return found.lower() == answer.lower()


GSM8K = Benchmark(
    name="gsm8k",
    version=1,
    executes_code=False,
    hub=Hub("openai/gsm8k", "main", {"test": "test", "train": "train"}),
    fields={"question": str, "answer": str},
    build=build,
    score=score,
)
