"""One durable Parquet file per finished run: the truth from which the warehouse can be rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.columns import BLOCK_SCHEMA, ROUND_SCHEMA, RUN_SCHEMA, SAMPLE_SCHEMA
from warehouse.layout import replace_durably

_COUNTS = ("n_samples", "n_rounds", "n_blocks")


@dataclass(frozen=True)
class Record:
    """A run as written: its row (RUN_SCHEMA), its samples, its rounds and its blocks (extra columns allowed)."""

    run: dict[str, Any]
    samples: pa.Table
    rounds: pa.Table
    blocks: pa.Table

    @property
    def parts(self) -> dict[str, pa.Table]:
        """The tables of several rows, by the name of the column and of the database table that holds them."""
        return {"samples": self.samples, "rounds": self.rounds, "blocks": self.blocks}


def write_record(path: Path, record: Record) -> None:
    """Write `record` as one row with nested lists `samples`, `rounds` and `blocks`, atomically and durably. Raises OSError."""
    row = pa.Table.from_pylist([record.run], schema=RUN_SCHEMA)
    for name, table in record.parts.items():
        row = row.append_column(name, _nest(table))
    counts = [str(table.num_rows) for table in record.parts.values()]
    row = row.replace_schema_metadata(dict(zip(_COUNTS, counts, strict=True)))
    temporary = path.with_name(f".{path.name}.tmp")
    pq.write_table(row, temporary, compression="zstd", write_page_checksum=True)
    replace_durably(temporary, path)


def record_counts(path: Path) -> tuple[int, int, int]:
    """Numbers of samples, rounds and blocks, from the footer alone; older records have no blocks.

    Raises pyarrow.ArrowException, KeyError or OSError.
    """
    metadata = {b"n_blocks": b"0"} | (pq.read_metadata(path).metadata or {})
    samples, rounds, blocks = (int(metadata[name.encode()]) for name in _COUNTS)
    return samples, rounds, blocks


def read_record(path: Path) -> Record:
    """Read one record, verifying page checksums. Raises pyarrow.ArrowException or OSError where it is damaged."""
    table = pq.ParquetFile(path, page_checksum_verification=True).read()
    run = table.select([name for name in RUN_SCHEMA.names if name in table.column_names]).to_pylist()[0]
    blocks = _unnest(table["blocks"], BLOCK_SCHEMA) if "blocks" in table.column_names else BLOCK_SCHEMA.empty_table()
    return Record(run, _unnest(table["samples"], SAMPLE_SCHEMA), _unnest(table["rounds"], ROUND_SCHEMA), blocks)


def _nest(table: pa.Table) -> pa.ListArray:
    columns = [column.combine_chunks() for column in table.columns]
    rows = pa.StructArray.from_arrays(columns, fields=list(table.schema))
    return pa.ListArray.from_arrays(pa.array([0, table.num_rows], pa.int32()), rows)


def _unnest(column: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    rows = column.combine_chunks().flatten()
    table = pa.Table.from_struct_array(rows)
    return table if table.num_columns else schema.empty_table()
