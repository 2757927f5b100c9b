"""How much memory a target takes, from its files alone (no torch)."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

from workers.errors import UserError
from workers.targets.config import TransformerConfig
from workers.targets.digest import weight_files

HEADER_LIMIT = 100_000_000


def parameter_count(directory: Path) -> int:
    """Numbers in the safetensors files of a checkpoint, from their headers; raises UserError if one has none."""
    return sum(math.prod(entry["shape"]) for path in weight_files(directory) for entry in _header(path).values())


def cache_bytes(config: TransformerConfig, positions: int, width: int) -> int:
    """Keys and values of that many positions, `width` bytes a number."""
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim * positions * width


def _header(path: Path) -> dict:
    """Tensor name -> dtype, shape and place in the file (safetensors: 8 bytes of length, then JSON)."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > HEADER_LIMIT:
                raise ValueError("no header")
            header = json.loads(file.read(length))
        return {name: entry for name, entry in header.items() if name != "__metadata__"}
    except (OSError, ValueError, struct.error, AttributeError) as error:
        raise UserError(f"{path}: truncated or not a safetensors file ({error}); fetch it again") from None
