"""Every family goes the whole way from a made checkpoint: collect, train, calibrate, evaluate, plan."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.graph import build_graph
from pipeline.spec import load_spec
from workers.stages import run_stage
from workers.targets.families import FAMILIES
from workers.targets.load import load_target
from workers.targets.make_checkpoint import make_checkpoint

SMOKE = Path(__file__).parent.parent / "specs" / "smoke.yaml"
BLOCK = 8
POOLS = [{"task": "tiny-math", "split": "calibration", "first": 0, "count": 2}]


class Session:
    """A worker that loads what it is asked for and keeps it."""

    device, dtype, journal = "cpu", "float32", None

    def __init__(self) -> None:
        self._targets = {}

    def target(self, reference, block_length):
        key = (str(reference), block_length)
        if key not in self._targets:
            self._targets[key] = load_target(reference, block_length, self.device, self.dtype)
        return self._targets[key]

    def progress(self, done, total, **figures):
        pass


@pytest.mark.parametrize("family", FAMILIES)
def test_a_made_checkpoint_goes_through_every_stage(tmp_path, family):
    reference = {"checkpoint": str(make_checkpoint(family, tmp_path / "checkpoint")), "name": family}
    full = FAMILIES[family].attention == "full"
    session = Session()

    def stage(kind, params, **inputs):
        out = tmp_path / kind
        out.mkdir()
        run_stage(kind, params, inputs, out, session)
        return out

    decoding = {"target": reference, "block_length": BLOCK, "generation_length": 12, "pools": POOLS}
    shard = stage("collect", {**decoding, "batch": 3, "seed": 0})
    for row in pq.read_table(shard / "shard.parquet").to_pylist():
        first = len(row["prompt_tokens"]) if full else len(row["prompt_tokens"]) // BLOCK * BLOCK
        end = first + -(-(len(row["prompt_tokens"]) + 12 - first) // BLOCK) * BLOCK
        assert sorted(row["commits"]) == list(range(len(row["prompt_tokens"]), end))
    training = {"layers": 1, "width": 16, "heads": 2, "d_max": 3, "epochs": 1, "lr": 1e-3, "batch": 32, "held_out": 0.5}
    model = stage("train", {**training, "seed": 0}, shards=[shard])
    spiffy = stage("calibrate-spiffy", {**decoding, "nodes": 6, "lookahead": 3})
    cost = {"replica": 0.1, "level": 0.05}
    floor = stage("calibrate-floor", {**decoding, "grid": [0.0, 0.1], "budgets": [4], "cost": cost}, order_model=model)

    evaluation = {
        "target": reference,
        "task": "tiny-math",
        "split": "test",
        "first": 0,
        "samples": 1,
        "drafter_options": {},
        "padded": False,
        "temperature": 1.0,
        "commit_rule": "single",
        "layout": "concat",
        "stop": "fill",
        "generation_length": 12,
        "block_length": BLOCK,
        "seed": 0,
    }
    for cache in ("approximate-prefix", "dual") if full else ("prefix",):
        control = {"drafter": "none", "verifier": "none", "budget": 0, "floor": 0.0}
        spot = {"drafter": "spot", "verifier": "coupled", "budget": 4, "floor": "calibrated"}
        graph = {"drafter": "spiffy", "verifier": "coupled", "budget": 4, "floor": 0.0}
        inputs = {"order_model": model, "spiffy": spiffy, "floor": floor}
        runs = [
            run_stage("evaluate", {**evaluation, **method, "cache": cache}, inputs, None, session)
            for method in (control, spot, graph)
        ]
        tokens = [run.samples["tokens"].to_pylist() for run in runs]
        assert tokens[0] == tokens[1] == tokens[2]
        mask_id = session.target(reference, BLOCK).mask_id
        assert all(mask_id not in row for row in tokens[0])
        assert all(run.summary["distribution_preserving"] == (cache == "prefix") for run in runs)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_smoke_spec_takes_any_checkpoint(tmp_path, family):
    directory = make_checkpoint(family, tmp_path / "checkpoint")
    graph = build_graph(load_spec(SMOKE, [f"target={{checkpoint: {directory}, name: {family}}}"]))
    caches = {node.cell["cache"] for node in graph.nodes if node.cell}
    assert caches == {"approximate-prefix" if FAMILIES[family].attention == "full" else "prefix"}
    assert {node.kind for node in graph.nodes} == {"collect", "train", "calibrate-spiffy", "calibrate-floor", "evaluate"}
