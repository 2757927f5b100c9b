"""Verification cost curves: what is measured, and the files of them that the repository holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt
from ruamel.yaml import YAML
from targets_for_tests import random_target

from benchmarks.curve import measure

DEVICES = sorted(Path("specs/devices").glob("*.yaml"))


class Point(BaseModel):
    model_config = ConfigDict(extra="forbid")
    block_length: PositiveInt
    context: PositiveInt
    layout: str
    replicas: PositiveInt
    median: PositiveFloat
    low: PositiveFloat
    high: PositiveFloat


class Curve(BaseModel):
    model_config = ConfigDict(extra="forbid")
    target: str
    parameters: PositiveInt
    device: str
    threads: PositiveInt
    dtype: str
    versions: dict[str, str]
    measured: str
    repeat: PositiveInt
    weight_bytes: PositiveInt
    copy_bytes_per_s: PositiveInt
    draft_free_tok_s: PositiveFloat
    bandwidth_floor_tok_s: PositiveFloat
    forward_ms: list[Point]


def settings(curve: Curve) -> set[tuple]:
    return {(p.block_length, p.context, p.layout, p.replicas) for p in curve.forward_ms}


def test_a_curve_holds_every_setting_that_fits_the_target() -> None:
    target = random_target(block_length=8)
    curve = Curve(**measure(target, 2, (1, 3), (4, 8), (16, 10**6)))
    last = target.max_positions
    contexts = {4: (16, (last - 4) // 4 * 4), 8: (16, (last - 8) // 8 * 8)}
    assert settings(curve) == {
        (block, context, layout, replicas)
        for block, held in contexts.items()
        for context in held
        for layout in ("batch", "concat")
        for replicas in (1, 3)
    }
    assert all(point.low <= point.median <= point.high for point in curve.forward_ms)
    read = sum(p.numel() for name, p in target.model.named_parameters() if name != "embed.weight")
    assert curve.weight_bytes == read * torch.finfo(target.dtype).bits // 8


@pytest.mark.parametrize("path", DEVICES, ids=lambda path: path.stem)
def test_shipped_curves_are_whole(path: Path) -> None:
    curve = Curve(**YAML(typ="safe").load(path))
    blocks, contexts, layouts, replicas = map(set, zip(*settings(curve)))
    assert replicas == set(range(1, 22)) and blocks == {16, 32} and layouts == {"batch", "concat"}
    assert len(curve.forward_ms) == len(settings(curve)) == 2 * 3 * 2 * 21
