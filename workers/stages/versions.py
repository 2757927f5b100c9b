"""Stage versions: part of a node's identity. Raise one when the stage's output changes for the same settings."""

from __future__ import annotations

STAGE_VERSIONS: dict[str, int] = {
    "pretrain": 1,
    "collect": 1,
    "train": 2,
    "calibrate-spiffy": 1,
    "calibrate-floor": 1,
    "check-rejection": 1,
    "evaluate": 2,
}
