"""A target that this machine cannot hold is refused at plan, from its files alone."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from click.testing import CliRunner

from pipeline import memory
from pipeline.cli import main
from pipeline.memory import check_memory
from pipeline.spec import load_spec
from workers.errors import UserError
from workers.targets.config import TransformerConfig
from workers.targets.digest import target_directory
from workers.targets.families.sdar import SDAR
from workers.targets.size import cache_bytes, parameter_count

# SDAR-8B; its published shards hold 16 381 470 720 bytes, two a number.
SHAPE = TransformerConfig(151936, 4096, 36, 32, 8, 128, 12288, 32768)
PARAMETERS = 16_381_470_720 // 2


@pytest.fixture
def spec_path(tmp_path: Path) -> Path:
    """A spec on a checkpoint of SDAR-8B's shape, of which only the headers are there."""
    (tmp_path / "config.json").write_text(json.dumps(SDAR.publish_config(SHAPE)))
    columns = {"embed": 4096, "out": 4096, "qkv": 4096, "gate_up": 4096, "down": 12288, "head": 4096}
    header = {"__metadata__": {"format": "pt"}}
    for ours, parts in SDAR.parts(SHAPE).items():
        width = next((columns[part] for part in ours.split(".") if part in columns), None)
        for name, rows in parts.items():
            shape = [rows, width] if width else [rows]
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]}
    text = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    (tmp_path / "tokenizer.json").touch()
    path = tmp_path / "spec.yaml"
    path.write_text("target: {checkpoint: ., name: big}\ntask: tiny-math\ndrafter: chain\nbudget: 4\nsamples: 1\n")
    return path


def machine(patch: pytest.MonkeyPatch, free_gb: float, gpu_gb: float | None = None) -> None:
    patch.delenv("RAY_ADDRESS", raising=False)
    patch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=int(free_gb * 1e9)))
    patch.setattr(memory, "gpu_memory", lambda: gpu_gb and int(gpu_gb * 1e9))


def test_the_headers_tell_the_published_size(spec_path: Path) -> None:
    assert parameter_count(target_directory(str(spec_path.parent))) == PARAMETERS
    assert cache_bytes(SHAPE, positions=1, width=2) == 147_456


def test_what_does_not_fit_names_what_is_needed_and_what_there_is(
    spec_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = load_spec(spec_path)
    machine(monkeypatch, free_gb=20)
    with pytest.raises(UserError, match="'big' needs about 33.1 GB .32.8 GB of weights in fp32., this machine .* 20.0 GB"):
        check_memory(spec)
    check_memory(spec, address="ray://elsewhere:10001")
    machine(monkeypatch, free_gb=20, gpu_gb=16)
    with pytest.raises(UserError, match="16.6 GB .16.4 GB of weights in bf16., a GPU of this machine has 16.0 GB"):
        check_memory(spec)
    machine(monkeypatch, free_gb=20, gpu_gb=24)
    check_memory(spec)
    machine(monkeypatch, free_gb=80)
    with pytest.raises(UserError, match="in each of 3 workers, .* 80.0 GB .*set execution.actors to 2"):
        check_memory(load_spec(spec_path, ["execution.actors=3"]))
    check_memory(load_spec(spec_path, ["execution.actors=2"]))

    machine(monkeypatch, free_gb=20)
    for command in (["plan"], ["submit"], ["submit", "--detach"]):
        result = CliRunner().invoke(main, [*command, str(spec_path), "--home", str(tmp_path / "home")])
        assert result.exit_code == 2 and "error: target 'big' needs about 33.1 GB" in result.output


def test_a_shard_without_header_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\x00" * 4)
    with pytest.raises(UserError, match="model.safetensors: truncated"):
        parameter_count(tmp_path)
