"""MATH-500 (arXiv 2103.03874, 2305.20050): competition problems, zero-shot; the boxed answer is compared as
mathematics."""

from __future__ import annotations

import logging
import re
import threading

from workers.errors import UserError
from workers.tasks.benchmark import Benchmark, Rows
from workers.tasks.replies import before_stop
from workers.tasks.rows import Hub
from workers.tasks.sample import Sample, Score

INSTRUCTION = "Please reason step by step, and put your final answer within \\boxed{}."
STOPS = ("Problem:", "<|im_end|>", "</s>")
TIMEOUT_S = 5
LONGEST = 500  # characters of an answer; no reference has a third of it, and what loops is cut short
BOX = re.compile(r"\\f?box(?:ed)?\s*(\{|[^\s{$]+)")


def build(rows: Rows, published: str) -> list[Sample]:
    samples = []
    for index, (_, row) in enumerate(rows(published)):
        problem, reference = row["problem"].strip(), {"answer": row["answer"]}
        samples.append(Sample(f"math500/{published}/{index}", f"{problem}\n\n{INSTRUCTION}", reference, problem))
    return samples


def score(sample: Sample, output: str) -> Score:
    """correct: the last boxed answer equals the reference for math-verify. exact_match: as normalised text.

    Raises UserError if math-verify is not installed.
    """
    found = last_box(before_stop(output, STOPS))
    if found is None or len(found) > LONGEST:
        return Score(False, {"exact_match": False, "boxed": found is not None})
    answer = sample.reference["answer"]
    exact = normal(found) == normal(answer)
    return Score(exact or equal(found, answer), {"exact_match": exact, "boxed": True})


def last_box(text: str) -> str | None:
    r"""What the last \boxed{...} or \fbox{...} holds, braces balanced; None if there is none or it is not closed."""
    boxes = list(BOX.finditer(text))
    if not boxes:
        return None
    box = boxes[-1]
    if box[1] != "{":
        return box[1]
    depth = 1
    for index in range(box.end(), len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0) if text[index - 1] != "\\" else 0
        if depth == 0:
            return text[box.end() : index].strip()
    return None


def equal(found: str, answer: str) -> bool:
    """Whether math-verify holds two LaTeX expressions to be the same answer."""
    try:
        from math_verify import parse, verify
        from math_verify.errors import TimeoutException
    except ImportError:
        raise UserError(
            "'math500' is scored by math-verify, which is not installed: pip install -e '.[bench]'"
        ) from None
    for name in ("math_verify.parser", "math_verify.grader", "math_verify.utils"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # it logs every answer that is not mathematics
    # Its time limit is an alarm signal, which only the main thread may set.
    limit = TIMEOUT_S if threading.current_thread() is threading.main_thread() else None
    try:
        ours, theirs = (parse(f"\\boxed{{{text}}}", parsing_timeout=limit) for text in (found, answer))
        return bool(verify(theirs, ours, timeout_seconds=limit))
    except (TimeoutException, RecursionError):
        return False


# Spellings that mean the same, as in the scorers of the MATH data set (arXiv 2103.03874) and of Minerva (2206.14858).
REMOVED = re.compile(
    r"\\!|\\,|\\;|\\ |\\left|\\right|\\\$|\$|\\%|%|\^\\circ|\^\{\\circ\}|\\(?:text|mbox)\{\s*[a-zA-Z.\s^]*\s*\}$"
)
RENAMED = ((r"\tfrac", r"\frac"), (r"\dfrac", r"\frac"), (r"\cfrac", r"\frac"), (r"\ldots", "..."), (r"\le ", r"\leq "))
TEXT = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox)\{([^{}]*)\}")
FRACTION = re.compile(r"\\frac\s*([0-9a-z])\s*([0-9a-z])")
HALF_FRACTION = re.compile(r"\\frac(\{[^{}]*\})\s*([0-9a-z])|\\frac([0-9a-z])\s*(\{[^{}]*\})")
ROOT = re.compile(r"\\sqrt\s*([0-9a-z])")
SLASH = re.compile(r"^(-?\d+)/(\d+)$")
ASSIGNED = re.compile(r"^[a-z](?:\([a-z]\))?=(?=[^=]+$)")
THOUSANDS = re.compile(r"(?<=\d),(?:\\!)?(?=\d{3}(?:\D|$))")


def normal(answer: str) -> str:
    """An answer in one spelling: no units, spacing, dollar or degree signs; fractions and roots with braces."""
    text = answer.strip().rstrip(".")
    for old, new in RENAMED:
        text = text.replace(old, new)
    text = REMOVED.sub("", text.strip()) or text
    text = TEXT.sub(r"\1", text).replace(" ", "").replace("\n", "")
    text = ASSIGNED.sub("", text)
    if not text.startswith(("(", "[", r"\{")):
        text = THOUSANDS.sub("", text)
    text = ROOT.sub(r"\\sqrt{\1}", FRACTION.sub(r"\\frac{\1}{\2}", text))
    text = HALF_FRACTION.sub(lambda m: rf"\frac{m[1]}{{{m[2]}}}" if m[1] else rf"\frac{{{m[3]}}}{m[4]}", text)
    text = SLASH.sub(r"\\frac{\1}{\2}", text)
    text = re.sub(r"(?<![\d])\.(?=\d)", "0.", text)
    return re.sub(r"^(-?\d+)\.0+$", r"\1", text)


MATH500 = Benchmark(
    name="math500",
    version=1,
    executes_code=False,
    hub=Hub("HuggingFaceH4/MATH-500", None, {"test": "test"}),
    fields={"problem": str, "answer": str},
    build=build,
    score=score,
    needs=("math_verify",),
)
