"""collect: draft-free trajectories with the stale distributions the order model learns from (SPOT, appendix C.1).

One shard holds one row per sample, one row group per batch of prompts:

    sample_id, pool, split, block_length, prompt_tokens [P], tokens [G], commits [G] (absolute positions in commit order)
    counts [S]       masked positions of every state, in commit order; a block's states count down to 1
    positions [N]    N = sum of counts; the masked positions of every state by falling confidence, ties to the lowest
                     index, so that the first one of a state is its commit
    delays [N]       commits from that state until the position is filled; 0 for the state's own commit
    log_doubt [N]    fp16 log(1 - p1); fp16 probabilities alone lose 1 - p near certainty
    top_probs [N]    fp16 lists of the top-32 probabilities, descending
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from workers.decoding.conditionals import TOP
from workers.stages import Inputs, StageSession, target_reference
from workers.stages.trajectories import BatchStep, Prompt, decode_batch, group, load_prompts
from workers.tasks import get_task
from workers.tasks.overlap import overlaps

if TYPE_CHECKING:
    from workers.targets.target import Target

SCHEMA = pa.schema(
    [
        ("sample_id", pa.string()),
        ("pool", pa.string()),
        ("split", pa.string()),
        ("block_length", pa.int32()),
        ("prompt_tokens", pa.list_(pa.int32())),
        ("tokens", pa.list_(pa.int32())),
        ("commits", pa.list_(pa.int32())),
        ("counts", pa.list_(pa.uint16())),
        ("positions", pa.list_(pa.uint16())),
        ("delays", pa.list_(pa.uint16())),
        ("log_doubt", pa.list_(pa.float16())),
        ("top_probs", pa.list_(pa.list_(pa.float16(), TOP))),
    ]
)


class Recorder:
    """Gathers one sample's states block by block."""

    def __init__(self, prompt: Prompt, target: Target):
        self.prompt = prompt
        self.length = target.block_length
        self.first = target.span(len(prompt.tokens), 1)[0]
        self.commits: list[int] = []
        self.values: list[int] = []
        self.order: list[np.ndarray] = []
        self.doubts: list[np.ndarray] = []
        self.probs: list[np.ndarray] = []

    def add(self, step: BatchStep, row: int, log_doubt: np.ndarray, probs: np.ndarray) -> None:
        """One commit of this trajectory, `row` of the batch; log_doubt [B, L], probs [B, L, TOP] of the forward behind
        it."""
        index = np.flatnonzero(step.masked[row])
        order = index[np.argsort(-step.confidence[row, index], kind="stable")]
        start = self.first + step.block * self.length
        self.commits.append(start + int(step.position[row]))
        self.values.append(int(step.token[row]))
        self.order.append(order)
        self.doubts.append(log_doubt[row, order])
        self.probs.append(probs[row, order])

    def row(self) -> dict[str, Any]:
        """The whole trajectory as a row of SCHEMA."""
        filled_at = {position: step for step, position in enumerate(self.commits)}
        delays = []
        for step, (commit, order) in enumerate(zip(self.commits, self.order)):
            start = commit - (commit - self.first) % self.length
            delays.append([filled_at[start + int(position)] - step for position in order])
        by_position = sorted(zip(self.commits, self.values))
        probs = np.concatenate(self.probs)
        return {
            "sample_id": self.prompt.sample.id,
            "pool": self.prompt.pool,
            "split": self.prompt.split,
            "block_length": self.length,
            "prompt_tokens": self.prompt.tokens,
            "tokens": [token for _, token in by_position],
            "commits": self.commits,
            "counts": [len(order) for order in self.order],
            "positions": np.concatenate(self.order),
            "delays": np.concatenate(delays),
            "log_doubt": np.concatenate(self.doubts),
            "top_probs": pa.FixedSizeListArray.from_arrays(pa.array(probs.reshape(-1)), TOP),
        }


def record_batch(target: Target, prompts: list[Prompt], generation_length: int) -> pa.Table:
    """The trajectories of one batch of `group`, as rows of SCHEMA."""
    recorders = [Recorder(prompt, target) for prompt in prompts]
    for step in decode_batch(target, [prompt.tokens for prompt in prompts], generation_length):
        log_doubt, probs = _stale(step)
        for row in np.flatnonzero(step.active):
            recorders[row].add(step, row, log_doubt, probs)
    rows = [recorder.row() for recorder in recorders]
    columns = []
    for field in SCHEMA:
        if field.name == "top_probs":
            lists = [row["top_probs"] for row in rows]
            offsets = np.cumsum([0] + [len(values) for values in lists]).astype(np.int32)
            columns.append(pa.ListArray.from_arrays(pa.array(offsets), pa.concat_arrays(lists)).cast(field.type))
        else:
            columns.append(pa.array([row[field.name] for row in rows], type=field.type))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _stale(step: BatchStep) -> tuple[np.ndarray, np.ndarray]:
    """fp16 log(1 - p1) [B, L] and top probabilities [B, L, TOP], zero-padded for small vocabularies."""
    logits = step.logits
    total = logits.logsumexp(dim=-1, keepdim=True)
    values, tokens = logits.topk(min(TOP, logits.shape[-1]), dim=-1)
    probs = torch.exp(values - total).half()
    probs = torch.nn.functional.pad(probs, (0, TOP - probs.shape[-1]))
    rest = logits.scatter(-1, tokens[..., :1], -torch.inf).logsumexp(dim=-1)
    return (rest - total[..., 0]).half().cpu().numpy(), probs.cpu().numpy()


def run(params: dict[str, Any], inputs: Inputs, out: Path, session: StageSession) -> dict[str, Any]:
    """Write shard.parquet; params: target, block_length, generation_length, pools, batch.

    `compared`, if given, are pools of evaluated samples; their overlap with the prompts is reported. Prompts that do not
    fit the target are left out and counted.
    """
    target = session.target(target_reference(params, inputs), params["block_length"])
    prompts = load_prompts(target, params)
    lengths = [len(prompt.tokens) for prompt in prompts]
    batches = group(lengths, params["generation_length"], target.block_length, params["batch"], target.attention)
    done = tokens = states = 0
    with pq.ParquetWriter(out / "shard.parquet", SCHEMA, compression="zstd") as writer:
        for batch in batches:
            table = record_batch(target, [prompts[index] for index in batch], params["generation_length"])
            writer.write_table(table)
            done += len(batch)
            tokens += sum(len(row) for row in table["tokens"].to_pylist())
            states += sum(len(row) for row in table["counts"].to_pylist())
            session.progress(done, len(prompts), tokens=tokens)
    summary = {"samples": done, "tokens": tokens, "states": states, "pools": params["pools"]}
    summary["too_long"] = sum(pool["count"] for pool in params["pools"]) - done
    return {**summary, **_overlap(prompts, params)}


def _overlap(prompts: list[Prompt], params: dict[str, Any]) -> dict[str, Any]:
    evaluated = {
        pool["task"]: get_task(pool["task"], params.get("data")).samples(pool["split"], pool["first"], pool["count"])
        for pool in params.get("compared", ())
    }
    found = overlaps([prompt.sample for prompt in prompts], evaluated)
    return {"overlap": [asdict(overlap) for overlap in found]} if found else {}
