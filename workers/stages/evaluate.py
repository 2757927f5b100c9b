"""evaluate: decode the samples of one cell and seed, one at a time, and report what it took."""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from workers.decoding.caches import EXACT_CACHES, resolve_cache
from workers.decoding.records import DecodeSettings
from workers.decoding.rules import LOSSLESS_RULES, canonical_rule
from workers.errors import UserError
from workers.stages import EvaluationResult, Inputs, StageSession, target_reference
from workers.stages.measure import (
    Setting,
    build_drafter,
    decode_sample,
    encode_samples,
    require_checks,
    resolve_floor,
    warm_up,
)
from workers.tasks import check_samples, get_task
from workers.verifiers import make_verifier

SAMPLES = pa.schema(
    [
        ("sample_id", pa.string()),
        ("prompt", pa.string()),
        ("prompt_tokens", pa.int32()),
        ("generated_tokens", pa.int32()),
        ("answer_tokens", pa.int32()),
        ("nfe", pa.int32()),
        ("nfe_answer", pa.float64()),
        ("store_passes", pa.int32()),
        ("wall_s", pa.float64()),
        ("draft_s", pa.float64()),
        ("forward_s", pa.float64()),
        ("lookahead_s", pa.float64()),
        ("journal_s", pa.float64()),
        ("correct", pa.bool_()),
        ("output", pa.string()),
        ("finish", pa.string()),
        ("tokens", pa.list_(pa.int32())),
        ("exact_ties", pa.int32()),
        ("near_ties", pa.int32()),
        ("metrics", pa.string()),  # JSON
    ]
)
ROUNDS = pa.schema(
    [
        ("sample_id", pa.string()),
        ("block", pa.int32()),
        ("round", pa.int32()),
        ("drafted", pa.int32()),
        ("accepted", pa.int32()),
        ("positions", pa.list_(pa.int32())),
        ("draft_s", pa.float64()),
        ("forward_s", pa.float64()),
        ("reject_cause", pa.string()),
        ("true_position_rank", pa.int32()),
        ("true_order_rank", pa.int32()),
        ("true_token_rank", pa.int32()),
        ("replicas", pa.int32()),
        *((name, pa.int32()) for name in ("masked", "certain", "levels", "level")),
        *((name, pa.int32()) for name in ("ahead_drafted", "ahead_accepted")),
        ("ahead_positions", pa.list_(pa.int32())),
        ("logit_error", pa.float64()),
    ]
)
_COUNTS = pa.list_(pa.int32())
BLOCKS = pa.schema(
    [
        ("sample_id", pa.string()),
        ("block", pa.int32()),
        *((name, pa.int32()) for name in ("commits", "compared", "stale_token", "stale_position", "exact_ties")),
        *((name, pa.int32()) for name in ("near_ties", "steps_compared", "roots_compared", "root_token")),
        *((name, pa.int32()) for name in ("root_position", "argmax", "doubtful")),
        ("probability", pa.float64()),
        *((name, _COUNTS) for name in ("coverage_roots", "covered_1", "covered_2", "covered_4", "covered_8")),
        *((name, _COUNTS) for name in ("covered_positions", "doubtful_covered", "mass_drafted", "mass_accepted")),
        ("mass_sum", pa.list_(pa.float64())),
    ]
)


class Journal:
    """Finished samples on disk, one JSON line each, so that a killed run goes on where it stopped.

    `segment` is the number of the process segment now writing: 1 in a run that was never interrupted. Without a path
    nothing is kept.
    """

    def __init__(self, path: Path | None):
        self.path = path
        self.done: dict[str, dict[str, Any]] = {}
        sound = 0
        if path is not None and path.exists():
            for line in path.read_bytes().splitlines(keepends=True):
                # The line that a kill cut short is decoded again.
                if not line.endswith(b"\n"):
                    break
                try:
                    entry = json.loads(line)
                except ValueError:
                    break
                self.done[entry["sample"]["sample_id"]] = entry
                sound += len(line)
            os.truncate(path, sound)
        self.segment = 1 + max((entry["segment"] for entry in self.done.values()), default=0)

    def add(self, entry: dict[str, Any]) -> None:
        entry = {"segment": self.segment, **entry}
        self.done[entry["sample"]["sample_id"]] = entry
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
                file.flush()
                os.fsync(file.fileno())


def run(params: dict[str, Any], inputs: Inputs, out: Path | None, session: StageSession) -> EvaluationResult:
    """Evaluate one cell and seed. Scoring comes after the timed loop; a resumed run sums over all its samples.

    Raises UserError if the task would execute code without leave, its samples are not the planned ones, or a prompt
    does not fit the target.
    """
    if "check" in inputs:
        require_checks(Path(inputs["check"]))
    task = get_task(params["task"], params.get("data"))
    if task.executes_code and not params.get("allow_code_execution", False):
        raise UserError(
            f"allow_code_execution: task {task.name} runs the generated programs to score them; "
            "set allow_code_execution: true in the spec to allow it"
        )
    target = session.target(target_reference(params, inputs), params["block_length"])
    samples = task.samples(params["split"], params["first"], params["samples"])
    check_samples(task, samples, *params.get("sample_digests") or [None])
    prompts = encode_samples(target, samples, params["generation_length"])
    floor = resolve_floor(params["floor"], inputs)
    setting = Setting(
        target=target,
        settings=DecodeSettings(
            generation_length=params["generation_length"],
            stop=params["stop"],
            budget=params["budget"],
            padded=params["padded"],
            layout=params["layout"],
            temperature=params["temperature"],
            commit_rule=params["commit_rule"],
            cache=params["cache"],
            check_logits=params.get("check_logits", False),
        ),
        drafter=build_drafter(params["drafter"], params.get("drafter_options") or {}, floor, inputs, target),
        verifier=make_verifier(params["verifier"]),
        seed=params["seed"],
    )

    journal = Journal(session.journal)
    warmup_s = 0.0
    for sample, prompt in zip(samples, prompts):
        if sample.id in journal.done:
            continue
        if not warmup_s:
            warmup_s = warm_up(setting, prompt)
        journal.add(decode_sample(setting, sample.id, prompt))
        done = [entry["sample"] for entry in journal.done.values()]
        session.progress(len(done), len(samples), tok_s=_tok_s(done), nfe=fmean(row["nfe"] for row in done))

    entries = [journal.done[sample.id] for sample in samples]
    rows = [entry["sample"] for entry in entries]
    scores = []
    for sample, row in zip(samples, rows):
        row["prompt"] = sample.prompt
        row["output"] = target.decode(row["tokens"][: row["answer_tokens"]])
        scores.append(task.score(sample, row["output"]))
        row["correct"] = scores[-1].correct
        row["metrics"] = json.dumps(scores[-1].metrics) if scores[-1].metrics else None
    # Drafts change nothing: the tokens are those of the control of this cache and commit rule, or follow their law.
    drafts_exact = setting.verifier.exact(params["temperature"]) and not setting.drafter.inter_blocks
    summary = {
        **summarise(entries),
        "metrics": {name: fmean(score.metrics[name] for score in scores) for name in scores[0].metrics} or None,
        "floor": floor,
        "warmup_s": warmup_s,
        "distribution_preserving": (
            resolve_cache(params["cache"], target.attention) in EXACT_CACHES
            and canonical_rule(params["commit_rule"]) in LOSSLESS_RULES
            and drafts_exact
        ),
        "drafts_exact": drafts_exact,
    }
    rounds = [row for entry in entries for row in entry["rounds"]]
    blocks = [{"sample_id": entry["sample"]["sample_id"], **block} for entry in entries for block in entry["blocks"]]
    return EvaluationResult(
        summary,
        pa.Table.from_pylist(rows, SAMPLES),
        pa.Table.from_pylist(rounds, ROUNDS),
        pa.Table.from_pylist(blocks, BLOCKS),
    )


def summarise(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of a run: means over samples, tok_s pooled, shares over commits, accepted over the rounds that drafted."""
    rows = [entry["sample"] for entry in entries]
    blocks = [block for entry in entries for block in entry["blocks"]]
    accepted = [[r["accepted"] for r in entry["rounds"] if r["drafted"] > 0] for entry in entries]
    commits = sum(block["commits"] for block in blocks)
    compared = max(1, sum(block["compared"] for block in blocks))
    return {
        "n_samples": len(rows),
        "accuracy": fmean(row["correct"] for row in rows),
        "nfe": fmean(row["nfe"] for row in rows),
        "tok_s": _tok_s(rows),
        "wall_s": sum(row["wall_s"] for row in rows),
        "segments": max(entry["segment"] for entry in entries),
        "accepted_per_round_pooled": sum(map(sum, accepted)) / max(1, sum(map(len, accepted))),
        "accepted_per_round_mean": fmean([sum(values) / len(values) for values in accepted if values] or [0.0]),
        "exact_tie_share": sum(block["exact_ties"] for block in blocks) / commits,
        "near_tie_share": sum(block["near_ties"] for block in blocks) / commits,
        "stale_token_share": sum(block["stale_token"] for block in blocks) / compared,
        "stale_position_share": sum(block["stale_position"] for block in blocks) / compared,
    }


def _tok_s(rows: list[dict[str, Any]]) -> float:
    return sum(row["generated_tokens"] for row in rows) / sum(row["wall_s"] for row in rows)
