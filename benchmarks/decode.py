"""What a forward costs by replicas, and where the time of a decode goes.

    python -m benchmarks.decode [--device cuda] [--threads 1] [--prompt 100] [--length 128]

Uses the packaged target if it is there, else random weights of the same shape. Best of several repetitions; run it on
an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch

from workers.decoding.context import PrefixContext
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings
from workers.drafters import TargetInfo, make_drafter
from workers.errors import UserError
from workers.runtime import CPU_ENVIRONMENT
from workers.targets.load import load_target
from workers.targets.packed import pack_linears
from workers.targets.target import Target
from workers.targets.transformer import Transformer, TransformerConfig
from workers.verifiers import make_verifier

BLOCK = 32
REPLICAS = (1, 2, 5, 9, 13, 21)
METHODS = (("none", 0, 0.0), ("none", 0, 1.0), ("chain", 4, 0.0), ("tree", 8, 0.0), ("tree", 20, 0.0), ("tree", 8, 1.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default=None, help="float32 on CPUs, bfloat16 on GPUs unless given")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=100, help="prompt tokens")
    parser.add_argument("--length", type=int, default=128, help="generated tokens")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    as_a_worker("benchmarks.decode", arguments.threads)
    dtype = arguments.dtype or ("float32" if arguments.device == "cpu" else "bfloat16")
    try:
        require_device(arguments.device)
    except UserError as error:
        parser.error(str(error))
    target = find_target(arguments.device, dtype)
    print(f"{target.name}, {arguments.device}, {dtype}, {arguments.threads} thread(s)\n")
    print_forwards(target, arguments.prompt // BLOCK * BLOCK, arguments.repeat)
    print()
    print_decodes(target, arguments.prompt, arguments.length, arguments.repeat)


def as_a_worker(module: str, threads: int) -> None:
    """Give this process what workers have; it is started anew if it lacks the allocator's settings, read only then."""
    if any(os.environ.get(name) != value for name, value in CPU_ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], os.environ | CPU_ENVIRONMENT)
    torch.set_num_threads(threads)


def require_device(device: str) -> None:
    """Raises UserError if this machine has no such device."""
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"--device {device}: there is no GPU here that torch {torch.__version__} can use")


def find_target(device: str, dtype: str) -> Target:
    try:
        return load_target("tiny-sdar", BLOCK, device, dtype)
    except UserError as error:
        print(f"{error}; random weights instead")
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(640, 192, 5, 6, 6, 32, 512, 2048)).eval().requires_grad_(False)
    model = model.to(device=device, dtype=getattr(torch, dtype))
    if device == "cpu":
        pack_linears(model)
    return Target("random", model, None, BLOCK, 639, frozenset({0}))


@torch.inference_mode()
def print_forwards(target: Target, prefix: int, repeat: int) -> None:
    """Milliseconds of one forward over R replicas behind `prefix` positions, in both layouts."""
    print(f"forward behind {prefix} positions, ms (and in plain forwards)")
    print(f"{'replicas':>8}  {'batch':>16}  {'concat':>16}")
    random = np.random.default_rng(0)
    token = next(token for token in range(target.vocab_size) if token != target.mask_id)
    plain: dict[str, float] = {}
    for replicas in REPLICAS:
        states = np.where(random.random((replicas, BLOCK)) < 0.5, target.mask_id, token)
        cells = []
        for layout in ("batch", "concat"):
            context = PrefixContext(target, prefix + BLOCK, layout, replicas)
            context.prefill([token] * prefix)
            context.forward(states[:1], prefix)
            cost = best(lambda: context.forward(states, prefix), target.device, 4 * repeat)
            plain.setdefault(layout, cost)
            cells.append(f"{cost * 1e3:8.2f} ({cost / plain[layout]:4.1f})")
        print(f"{replicas:>8}  {cells[0]:>16}  {cells[1]:>16}")


def best(run: Callable[[], object], device: torch.device, repeat: int) -> float:
    """Shortest of `repeat` runs, seconds."""
    return min(times(run, device, repeat))


def times(run: Callable[[], object], device: torch.device, repeat: int) -> list[float]:
    """Seconds of each of `repeat` runs."""
    seconds = []
    for _ in range(repeat):
        began = perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(perf_counter() - began)
    return seconds


def print_decodes(target: Target, prompt: int, length: int, repeat: int) -> None:
    """Forwards, speed and the split of the wall time; the rest is sampling, walking and bookkeeping."""
    print(" drafter budget    T   NFE   tok/s  forward  draft   rest  rest us/NFE")
    info = TargetInfo(BLOCK, target.vocab_size, target.mask_id, str(target.device))
    tokens = [token for token in range(target.vocab_size) if token != target.mask_id][:prompt]
    for name, budget, temperature in METHODS:
        settings = DecodeSettings(generation_length=length, budget=budget, temperature=temperature)
        drafter, verifier = make_drafter(name, {}, {}, info), make_verifier("coupled")
        noise = GumbelNoise(0, "bench", target.vocab_size)
        runs = [decode(target, tokens, settings, drafter, verifier, noise) for _ in range(repeat)]
        fastest = min(runs, key=lambda run: run.wall_s)
        rest = fastest.wall_s - fastest.forward_s - fastest.draft_s
        print(
            f"{name:>8} {budget:>6} {temperature:>4} {fastest.nfe:>5} {len(fastest.tokens) / fastest.wall_s:>7.1f} "
            f"{fastest.forward_s / fastest.wall_s:>8.1%} {fastest.draft_s / fastest.wall_s:>6.1%} "
            f"{rest / fastest.wall_s:>6.1%} {rest / fastest.nfe * 1e6:>12.0f}"
        )


if __name__ == "__main__":
    main()
