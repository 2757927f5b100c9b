"""The joint oracle: the target's own continuation, the ceiling of every drafter (SPOT, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.drafters import TargetInfo, reject_unknown
from workers.drafters.oracle import Oracle


def build(options: dict[str, Any], artifacts: Mapping[str, Path], target_info: TargetInfo) -> Oracle:
    reject_unknown("oracle-joint", options, ())
    return Oracle(true_positions=True, true_tokens=True)
