"""IFEval (arXiv 2311.07911): instructions that a program can check; strict and loose, per prompt and per
instruction."""

from __future__ import annotations

from workers.errors import UserError
from workers.tasks.benchmark import Benchmark, Rows, unique
from workers.tasks.ifeval_checkers import CHECKS, follows, loose_variants
from workers.tasks.rows import Hub
from workers.tasks.sample import Sample, Score


def build(rows: Rows, published: str) -> list[Sample]:
    samples = []
    for place, row in rows(published):
        kinds, arguments = row["instruction_id_list"], row["kwargs"]
        unknown = [kind for kind in kinds if kind not in CHECKS]
        if unknown:
            raise UserError(f"{place}: the instruction '{unknown[0]}' is none of the {len(CHECKS)} kinds of IFEval")
        if len(kinds) != len(arguments):
            raise UserError(f"{place}: {len(kinds)} instructions, but kwargs for {len(arguments)}")
        # A Parquet file gives every instruction all arguments there are, the others as null.
        given = [{key: value for key, value in one.items() if value is not None} for one in arguments]
        instructions = [list(pair) for pair in zip(kinds, given)]
        samples.append((place, Sample(f"ifeval/{row['key']}", row["prompt"], {"instructions": instructions})))
    return unique(samples)


def score(sample: Sample, output: str) -> Score:
    """correct: every instruction is followed strictly, the prompt-level strict accuracy. Raises UserError (no
    langdetect).

    prompt_loose likewise; instructions, strict and loose count instructions, for the instruction-level accuracies.
    """
    instructions, variants = sample.reference["instructions"], loose_variants(output)
    try:
        strict = [follows(kind, arguments, output) for kind, arguments in instructions]
        loose = [any(follows(kind, arguments, text) for text in variants) for kind, arguments in instructions]
    except ModuleNotFoundError as error:
        raise UserError(
            f"'ifeval' is scored with {error.name}, which is not installed: pip install -e '.[bench]'"
        ) from None
    except KeyError as error:
        raise UserError(f"sample {sample.id}: its instructions lack the argument {error}") from None
    counts = {"instructions": len(strict), "instructions_strict": sum(strict), "instructions_loose": sum(loose)}
    return Score(all(strict), {"prompt_strict": all(strict), "prompt_loose": all(loose), **counts})


IFEVAL = Benchmark(
    name="ifeval",
    version=1,
    executes_code=False,
    hub=Hub("google/IFEval", None, {"test": "train"}),
    fields={"key": int, "prompt": str, "instruction_id_list": list, "kwargs": list},
    build=build,
    score=score,
    needs=("langdetect", "punkt"),
)
