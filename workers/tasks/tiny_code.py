"""tiny-code: a described Python function (filter, maps, reduction, final adjustment), scored by running it."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable

from workers.tasks.generated import generated
from workers.tasks.sample import Sample
from workers.tasks.sandbox import run_python

NAMES = ("pick", "solve", "score", "check", "count", "blend", "merge", "scan")
REDUCTIONS = {"sum": "sum", "largest number": "max", "smallest number": "min"}
FINALS = {"plus": "+", "minus": "-", "times": "*"}
MEANING = {"sum": sum, "max": max, "min": min, "+": operator.add, "-": operator.sub, "*": operator.mul}


def choose_filter(rng: random.Random) -> tuple[str, str, Callable[[int], bool]]:
    """What is kept: in words, as a Python condition on n, and as a predicate."""
    kind = rng.choice(("even", "odd", "greater", "less", "multiples"))
    if kind in ("even", "odd"):
        rest = int(kind == "odd")
        return f"the {kind} numbers", f"n % 2 == {rest}", lambda n: n % 2 == rest
    if kind == "multiples":
        divisor = rng.randint(3, 5)
        return f"multiples of {divisor}", f"n % {divisor} == 0", lambda n: n % divisor == 0
    bound = rng.randint(3, 15)
    if kind == "greater":
        return f"numbers greater than {bound}", f"n > {bound}", lambda n: n > bound
    return f"numbers less than {bound}", f"n < {bound}", lambda n: n < bound


def choose_map(rng: random.Random) -> tuple[str, str, int]:
    """A sentence, an operator and its operand."""
    sign = rng.choice("+-*")
    operand = rng.randint(2, 9)
    words = {
        "+": f"Add {operand} to each number",
        "-": f"Subtract {operand} from each number",
        "*": f"Multiply each number by {operand}",
    }
    return words[sign], sign, operand


def generate(rng: random.Random) -> tuple[str, dict]:
    name = rng.choice(NAMES)
    kept, condition, keeps = choose_filter(rng)
    maps = [choose_map(rng) for _ in range(rng.choice((1, 2)))]
    reduction, final = rng.choice(sorted(REDUCTIONS)), rng.choice(sorted(FINALS))
    amount = rng.randint(2, 9)
    asked = [f"Solve this problem in Python. Write a function {name}(nums).", f"Keep only {kept}."]
    asked += [f"{words}." for words, _, _ in maps]
    asked.append(f"Return the {reduction} {final} {amount}.\n")
    lines = [f"def {name}(nums):", f"    # keep only {kept}", "    result = []", "    for n in nums:"]
    lines.append(f"        if {condition}:")
    assignment = rng.choice(("n = n {} {}", "n {}= {}"))
    lines += ["            " + assignment.format(sign, operand) for _, sign, operand in maps]
    lines += ["            result.append(n)", f"    # return the {reduction} {final} {amount}"]
    call = f"{REDUCTIONS[reduction]}(result)"
    if len(maps) == 2 and rng.random() < 0.5:
        lines.append(f"    return {call} {FINALS[final]} {amount}")
    else:
        lines += [f"    total = {call}", f"    total = total {FINALS[final]} {amount}", "    return total"]
    solution = "\n".join(lines) + "\n"

    def expected(numbers: list[int]) -> int:
        numbers = [n for n in numbers if keeps(n)]
        for _, sign, operand in maps:
            numbers = [MEANING[sign](n, operand) for n in numbers]
        return MEANING[FINALS[final]](MEANING[REDUCTIONS[reduction]](numbers), amount)

    return " ".join(asked), {"name": name, "tests": make_tests(rng, expected), "solution": solution}


def make_tests(rng: random.Random, expected: Callable[[list[int]], int]) -> list[list]:
    """Four pairs (argument, expected value); every argument keeps at least one number, so that max and min exist."""
    tests: list[list] = []
    while len(tests) < 4:
        numbers = [rng.randint(1, 20) for _ in range(rng.randint(5, 8))]
        try:
            tests.append([numbers, expected(numbers)])
        except ValueError:
            continue
    return tests


def check(sample: Sample, output: str) -> bool:
    """The output, run in the sandbox, passes every test."""
    name = sample.reference["name"]
    tests = "".join(f"assert {name}({numbers}) == {value}\n" for numbers, value in sample.reference["tests"])
    return run_python(f"{output}\n{tests}", timeout_s=2.0, memory_mb=256).ok


TINY_CODE = generated("tiny-code", 1, True, generate, check)
