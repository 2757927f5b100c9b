"""A small home with plausible runs, written through the real Store, for tests of what reads it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from warehouse import Store

LENGTH, BLOCK, BLOCKS = 128, 32, 4
GAIN = {"spot": 4.2, "spot-gamma": 3.6, "spiffy": 3.0, "tree": 2.3, "chain": 2.0}  # drafts accepted a round at D8
METHODS = tuple(GAIN)


def build_home(
    home: Path,
    experiment: str = "synthetic",
    *,
    methods: Sequence[str] = METHODS,
    budgets: Sequence[int] = (8, 20),
    seeds: Sequence[int] = (0, 1, 2),
    temperatures: Sequence[float] = (0.0, 1.0),
    tasks: Sequence[str] = ("tiny-math", "tiny-code"),
    samples: int = 3,
    control: bool = True,
    artifacts: bool = True,
    device: str = "Example CPU, 1 thread",
    output: str = "#### 42",
    waiting: int = 0,
    failed: str | None = None,
) -> Path:
    """Write an experiment of the given grid; `waiting` nodes stay planned, one more fails with the message `failed`."""
    names = (("control",) if control else ()) + tuple(methods)
    cells = [
        (m, b, t, k, s)
        for m in names
        for b in ((0,) if m == "control" else budgets)
        for t in temperatures
        for k in tasks
        for s in seeds
    ]
    with Store(home) as store:
        store.add_experiment(
            experiment,
            f"experiment: {experiment}\n",
            identity(experiment),
            "python -m pipeline submit main.yaml",
            {"python": "3.11.7", "torch": "2.13.0"},
            "0123456789abcdef",
        )
        plan = [{"identity": identity(*cell), "kind": "evaluate", "label": "/".join(map(str, cell))} for cell in cells]
        plan += [
            {"identity": identity("waiting", i), "kind": "evaluate", "label": f"waiting/{i}"} for i in range(waiting)
        ]
        plan += [{"identity": identity("failed"), "kind": "collect", "label": "collect/0"}] * (failed is not None)
        plan += [
            {"identity": identity(kind), "kind": kind, "label": kind} for kind in ("train", "calibrate-floor")
        ] * artifacts
        store.plan_nodes(experiment, plan)
        if artifacts:
            for kind, name, content in (("train", "curve.json", curve()), ("calibrate-floor", "floor.json", floor())):
                write_artifact(store, home, experiment, kind, name, content)
        if failed is not None:
            store.node_state(experiment, identity("failed"), "failed", actor="worker-0", message=failed)
        for cell in cells:
            run, table, rounds = make_run(experiment, *cell, samples=samples, device=device, output=output)
            store.add_run(run, table, rounds)
            store.node_state(experiment, identity(*cell), "done", actor="worker-0")
        store.publish()
    return home


def identity(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def make_run(
    experiment: str,
    method: str,
    budget: int,
    temperature: float,
    task: str,
    seed: int,
    *,
    samples: int,
    device: str,
    output: str,
    speed: float = 1.0,
    attempt: int = 0,
) -> tuple[dict, pa.Table, pa.Table]:
    """One run: what a drafter of this strength would record, deterministic by its arguments."""
    rng = np.random.default_rng(int(identity(method, budget, temperature, task, seed)[:12], 16))
    sample_rows, round_rows = [], []
    for index in range(samples):
        sample = f"{task}/test/{index}"
        rounds = list(_decode(rng, method, budget, sample))
        drafts = sum(row["draft_s"] for row in rounds)
        forwards = sum(row["forward_s"] for row in rounds)
        answer = 60 + 7 * index
        before = [row for row in rounds if row["block"] * BLOCK < answer]
        # Tokens depend on the seed and the sample only, as those of exact methods do.
        tokens = np.random.default_rng([seed if temperature else 0, index]).integers(0, 500, LENGTH).tolist()
        sample_rows.append(
            {
                "sample_id": sample,
                "prompt_tokens": 40,
                "generated_tokens": LENGTH,
                "answer_tokens": answer,
                "nfe": float(len(rounds)),
                "nfe_answer": float(len(before)),
                "store_passes": BLOCKS,
                "wall_s": (1.06 * forwards + drafts) / speed,
                "draft_s": drafts / speed,
                "forward_s": forwards / speed,
                "correct": bool(tokens[0] % 10),
                "output": output,
                "finish": "stop",
                "tokens": tokens,
                "exact_ties": 1,
                "near_ties": 2,
            }
        )
        round_rows += rounds
    drafter = "none" if method == "control" else method.removesuffix("-gamma")
    run = {
        "run_id": f"{identity(method, budget, temperature, task, seed)[:16]}-{attempt}",
        "experiment": experiment,
        "identity": identity(method, budget, temperature, task, seed),
        "target": "tiny-sdar",
        "task": task,
        "method": method,
        "drafter": drafter,
        "verifier": "none" if method == "control" else "coupled" if temperature else "greedy",
        "budget": budget,
        "floor": 0.05 if method == "spot-gamma" else 0.0,
        "padded": method == "spot",
        "temperature": temperature,
        "commit_rule": "single",
        "cache": "prefix",
        "layout": "batch",
        "stop": "fill",
        "generation_length": LENGTH,
        "block_length": BLOCK,
        "seed": seed,
        "attempt": attempt,
        "split": "test",
        "sample_digest": task,
        "device_class": device,
        "dtype": "float32",
        "segments": 1,
        "distribution_preserving": True,
        "exact_tie_share": 0.01,
        "near_tie_share": 0.02,
        "stale_token_share": 0.97,
        "stale_position_share": 0.74,
        "started_at": f"2026-01-01T00:{attempt:02d}:00",
    }
    return run, pa.Table.from_pylist(sample_rows), pa.Table.from_pylist(round_rows)


def _decode(rng: np.random.Generator, method: str, budget: int, sample: str) -> Iterator[dict]:
    for block in range(BLOCKS):
        left, number = BLOCK, 0
        while left:
            drafted = 0 if method == "control" or number == 0 else min(4 if method == "chain" else budget, 3 * left)
            strength = (
                GAIN.get(method, 0) * (1 if method == "chain" else (budget / 8) ** 0.3) * (1 + 0.12 * block)
                if drafted
                else 0
            )
            accepted = int(min(rng.poisson(strength), drafted, left - 1)) if drafted else 0
            replicas = 1 + (budget if method == "spot" and drafted else drafted)
            yield {
                "sample_id": sample,
                "block": block,
                "round": number,
                "drafted": drafted,
                "accepted": accepted,
                "positions": [BLOCK * block + BLOCK - left + i for i in range(accepted + 1)],
                "draft_s": 0.002 * drafted**0.5 if drafted else 0.0,
                "forward_s": 0.003 * (1 + 0.3 * (replicas - 1)) * rng.uniform(0.95, 1.05),
                "reject_cause": "position" if drafted else None,
                "true_position_rank": 1 if drafted else None,
                "true_order_rank": 1 if drafted else None,
                "true_token_rank": None,
                "replicas": replicas,
            }
            left -= accepted + 1
            number += 1


def curve() -> list[dict]:
    """A learning curve as the train stage writes it."""
    baseline = [0.75, 0.66, 0.61, 0.58, 0.56, 0.55, 0.54, 0.53]
    return [
        {
            "epoch": epoch,
            "loss": None if epoch == 0 else 1.2 - 0.1 * epoch**0.5,
            "held_out_loss": 1.3 - 0.08 * epoch**0.5,
            "accuracy": 0.7 - 0.4 / (1 + 2 * epoch),
            "baseline": 0.6,
            "baseline_by_depth": baseline,
            "accuracy_by_depth": [0.76 - 0.4 / (1 + 2 * epoch) - 0.012 * depth for depth in range(8)],
            "examples_by_depth": [100] * 8,
        }
        for epoch in range(6)
    ]


def floor() -> dict:
    """A calibrated mass floor as the calibrate-floor stage writes it."""
    floors, budgets = (0.0, 0.05, 0.2), (8, 20)
    grid = [
        {"floor": f, "budget": b, "ratio": 0.6 + f - 2 * f * f - b / 100, "nfe": 40.0, "drafts_per_round": 6.0}
        for f in floors
        for b in budgets
    ]
    means = {str(f): sum(row["ratio"] for row in grid if row["floor"] == f) / len(budgets) for f in floors}
    return {
        "floor": 0.05,
        "mean_ratio": means,
        "tie_band": 0.03,
        "cost": {"replica": 0.1, "level": 0.05},
        "control_nfe": 128.0,
        "samples": 10,
        "grid": grid,
    }


def write_artifact(store: Store, home: Path, experiment: str, kind: str, name: str, content: object) -> None:
    """Write `content` as the JSON artifact `name` of the node `kind` and record it as done."""
    folder = home / "artifacts" / identity(kind)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content)
    (folder / name).write_text(text)
    store.add_artifact(
        identity(kind), kind, folder.relative_to(home), len(text), hashlib.sha256(text.encode()).hexdigest(), {}
    )
    store.node_state(experiment, identity(kind), "done", actor="worker-0")
