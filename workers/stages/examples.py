"""Order examples read from collected shards: (stale conditionals, first d true commits, next true position)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workers.drafters.features import TOP, Roots
from workers.errors import UserError


@dataclass(frozen=True)
class Trajectories:
    """All states of all samples, flattened: N masked positions in S states.

    probs fp16 [N, TOP], log_doubt fp16 [N], position uint16 [N], delay uint16 [N] as in a shard; offset int64 [S] of a
    state's first row, count int64 [S] its masked positions, sample int64 [S] indexes `sample_ids`.
    """

    probs: np.ndarray
    log_doubt: np.ndarray
    position: np.ndarray
    delay: np.ndarray
    offset: np.ndarray
    count: np.ndarray
    sample: np.ndarray
    sample_ids: list[str]
    block_length: int


@dataclass(frozen=True)
class Batch:
    """B roots with K prefixes each: taken bool [B, K, M], label and depth int64 [B, K]; M in order of preference."""

    roots: Roots
    taken: np.ndarray
    label: np.ndarray
    depth: np.ndarray


def read_shards(shards: Sequence[Path]) -> Trajectories:
    """Read shard.parquet of every directory in `shards`, in the order of sample ids whatever the sharding."""
    tables = [pq.read_table(Path(shard) / "shard.parquet") for shard in shards]
    table = pa.concat_tables(tables).sort_by("sample_id").combine_chunks() if tables else None
    if table is None or not table.num_rows:
        raise UserError("train: the collected shards hold no samples; collect at least one prompt")
    lengths = set(table["block_length"].to_pylist())
    if len(lengths) > 1:
        raise UserError(f"train: shards of different block lengths {sorted(lengths)} cannot be mixed")

    def flat(name: str) -> np.ndarray:
        return table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False)

    count = flat("counts").astype(np.int64)
    states = table["counts"].combine_chunks().value_lengths().to_numpy()
    probs = table["top_probs"].combine_chunks().flatten().flatten().to_numpy(zero_copy_only=False)
    return Trajectories(
        probs=probs.reshape(-1, TOP),
        log_doubt=flat("log_doubt"),
        position=flat("positions"),
        delay=flat("delays"),
        offset=np.cumsum(count) - count,
        count=count,
        sample=np.repeat(np.arange(table.num_rows), states),
        sample_ids=table["sample_id"].to_pylist(),
        block_length=lengths.pop(),
    )


def split_samples(sample_ids: Sequence[str], held_out: float, seed: int) -> np.ndarray:
    """Bool [samples]: held out. The smallest keyed hashes, at least one sample where there are two or more."""
    keys = [hashlib.blake2b(f"{seed}/{sample_id}".encode(), digest_size=8).hexdigest() for sample_id in sample_ids]
    wanted = min(max(1, round(held_out * len(keys))), len(keys) - 1)
    mask = np.zeros(len(keys), dtype=bool)
    mask[np.argsort(keys, kind="stable")[:wanted]] = True
    return mask


def usable_states(data: Trajectories) -> np.ndarray:
    """States worth drafting from once their own commit is made: at least two masks are left."""
    return np.flatnonzero(data.count >= 3)


def draw_depths(masked: int, d_max: int, rows: int, prefixes: int, rng: np.random.Generator) -> np.ndarray:
    """int64 [rows, prefixes] in 0 .. min(d_max, masked - 2), stratified and denser at shallow depths.

    Every root is seen at its own state and at deep prefixes; most nodes of a draft tree are shallow.
    """
    span = min(d_max, masked - 2) + 1
    part = (np.arange(prefixes) + rng.random((rows, prefixes))) / prefixes
    return np.minimum((part**2 * span).astype(np.int64), span - 1)


def make_batch(data: Trajectories, states: np.ndarray, depths: np.ndarray) -> Batch:
    """Examples from `states` [B] (all with the same count) at `depths` [B, K].

    The stale conditionals are those before the state's own commit, as while drafting: the root is the state after it.
    """
    masked = int(data.count[states[0]]) - 1
    rows = data.offset[states][:, None] + 1 + np.arange(masked)
    roots = Roots(
        probs=data.probs[rows],
        log_doubt=data.log_doubt[rows],
        index=data.position[rows].astype(np.int64),
        last=data.position[data.offset[states]].astype(np.int64),
        last_doubt=data.log_doubt[data.offset[states]],
        block_length=data.block_length,
    )
    delay, depth = data.delay[rows].astype(np.int64)[:, None, :], depths[..., None]
    return Batch(roots, taken=delay <= depth, label=(delay == depth + 1).argmax(-1), depth=depths)
