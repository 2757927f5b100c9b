"""tiny-math: word problems of three or four steps over small numbers, with a worked solution."""

from __future__ import annotations

import random
import re

from workers.tasks.generated import generated
from workers.tasks.sample import Sample

NAMES = ("Tom", "Ann", "Sam", "Mia", "Leo", "Eva", "Max", "Zoe")
ITEMS = ("apples", "pens", "coins", "books", "cards", "shells")
GAINS = ("buys", "finds", "gets")
LOSSES = ("sells", "loses", "eats")
FACTORS = {"doubles": 2, "triples": 3}
LARGEST = 60
ANSWER = re.compile(r"####\s*(-?\d+)")


def step(rng: random.Random, value: int) -> tuple[str, str, int]:
    """A verb, its operation (" + 5") and the new value in 1 .. LARGEST."""
    while True:
        sign = rng.choice("++--*")
        if sign == "*":
            verb = rng.choice(sorted(FACTORS))
            operand = FACTORS[verb]
            after = value * operand
        else:
            verb = rng.choice(GAINS if sign == "+" else LOSSES)
            operand = rng.randint(2, 9)
            after = value + operand if sign == "+" else value - operand
        if 1 <= after <= LARGEST:
            return verb, f"{sign} {operand}", after


def clause(name: str, verb: str, operation: str, items: str) -> str:
    sign, operand = operation.split()
    amount = {"+": f"{operand} more {items}", "-": f"{operand} {items}", "*": f"the {items}"}[sign]
    return f"{name} {verb} {amount}"


def generate(rng: random.Random) -> tuple[str, dict]:
    name, items = rng.choice(NAMES), rng.choice(ITEMS)
    value = rng.randint(3, 20)
    asked = [f"Solve this problem in steps. {name} has {value} {items}."]
    solved = [f"{name} starts with {value} {items}.\n"]
    for number in range(1, rng.choice((3, 3, 4)) + 1):
        verb, operation, after = step(rng, value)
        sentence = clause(name, verb, operation, items)
        asked.append(rng.choice((f"{sentence}.", f"Then {sentence}.")))
        link = rng.choice((", so", f". Now {name} has"))
        solved.append(f"Step {number}: {sentence}{link} {value} {operation} = {after}.\n")
        value = after
    asked.append(rng.choice((f"How many {items} does {name} have?\n", f"How many {items} are left?\n")))
    solved.append(rng.choice((f"{name} has {value} {items}.\n", f"The answer is {value}.\n")) + f"#### {value}")
    return " ".join(asked), {"answer": value, "solution": "".join(solved)}


def check(sample: Sample, output: str) -> bool:
    """The number after the last `####` equals the reference."""
    found = ANSWER.findall(output)
    return bool(found) and int(found[-1]) == sample.reference["answer"]


TINY_MATH = generated("tiny-math", 1, False, generate, check)
