"""Prompt pools for collection: three public sets by name, or any file of {id, prompt} rows. Prompts only, no scorer.

SPOT trains on CodeAlpaca, and on a mixture with UltraChat and the chat and code shards of Llama-Nemotron (appendix
D.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workers.errors import UserError
from workers.tasks.rows import Fields, Hub, Place, Row, check_row, read_file, read_hub
from workers.tasks.sample import Sample, Task


@dataclass(frozen=True)
class Pool:
    """A public set: the fields of its rows, and the prompt of one."""

    hub: Hub
    fields: Fields
    prompt: Callable[[Row], str]


def instruction(row: Row) -> str:
    return f"{row['instruction']}\n\n{row['input']}" if row["input"].strip() else row["instruction"]


def last_message(row: Row) -> str:
    """The prompt of a Llama-Nemotron row: a text, or a conversation whose last message of the user counts."""
    if isinstance(row["input"], str):
        return row["input"]
    said = [turn["content"] for turn in row["input"] if turn.get("role") == "user"]
    return said[-1] if said else ""


NEMOTRON = "nvidia/Llama-Nemotron-Post-Training-Dataset"

POOLS = {
    "codealpaca": Pool(
        Hub("sahil2801/CodeAlpaca-20k", None, {"pool": "train"}), {"instruction": str, "input": str}, instruction
    ),
    "ultrachat": Pool(
        Hub("HuggingFaceH4/ultrachat_200k", None, {"pool": "train_sft"}), {"prompt": str}, lambda row: row["prompt"]
    ),
    "nemotron-chat": Pool(Hub(NEMOTRON, "SFT", {"pool": "chat"}), {"input": (str, list)}, last_message),
    "nemotron-code": Pool(Hub(NEMOTRON, "SFT", {"pool": "code"}), {"input": (str, list)}, last_message),
}


def pool_task(name: str, data: str | Mapping[str, str] | None = None) -> Task:
    """The pool as a task with one split, `pool`, in the order of its file. A name of one's own needs its file in
    `data`.

    Rows of a file are {prompt} with an optional `id`, or, for a public set, its own rows.
    """

    def samples(split: str, first: int, count: int) -> list[Sample]:
        if split != "pool":
            raise UserError(f"'{name}' is a pool of prompts, it has no {split} samples")
        rows = read(name, data)
        return [sample(index, *rows[index]) for index in range(first, min(first + count, len(rows)))]

    def sample(index: int, place: Place, row: Row) -> Sample:
        own = name not in POOLS or "prompt" in row
        check_row(place, row, f"pool '{name}'", {"prompt": str} if own else POOLS[name].fields)
        prompt = row["prompt"] if own else POOLS[name].prompt(row)
        if not prompt.strip():
            raise UserError(f"{place}: the prompt is empty")
        return Sample(f"{name}/pool/{identifier(index, row)}", prompt)

    return Task(name, 1, False, ("pool",), samples, None)


def identifier(index: int, row: Row) -> str | int:
    """What names a row within its pool: its `id` if it has one, else its number."""
    return row["id"] if isinstance(row.get("id"), (str, int)) else index


# What is kept of a row: the answers of a large set would fill the memory.
KEPT = frozenset({"id", "prompt", *(field for pool in POOLS.values() for field in pool.fields)})


def read(name: str, data: str | Mapping[str, str] | None) -> Sequence[tuple[Place, Row]]:
    owner = f"pool '{name}'"
    if isinstance(data, Mapping):
        raise UserError(f"the {owner} is one file; write data: {{{name}: FILE}}")
    if data is None:
        hub = POOLS[name].hub
        return read_hub(hub, hub.splits["pool"], owner, {})
    rows = read_file(data, owner, {}, KEPT)
    seen: dict[str | int, Place] = {}
    for index, (place, row) in enumerate(rows):
        if (first := seen.setdefault(identifier(index, row), place)) is not place:
            raise UserError(f"{place}: the same id as at {first}: '{identifier(index, row)}'")
    return rows
