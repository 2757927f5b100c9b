"""The verification cost curve of a target on this device: seconds of a forward by replicas, block length and context.

    python -m benchmarks.curve TARGET [--device cuda] [--threads 1] [--out specs/devices/NAME.yaml]

TARGET is a packaged target or a checkpoint directory (`make-checkpoint` writes one with random weights, whose
speed is the same). Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import platform
from dataclasses import replace
from datetime import date
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from benchmarks.decode import as_a_worker, require_device, times
from workers.actor import cpu_model
from workers.decoding.context import make_context
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings
from workers.drafters import TargetInfo, make_drafter
from workers.errors import UserError
from workers.targets.load import load_target
from workers.targets.target import Target
from workers.targets.transformer import Transformer
from workers.verifiers import make_verifier

REPLICAS = tuple(range(1, 22))
SHOWN = (1, 2, 3, 5, 9, 13, 17, 21)
BLOCK_LENGTHS = (16, 32)
CONTEXTS = (512, 1024, 2048)
COPIED_BYTES = 1 << 28


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default=None, help="float32 on CPUs, bfloat16 on GPUs unless given")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="few settings, to try the command; not a measurement")
    arguments = parser.parse_args()
    as_a_worker("benchmarks.curve", arguments.threads)
    dtype = arguments.dtype or ("float32" if arguments.device == "cpu" else "bfloat16")
    try:
        require_device(arguments.device)
        target = load_target(arguments.target, BLOCK_LENGTHS[-1], arguments.device, dtype)
    except UserError as error:
        parser.error(str(error))
    quick = {"replicas": (1, 2, 5), "block_lengths": BLOCK_LENGTHS[:1], "contexts": (64,)} if arguments.quick else {}
    document = measure(target, arguments.repeat, **quick)
    show(document)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        yaml = YAML()
        yaml.default_flow_style, yaml.width = None, 120  # a line per point
        yaml.dump(document, arguments.out)


def measure(
    target: Target,
    repeat: int,
    replicas: tuple[int, ...] = REPLICAS,
    block_lengths: tuple[int, ...] = BLOCK_LENGTHS,
    contexts: tuple[int, ...] = CONTEXTS,
) -> dict[str, Any]:
    """The document of a curve: who measured what, and per setting the medians and the middle halves, in milliseconds.

    A context that leaves no room for a block before the target's last position ends there, and is measured once.
    """
    with torch.device("meta"):  # the loaded one may have packed its weights
        sizes = {name: p.numel() for name, p in Transformer(target.model.config).named_parameters()}
    weights = (sum(sizes.values()) - sizes["embed.weight"]) * target.dtype.itemsize  # of embeddings a few rows are read
    copied = copy_bandwidth(target.device, repeat)
    points = []
    for block_length in block_lengths:
        room = target.max_positions - block_length
        for held in dict.fromkeys(min(context, room) // block_length * block_length for context in contexts):
            shaped = replace(target, block_length=block_length)
            for layout in ("batch", "concat"):
                points += [
                    {
                        **{"block_length": block_length, "context": held, "layout": layout, "replicas": count},
                        **forward_ms(shaped, held, layout, count, repeat),
                    }
                    for count in replicas
                ]
    return {
        "target": target.name,
        "parameters": sum(sizes.values()),
        "device": torch.cuda.get_device_name() if target.device.type == "cuda" else cpu_model(),
        "threads": torch.get_num_threads(),
        "dtype": str(target.dtype).removeprefix("torch."),
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
        "measured": date.today().isoformat(),
        "repeat": repeat,
        "weight_bytes": weights,
        "copy_bytes_per_s": round(copied),
        "draft_free_tok_s": round(draft_free(target, repeat), 1),
        "bandwidth_floor_tok_s": round(copied / weights, 1),
        "forward_ms": points,
    }


@torch.inference_mode()
def forward_ms(target: Target, context: int, layout: str, replicas: int, repeat: int) -> dict[str, float]:
    """Median and middle half of a forward over `replicas` half-masked blocks behind `context` positions."""
    block_length = target.block_length
    random = np.random.default_rng(0)
    token = next(token for token in range(target.vocab_size) if token != target.mask_id)
    states = np.where(random.random((replicas, block_length)) < 0.5, target.mask_id, token)
    cache = make_context(target, "auto", context + block_length, layout, replicas)
    cache.prefill([token] * context)
    cache.forward(states[:1], context)
    cache.forward(states, context)
    seconds = times(lambda: cache.forward(states, context), target.device, repeat)
    low, _, high = quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else seconds * 3
    return {"median": round(median(seconds) * 1e3, 4), "low": round(low * 1e3, 4), "high": round(high * 1e3, 4)}


def copy_bandwidth(device: torch.device, repeat: int) -> float:
    """Bytes per second that one copy of a large tensor reads."""
    source = torch.ones(COPIED_BYTES // 4, device=device)
    target = torch.zeros_like(source).add_(1)  # written once, so that its pages are there
    return COPIED_BYTES / median(times(lambda: target.copy_(source), device, repeat))


def draft_free(target: Target, repeat: int, prompt: int = 128, length: int = 64) -> float:
    """Tokens per second of draft-free decoding at temperature 0, median."""
    tokens = [token for token in range(target.vocab_size) if token != target.mask_id][:prompt]
    info = TargetInfo(target.block_length, target.vocab_size, target.mask_id, str(target.device))
    settings, noise = DecodeSettings(length), GumbelNoise(0, "curve", target.vocab_size)
    drafter, verifier = make_drafter("none", {}, {}, info), make_verifier("none")
    done = [decode(target, tokens, settings, drafter, verifier, noise) for _ in range(min(repeat, 3))]
    return median(len(one.tokens) / one.wall_s for one in done)


def show(document: dict[str, Any]) -> None:
    console = Console()
    console.print(
        f"{document['target']} on {document['device']}, {document['dtype']}, {document['threads']} thread(s): "
        f"draft-free {document['draft_free_tok_s']} tok/s; one token per reading of the weights would be "
        f"{document['bandwidth_floor_tok_s']}"
    )
    rows: dict[tuple[str, ...], dict[int, float]] = {}
    for point in document["forward_ms"]:
        key = (str(point["block_length"]), str(point["context"]), point["layout"])
        rows.setdefault(key, {})[point["replicas"]] = point["median"]
    shown = [count for count in SHOWN if all(count in medians for medians in rows.values())]
    table = Table("block", "context", "layout", *map(str, shown))
    for key, medians in rows.items():
        table.add_row(*key, *(f"{medians[count] / medians[1]:.1f}" for count in shown))
    console.print("forward by replicas, in plain forwards of the same setting")
    console.print(table)


if __name__ == "__main__":
    main()
