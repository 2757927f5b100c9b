"""Figures of one run computed from its samples and rounds: the one place that says how they are pooled."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc


def figures(samples: pa.Table, rounds: pa.Table) -> dict[str, float | int | None]:
    """Summary figures of a run; None where the samples do not carry what a figure needs.

    - nfe, nfe_answer, accuracy: means over samples.
    - tok_s, answer_tok_s: all generated (answer) tokens over the summed net seconds, so a long sample weighs as much as
      it took; wall_s is that sum.
    - accepted_per_round_pooled: accepted drafts over drafted rounds of the whole run.
      accepted_per_round_mean: the same per sample, averaged over samples. The two differ when samples differ in length.
    """
    wall = _sum(samples["wall_s"])
    return {
        "n_samples": samples.num_rows,
        "nfe": _mean(samples["nfe"]),
        "nfe_answer": _mean(samples["nfe_answer"]),
        "accuracy": _mean(samples["correct"].cast(pa.float64())),
        "wall_s": wall,
        "tok_s": _over(_sum(samples["generated_tokens"]), wall),
        "answer_tok_s": _over(_sum(samples["answer_tokens"]), wall),
        **_acceptance(rounds),
    }


def _acceptance(rounds: pa.Table) -> dict[str, float | None]:
    drafted = rounds.filter(pc.greater(rounds["drafted"], 0))
    accepted: dict[str, list[int]] = defaultdict(list)
    for sample, count in zip(drafted["sample_id"].to_pylist(), drafted["accepted"].to_pylist(), strict=True):
        accepted[sample].append(count or 0)
    total = sum(map(sum, accepted.values()))
    return {
        "accepted_per_round_pooled": _over(total, drafted.num_rows),
        "accepted_per_round_mean": _over(sum(sum(counts) / len(counts) for counts in accepted.values()), len(accepted)),
    }


def _sum(column: pa.ChunkedArray) -> float | None:
    return pc.sum(column).as_py()


def _mean(column: pa.ChunkedArray) -> float | None:
    return pc.mean(column).as_py()


def _over(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None
