"""tiny-code: a described Python function (filter, maps, reduction, final adjustment), scored by running it."""

from __future__ import annotations

import random

from workers.tasks.generated import generated
from workers.tasks.sample import Sample
from workers.tasks.sandbox import run_python

NAMES = ("pick", "solve", "score", "check", "count", "blend", "merge", "scan")
REDUCTIONS = {"sum": "sum", "largest number": "max", "smallest number": "min"}
FINALS = {"plus": "+", "minus": "-", "times": "*"}


def choose_filter(rng: random.Random) -> tuple[str, str]:
    """What is kept, in words and as a Python condition on n."""
    kind = rng.choice(("even", "odd", "greater", "less", "multiples"))
    if kind in ("even", "odd"):
        return f"the {kind} numbers", f"n % 2 == {int(kind == 'odd')}"
    if kind == "multiples":
        divisor = rng.randint(3, 5)
        return f"multiples of {divisor}", f"n % {divisor} == 0"
    bound = rng.randint(3, 15)
    return f"numbers {kind} than {bound}", f"n {'>' if kind == 'greater' else '<'} {bound}"


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
    kept, condition = choose_filter(rng)
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
    return " ".join(asked), {"name": name, "tests": make_tests(rng, name, solution), "solution": solution}


def make_tests(rng: random.Random, name: str, solution: str) -> list[list]:
    """Four pairs (argument, expected value); every argument keeps at least one number, so that max and min exist."""
    namespace: dict = {}
    exec(compile(solution, "<solution>", "exec"), namespace)  # the template above, not generated text
    tests: list[list] = []
    while len(tests) < 4:
        numbers = [rng.randint(1, 20) for _ in range(rng.randint(5, 8))]
        try:
            tests.append([numbers, namespace[name](numbers)])
        except ValueError:
            continue
    return tests


def check(sample: Sample, output: str) -> bool:
    """The output, run in the sandbox, passes every test."""
    name = sample.reference["name"]
    tests = "".join(f"assert {name}({numbers}) == {value}\n" for numbers, value in sample.reference["tests"])
    return run_python(f"{output}\n{tests}", timeout_s=2.0, memory_mb=256).ok


TINY_CODE = generated("tiny-code", 1, True, generate, check)
