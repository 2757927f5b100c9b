"""Overlap of prompt pools with evaluation prompts: word n-grams that both contain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from workers.tasks.sample import Sample

WORDS = 10
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Overlap:
    """What pool prompts share with one task: distinct n-grams, and how many of its samples and of the prompts have
    any."""

    task: str
    ngrams: int
    samples: int
    prompts: int


def ngrams(text: str, words: int = WORDS) -> Iterator[str]:
    """Every run of so many words, in lower case, without punctuation."""
    found = WORD.findall(text.lower())
    for start in range(len(found) - words + 1):
        yield " ".join(found[start : start + words])


def overlaps(prompts: Iterable[Sample], evaluated: Mapping[str, Iterable[Sample]]) -> list[Overlap]:
    """The overlap of `prompts` with the samples of each task in `evaluated`; problems are compared, not
    instructions."""
    owners: dict[str, set[str]] = {}
    for task, samples in evaluated.items():
        for sample in samples:
            for gram in ngrams(sample.problem):
                owners.setdefault(gram, set()).add(f"{task} {sample.id}")
    shared: dict[str, set[str]] = {}
    touched = dict.fromkeys(evaluated, 0)
    for prompt in prompts:
        grams = {gram for gram in ngrams(prompt.problem) if gram in owners}
        for gram in grams:
            shared[gram] = owners[gram]
        for task in {owner.partition(" ")[0] for gram in grams for owner in owners[gram]}:
            touched[task] += 1
    return [
        Overlap(
            task,
            sum(any(owner.startswith(f"{task} ") for owner in found) for found in shared.values()),
            len({owner for found in shared.values() for owner in found if owner.startswith(f"{task} ")}),
            touched[task],
        )
        for task in evaluated
    ]
