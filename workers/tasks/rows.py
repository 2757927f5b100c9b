"""Rows of a data set: from a local JSON Lines or Parquet file, or from the hub by name. Every mistake names its
line."""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workers.errors import UserError

Row = Mapping[str, Any]
Fields = Mapping[str, "type | tuple[type, ...]"]

SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")
_WORDS = {str: "text", int: "a whole number", list: "a list", dict: "an object"}


@dataclass(frozen=True)
class Hub:
    """A data set of the Hugging Face hub; `splits` maps our names of published splits to its own."""

    id: str
    config: str | None
    splits: Mapping[str, str]


@dataclass(frozen=True)
class Place:
    """Where a row stands, for messages."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


class HubRows(Sequence):
    """The rows of a data set of the hub, read when they are asked for; places count rows from 1."""

    def __init__(self, name: str, rows: Any) -> None:
        self._name, self._rows = name, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Place, Row]:
        if not 0 <= index < len(self._rows):
            raise IndexError(index)
        return Place(self._name, index + 1), self._rows[index]


def read_file(
    path: str | Path, owner: str, fields: Fields, keep: frozenset[str] | None = None
) -> list[tuple[Place, Row]]:
    """The rows of a file, with their places: line numbers, or row numbers (from 1) of a Parquet file.

    keep: the fields whose contents are wanted, None for all; the others are None, which saves memory. Raises
    UserError for a file that is not there, not UTF-8, not JSON Lines or Parquet, empty, or that lacks one of `fields`
    in a row, or has another type there; `owner` names the task or pool in the message.
    """
    path = Path(path)
    try:
        about = path.stat()
    except OSError as error:
        raise UserError(f"{path}: no such file; {owner} reads it ({error.strerror})") from None
    if path.is_dir() or not path.name.endswith(SUFFIXES):
        raise UserError(f"{path}: {owner} reads a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file")
    rows = _rows(path, about.st_mtime_ns, about.st_size, keep)
    if not rows:
        raise UserError(f"{path}: the file has no rows")
    for place, row in rows:
        check_row(place, row, owner, fields)
    return rows


def read_hub(hub: Hub, split: str, owner: str, fields: Fields) -> HubRows:
    """The rows of one published split. Raises UserError if neither the hub nor its cache has it."""
    rows = HubRows(f"{hub.id}[{split}]", _hub_rows(hub.id, hub.config, split))
    if len(rows):
        check_row(*rows[0], owner, fields)
    return rows


def check_row(place: Place, row: Any, owner: str, fields: Fields) -> None:
    """Raises UserError if `row` is no object or lacks a field of the given type."""
    if not isinstance(row, Mapping):
        raise UserError(f"{place}: a row is a JSON object, got {_short(row)}")
    for name, kind in fields.items():
        if name not in row:
            raise UserError(f"{place}: no field '{name}', which {owner} needs; the row has {', '.join(row) or 'none'}")
        if not isinstance(row[name], kind) or isinstance(row[name], bool):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            words = " or ".join(_WORDS[one] for one in kinds)
            raise UserError(f"{place}: field '{name}' should be {words}, got {_short(row[name])}")


@lru_cache(maxsize=16)
def _rows(path: Path, modified: int, size: int, keep: frozenset[str] | None) -> list[tuple[Place, Any]]:
    """The rows of a file of this time and size; a file that changes is read again."""
    found = _parquet_rows(path, keep) if path.name.endswith(".parquet") else _json_rows(path)
    if keep is None:
        return list(found)
    return [(place, _only(row, keep) if isinstance(row, dict) else row) for place, row in found]


def _only(row: dict[str, Any], keep: frozenset[str]) -> dict[str, Any]:
    return {name: value if name in keep else None for name, value in row.items()}


def _json_rows(path: Path) -> Iterator[tuple[Place, Any]]:
    opened = gzip.open(path) if path.name.endswith(".gz") else path.open("rb")
    number = 0
    try:
        with opened as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if text.strip():
                    yield Place(str(path), number), json.loads(text)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}:{number}: not UTF-8 text ({error.reason})") from None
    except ValueError as error:
        text = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise UserError(f"{path}:{number}: not a line of JSON: {text}") from None
    except (OSError, EOFError) as error:
        raise UserError(f"{path}:{number + 1}: cannot be read: {error}") from None


def _parquet_rows(path: Path, keep: frozenset[str] | None) -> Iterator[tuple[Place, Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        wanted = names if keep is None else [name for name in names if name in keep]
        empty = dict.fromkeys(names)
        number = 0
        for batch in file.iter_batches(columns=wanted):
            for row in batch.to_pylist():
                number += 1
                yield Place(str(path), number), {**empty, **row}
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a Parquet file that can be read: {_first_line(error)}") from None


@lru_cache(maxsize=16)
def _hub_rows(identifier: str, config: str | None, split: str) -> Any:
    """A `datasets.Dataset`: rows on disk, indexed."""
    _stay_offline_without_network()
    try:
        from datasets import load_dataset
        from datasets.utils.logging import disable_progress_bar

        disable_progress_bar()
        return load_dataset(identifier, config, split=split)
    except Exception as error:  # datasets and the hub client raise whatever their backends do
        home = os.environ.get("HF_HOME", "~/.cache/huggingface")
        raise UserError(
            f"the data set {identifier} can be had neither from the hub nor from its cache in {home} "
            f"({type(error).__name__}: {_first_line(error)[:120]}); name a local file under data: in the spec, or set "
            "HF_HOME to a folder that has it"
        ) from None


def _stay_offline_without_network() -> None:
    """Where the hub's name does not resolve, its client would retry for half a minute before it looks into the
    cache."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HF_HUB_OFFLINE")):
        return
    host = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        os.environ["HF_HUB_OFFLINE"] = "1"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
