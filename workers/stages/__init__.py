"""Stages: what one node of the task graph does on one worker. Each runs as a plain function call."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from workers.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

    from workers.targets.target import Target

KINDS = ("pretrain", "collect", "train", "calibrate-spiffy", "calibrate-floor", "check-rejection", "evaluate")

Inputs = Mapping[str, "Path | list[Path]"]


class StageSession(Protocol):
    """What the worker lends a stage: loaded targets, a place to report progress, its device.

    `journal` lets a killed evaluate or pretrain go on: a file of one JSON line per finished sample, or of a lock only,
    with the checkpoint beside it.
    """

    device: str
    dtype: str
    journal: Path | None

    def target(self, reference: dict | str, block_length: int) -> Target:
        """The target, loaded once per worker. Raises UserError."""
        ...

    def progress(self, done: int, total: int, **figures: float) -> None:
        """`done` of `total` samples, prompts or steps are through; figures are shown beside it."""
        ...


@dataclass(frozen=True)
class EvaluationResult:
    """One run: its figures, one row per sample, per round and per block."""

    summary: dict[str, Any]
    samples: pa.Table
    rounds: pa.Table
    blocks: pa.Table


def target_reference(params: Mapping[str, Any], inputs: Inputs) -> dict | str:
    """What to load: the target that a pretrain node upstream has made, else the one the parameters name."""
    if "target" not in inputs:
        return params["target"]
    given = params["target"]
    return {"checkpoint": str(inputs["target"]), "name": given if isinstance(given, str) else given["name"]}


def run_stage(
    kind: str, params: Mapping[str, Any], inputs: Inputs, out: Path, session: StageSession
) -> dict[str, Any] | EvaluationResult:
    """Run one stage; artifact stages write files into the fresh directory `out` and return a JSON-able summary.

    Raises UserError for an unknown kind and for parameters no run can satisfy.
    """
    if kind not in KINDS:
        raise UserError(f"stage {kind!r} is unknown; choose one of {', '.join(KINDS)}")
    module = importlib.import_module(f"workers.stages.{kind.replace('-', '_')}")
    return module.run(dict(params), inputs, out, session)
