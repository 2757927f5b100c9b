"""train: fit the order model to draft-free trajectories (SPOT, algorithm 1 and appendix D.1)."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from workers.drafters.order_model import OrderModel, OrderModelConfig, save_order_model
from workers.stages import Inputs, StageSession
from workers.stages.examples import Batch, Trajectories, draw_depths, make_batch, read_shards, split_samples, usable_states

DEFAULTS = {
    "layers": 3,
    "width": 128,
    "heads": 8,
    "top": 32,
    "root_layers": 0,
    "d_max": 7,
    "epochs": 10,
    "optimizer": "adam",
    "lr": 3e-4,
    "batch": 256,
    "prefixes": 4,
    "examples_per_epoch": None,
    "held_out": 0.1,
    "held_out_examples": 20000,
    "seed": 0,
}
MUON_LR = 10.0  # its learning rate, as a multiple of Adam's


def make_optimizers(model: OrderModel, params: dict[str, Any]) -> list[torch.optim.Optimizer]:
    """Adam, as in the paper; with `optimizer` "muon" the feature embedding and the matrices of the encoder layers go to
    Muon, which takes far fewer examples to the same accuracy (K. Jordan et al., 2024), and the rest stays with Adam."""
    inner = [model.embed.weight, *(p for p in model.layers.parameters() if p.ndim == 2)]
    matrices = inner if params["optimizer"] == "muon" else []
    others = [p for p in model.parameters() if not any(p is matrix for matrix in matrices)]
    optimizers: list[torch.optim.Optimizer] = [torch.optim.Adam(others, lr=params["lr"])]
    if matrices:
        optimizers.append(torch.optim.Muon(matrices, lr=MUON_LR * params["lr"], momentum=0.95, weight_decay=0.0))
    return optimizers


def batches(
    data: Trajectories, states: np.ndarray, params: dict[str, Any], examples: int | None, rng: np.random.Generator
) -> Iterator[Batch]:
    """One epoch: shuffled batches of `batch` examples, `prefixes` of each root; roots of one batch have equally many
    masks.

    Without padding the encoder never spends time on positions that are not there. `examples` None means every root
    once.
    """
    prefixes = params["prefixes"]
    order = rng.permutation(states)
    if examples is not None:
        order = order[: max(1, examples // prefixes)]
    order = order[np.argsort(data.count[order], kind="stable")]
    per_batch = max(1, params["batch"] // prefixes)
    groups = np.split(order, np.flatnonzero(np.diff(data.count[order])) + 1)
    chunks = [group[start : start + per_batch] for group in groups for start in range(0, len(group), per_batch)]
    for index in rng.permutation(len(chunks)):
        chunk = chunks[index]
        masked = int(data.count[chunk[0]]) - 1
        yield make_batch(data, chunk, draw_depths(masked, params["d_max"], len(chunk), prefixes, rng))


@torch.inference_mode()
def assess(model: OrderModel, held: list[Batch]) -> dict[str, Any]:
    """Next-commit accuracy of the model and of stale confidence on the same examples, overall and by depth."""
    depth, hit, base, loss = [], [], [], []
    for batch in held:
        log_q = model(batch.roots, batch.taken).cpu().numpy()
        first = (~batch.taken).argmax(-1)  # what stale confidence ranks first among the rest
        depth.append(batch.depth.reshape(-1))
        hit.append((log_q.argmax(-1) == batch.label).reshape(-1))
        base.append((first == batch.label).reshape(-1))
        loss.append(-np.take_along_axis(log_q, batch.label[..., None], -1).reshape(-1))
    depth, hit, base = np.concatenate(depth), np.concatenate(hit), np.concatenate(base)
    depths = range(int(depth.max()) + 1)
    return {
        "held_out_loss": float(np.concatenate(loss).mean()),
        "accuracy": float(hit.mean()),
        "baseline": float(base.mean()),
        "accuracy_by_depth": [float(hit[depth == d].mean()) if (depth == d).any() else None for d in depths],
        "baseline_by_depth": [float(base[depth == d].mean()) if (depth == d).any() else None for d in depths],
        "examples_by_depth": [int((depth == d).sum()) for d in depths],
    }


def run(params: dict[str, Any], inputs: Inputs, out: Path, session: StageSession) -> dict[str, Any]:
    """Write order_model.safetensors, order_model.json and curve.json; inputs: shards. Deterministic by seed."""
    params = {**DEFAULTS, **params}
    data = read_shards(inputs["shards"])
    held_samples = split_samples(data.sample_ids, params["held_out"], params["seed"])
    states = usable_states(data)
    held_states, train_states = states[held_samples[data.sample[states]]], states[~held_samples[data.sample[states]]]

    # The held-out examples are the same in every epoch.
    rng = np.random.default_rng([params["seed"], 1])
    held = list(batches(data, held_states, params, params["held_out_examples"], rng))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params["seed"])
        shape = {key: params[key] for key in ("layers", "width", "heads", "top", "root_layers")}
        model = OrderModel(OrderModelConfig(**shape)).to(session.device)
    optimizers = make_optimizers(model, params)
    groups = [(group, group["lr"]) for optimizer in optimizers for group in optimizer.param_groups]

    rng = np.random.default_rng([params["seed"], 2])
    started = time.perf_counter()
    curve: list[dict[str, Any]] = [{"epoch": 0, "loss": None, **assess(model, held)}]
    per_epoch = min(params["examples_per_epoch"] or math.inf, len(train_states) * params["prefixes"])
    for epoch in range(1, params["epochs"] + 1):
        total = seen = 0.0
        for batch in batches(data, train_states, params, params["examples_per_epoch"], rng):
            progress = (epoch - 1 + min(seen / per_epoch, 1.0)) / params["epochs"]
            for group, highest in groups:
                group["lr"] = highest * 0.5 * (1 + math.cos(math.pi * progress))
            label = torch.from_numpy(batch.label).to(session.device)
            losses = -model(batch.roots, batch.taken).gather(-1, label[..., None])
            losses.mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            total += float(losses.detach().sum())
            seen += losses.numel()
        curve.append({"epoch": epoch, "loss": total / seen, **assess(model, held)})
        session.progress(epoch, params["epochs"], loss=curve[-1]["loss"], accuracy=curve[-1]["accuracy"])

    last = curve[-1]
    figures = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "samples": len(data.sample_ids),
        "held_out_samples": int(held_samples.sum()),
        "states": len(train_states),
        "examples_per_epoch": int(per_epoch),
        "loss": last["loss"],
        **{key: last[key] for key in ("held_out_loss", "accuracy", "baseline", "accuracy_by_depth", "baseline_by_depth")},
    }
    save_order_model(model.eval(), out, {"training": params, "figures": figures})
    (out / "curve.json").write_text(json.dumps(curve, indent=1) + "\n", encoding="utf-8")
    return {**figures, "train_s": time.perf_counter() - started}
