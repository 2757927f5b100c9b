"""The columns of a run, its samples, rounds and blocks, and the conversion of what a caller hands over into them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.errors import WarehouseError

CELL_COLUMNS = (
    "target", "task", "method", "drafter", "verifier", "budget", "floor", "padded", "temperature", "commit_rule",
    "cache", "layout", "stop", "generation_length", "block_length",
)  # fmt: skip
STATUSES = ("ok", "failed")

RUN_SCHEMA = pa.schema([
    *((name, pa.string()) for name in ("run_id", "experiment", "identity")),
    *((name, pa.string()) for name in ("target", "task", "method", "drafter", "verifier")),
    ("budget", pa.int32()), ("floor", pa.float64()), ("padded", pa.bool_()), ("temperature", pa.float64()),
    *((name, pa.string()) for name in ("commit_rule", "cache", "layout", "stop")),
    ("generation_length", pa.int32()), ("block_length", pa.int32()),
    ("seed", pa.int64()), ("attempt", pa.int32()), ("status", pa.string()), ("reason", pa.string()),
    ("n_samples", pa.int32()),
    *((name, pa.string()) for name in ("split", "sample_digest", "sample_set", "target_digest", "floor_setting")),
    ("limited", pa.bool_()), ("segments", pa.int32()), ("device_class", pa.string()), ("dtype", pa.string()),
    ("distribution_preserving", pa.bool_()),
    *((name, pa.float64()) for name in (
        "accuracy", "nfe", "nfe_answer", "tok_s", "answer_tok_s", "wall_s", "warmup_s", "accepted_per_round_pooled",
        "accepted_per_round_mean", "exact_tie_share", "near_tie_share", "stale_token_share", "stale_position_share",
    )),
    ("started_at", pa.timestamp("us")), ("git_commit", pa.string()), ("versions", pa.string()), ("extra", pa.string()),
])  # fmt: skip
REQUIRED = ("run_id", "identity", *(name for name in CELL_COLUMNS if name != "floor"), "seed", "attempt")

_TOKENS = pa.list_(pa.int32())
SAMPLE_SCHEMA = pa.schema([
    ("sample_id", pa.string()), ("prompt", pa.string()), ("prompt_tokens", pa.int32()),
    ("generated_tokens", pa.int32()), ("answer_tokens", pa.int32()), ("nfe", pa.float64()),
    ("nfe_answer", pa.float64()), ("store_passes", pa.int32()), ("wall_s", pa.float64()), ("draft_s", pa.float64()),
    ("forward_s", pa.float64()), ("correct", pa.bool_()), ("output", pa.string()), ("finish", pa.string()),
    ("tokens", _TOKENS), ("exact_ties", pa.int32()), ("near_ties", pa.int32()), ("metrics", pa.string()),
    ("lookahead_s", pa.float64()), ("journal_s", pa.float64()),
])  # fmt: skip
ROUND_SCHEMA = pa.schema([
    ("sample_id", pa.string()), ("block", pa.int32()), ("round", pa.int32()), ("drafted", pa.int32()),
    ("accepted", pa.int32()), ("positions", _TOKENS), ("draft_s", pa.float64()), ("forward_s", pa.float64()),
    ("reject_cause", pa.string()),
    *((name, pa.int32()) for name in (
        "true_position_rank", "true_order_rank", "true_token_rank", "replicas", "masked", "certain", "levels", "level",
        "ahead_drafted", "ahead_accepted",
    )),
    ("ahead_positions", _TOKENS),
    ("logit_error", pa.float64()),
])  # fmt: skip
BLOCK_SCHEMA = pa.schema([
    ("sample_id", pa.string()),
    *((name, pa.int32()) for name in (
        "block", "commits", "compared", "stale_token", "stale_position", "exact_ties", "near_ties", "steps_compared",
        "roots_compared", "root_token", "root_position", "argmax",
    )),
    ("probability", pa.float64()),
    *((name, pa.list_(pa.int32())) for name in (
        "coverage_roots", "covered_1", "covered_2", "covered_4", "covered_8", "covered_positions", "mass_drafted",
        "mass_accepted",
    )),
    ("mass_sum", pa.list_(pa.float64())), ("doubtful", pa.int32()), ("doubtful_covered", pa.list_(pa.int32())),
])  # fmt: skip


def conform(table: pa.Table | None, schema: pa.Schema, what: str) -> pa.Table:
    """`table` with every column of `schema`, in its types; missing columns are NULL, extra ones are kept at the end.

    NaN and infinities become NULL. Raises WarehouseError where `sample_id` is missing or a type does not fit.
    """
    if table is None:
        return schema.empty_table()
    if "sample_id" not in table.column_names:
        raise WarehouseError(f"{what} need a sample_id column")
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for field in schema:
        if field.name in table.column_names:
            try:
                columns[field.name] = _finite(table[field.name].cast(field.type))
            except pa.ArrowInvalid as error:
                raise WarehouseError(f"{what}: column {field.name} is not {field.type}: {error}") from None
        else:
            columns[field.name] = pa.nulls(table.num_rows, field.type)
    for name in table.column_names:
        if name not in columns:
            columns[name] = _finite(table[name])
    return pa.table(columns)


def run_row(run: Mapping[str, Any], samples: pa.Table, figures: Mapping[str, float | int | None]) -> dict[str, Any]:
    """The run as one row of RUN_SCHEMA.

    `figures` (from the samples and rounds) fill what `run` does not state. Keys that are no column go to `extra` as
    JSON. A `floor` that is not a number (such as "calibrated") goes to `floor_setting`. Raises WarehouseError.
    """
    missing = [name for name in REQUIRED if run.get(name) is None]
    if missing:
        raise WarehouseError(f"run {run.get('run_id', '?')}: missing {', '.join(missing)}")
    given = dict(run)
    if isinstance(given.get("floor"), str):
        given.setdefault("floor_setting", given["floor"])
        given["floor"] = None
    extra = {name: given.pop(name) for name in list(given) if name not in RUN_SCHEMA.names}
    row: dict[str, Any] = {name: None for name in RUN_SCHEMA.names}
    row |= {"status": "ok", "limited": False, "segments": 1, "sample_set": sample_set(samples)}
    row |= {name: value for name, value in figures.items() if name in row}
    row |= {name: value for name, value in given.items() if value is not None}
    if extra:
        row["extra"] = extra
    for name in row:
        row[name] = _value(row["run_id"], name, row[name])
    if row["status"] not in STATUSES:
        raise WarehouseError(f"run {row['run_id']}: status {row['status']!r} is not one of {', '.join(STATUSES)}")
    return row


def sample_set(samples: pa.Table) -> str:
    """A digest of the set of sample ids, so that only runs over the same samples are paired."""
    ids = sorted(samples["sample_id"].to_pylist())
    return hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16]


def _value(run_id: str, name: str, value: Any) -> Any:
    kind = RUN_SCHEMA.field(name).type
    if value is None:
        return None
    try:
        if name in ("versions", "extra") and not isinstance(value, str):
            return json.dumps(value, sort_keys=True, default=str)
        if name == "started_at":
            return _time(value)
        if pa.types.is_floating(kind):
            return float(value) if math.isfinite(value) else None
        if pa.types.is_boolean(kind):
            if not isinstance(value, (bool, int)) or int(value) not in (0, 1):
                raise ValueError("not a truth value")
            return bool(value)
        if pa.types.is_integer(kind):
            if int(value) != value:
                raise ValueError("not a whole number")
            return int(value)
        return str(value)
    except (TypeError, ValueError) as error:
        raise WarehouseError(f"run {run_id}: {name} = {value!r} does not fit {kind}: {error}") from None


def _time(value: Any) -> datetime:
    if isinstance(value, (int, float)):
        value = datetime.fromtimestamp(value, timezone.utc)
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment.astimezone(timezone.utc).replace(tzinfo=None) if moment.tzinfo else moment


def _finite(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
