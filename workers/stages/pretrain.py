"""The `pretrain` stage: trains an embedded target and writes it as a target directory."""

from __future__ import annotations

import hashlib
import json
import math
import time
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer

from workers.errors import UserError
from workers.stages.muon import MuonAdamW
from workers.stages.pretrain_canvas import CanvasCorpus
from workers.stages.pretrain_check import exact_accuracy
from workers.stages.pretrain_data import Batch, Corpus
from workers.stages.pretrain_start import start_from
from workers.stages.pretrain_stream import WINDOW, Stream
from workers.targets.digest import STARTS
from workers.targets.export import write_target
from workers.targets.families.llada import LLADA
from workers.targets.families.sdar import SDAR
from workers.targets.target import Target
from workers.targets.tokenizer import MASK, STOP, train_tokenizer
from workers.targets.transformer import Transformer, TransformerConfig
from workers.tasks import TASKS

SMALL_BLOCK = 4
NOTE = "same data and schedule everywhere; bf16 kernels differ between CPUs, so another machine's bits differ"
FAMILIES = {"tiny-sdar": SDAR, "tiny-llada": LLADA}


@dataclass(frozen=True)
class PretrainSettings:
    """Everything that decides the weights.

    Until step `small_until` every second step has blocks of 4. At step `second_phase` the mix of rows turns to
    arithmetic. start: the packaged target whose weights the training goes on from.
    """

    embedded: str = "tiny-sdar"
    start: str | None = None
    steps: int = 3200
    seed: int = 0
    rows: int = 20
    layers: int = 5
    width: int = 192
    heads: int = 6
    intermediate: int = 512
    vocab_size: int = 640
    max_positions: int = 2048
    rope_theta: float = 10000.0
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    warmup: int = 100
    small_until: int = 1190
    second_phase: int = 1400
    tokenizer_samples: int = 3000
    checkpoint_every: int = 200
    check_every: int = 600
    check_samples: int = 16
    final_samples: int = 200
    generation_length: int = 96


RECIPES = {
    "tiny-sdar": PretrainSettings(),
    "tiny-llada": PretrainSettings(
        embedded="tiny-llada",
        start=STARTS["tiny-llada"],
        steps=1500,
        rows=14,
        muon_lr=0.01,
        adam_lr=1.5e-3,
        small_until=0,
        second_phase=0,
        check_every=300,
    ),
}


def parse_settings(params: dict) -> PretrainSettings:
    """The recipe of the embedded target with `params` in place of its own; raises UserError for an unknown one."""
    known = {setting.name for setting in fields(PretrainSettings)}
    if unknown := sorted(set(params) - known):
        raise UserError(f"pretrain: unknown settings {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    embedded = params.get("embedded", "tiny-sdar")
    if embedded not in RECIPES:
        raise UserError(f"pretrain: unknown embedded target '{embedded}'; there are {', '.join(sorted(RECIPES))}")
    return replace(RECIPES[embedded], **params)


def learning_rate(settings: PretrainSettings, step: int) -> float:
    """Factor of the learning rates at `step` (from 0): warm-up, constant, linear decay over the second half."""
    remaining = (settings.steps - step) / (settings.steps - settings.steps // 2)
    return min(1.0, (step + 1) / settings.warmup, remaining)


def small_blocks(settings: PretrainSettings, step: int) -> bool:
    """Small blocks give conditionals close to autoregression, which teach copying and arithmetic faster."""
    return step < settings.small_until and step % 2 == 0


def new_model(settings: PretrainSettings, vocab_size: int) -> Transformer:
    """A model with normal initialisation, residual outputs scaled down; or with the weights of the one it starts from."""
    config = TransformerConfig(
        vocab_size=vocab_size,
        hidden_size=settings.width,
        num_layers=settings.layers,
        num_heads=settings.heads,
        num_kv_heads=settings.heads,
        head_dim=settings.width // settings.heads,
        intermediate_size=settings.intermediate,
        max_positions=settings.max_positions,
        rope_theta=settings.rope_theta,
        **({"qk_norm": False, "rope_fp32": True} if settings.embedded == "tiny-llada" else {}),
    )
    model = Transformer(config)
    if settings.start:
        start_from(model, settings.start)
        return model
    generator = torch.Generator().manual_seed(settings.seed)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            scale = 1.0 / math.sqrt(2 * settings.layers) if name.endswith(("out.weight", "down.weight")) else 1.0
            deviation = 0.02 if name.startswith(("embed", "head")) else parameter.shape[1] ** -0.5
            torch.nn.init.normal_(parameter, std=deviation * scale, generator=generator)
    return model


def train_step(model: Transformer, batches: list[Batch]) -> dict[str, float]:
    """Gradients of the weighted mean cross-entropy of one step; returns loss and accuracies of the masked tokens."""
    selected = [batch.labels >= 0 for batch in batches]
    counts = [int(chosen.sum()) for chosen in selected]
    total = sum(batch.weight * count for batch, count in zip(batches, counts))
    loss, right, seen = 0.0, {}, {}
    for batch, chosen, count in zip(batches, selected, counts):
        logits = model(batch.tokens, batch.positions, batch.attention, select=chosen).float()
        labels = batch.labels[chosen]
        part = F.cross_entropy(logits, labels, reduction="sum") * (batch.weight / total)
        part.backward()
        loss += part.item()
        name = "masked_token_accuracy" if batch.weight == 1 else "drill_accuracy"
        right[name] = right.get(name, 0) + int((logits.argmax(dim=-1) == labels).sum())
        seen[name] = seen.get(name, 0) + count
    return {"loss": loss, **{name: right[name] / seen[name] for name in right}}


@dataclass
class Progress:
    """How far a run is: steps done, seconds spent, running figures."""

    step: int = 0
    seconds: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)


def save_checkpoint(path: Path, optimizer: MuonAdamW, settings: PretrainSettings, progress: Progress) -> None:
    fresh = path.with_suffix(".tmp")
    parts = {"settings": settings, "progress": progress}
    metadata = {key: json.dumps(asdict(value), sort_keys=True) for key, value in parts.items()}
    save_file(optimizer.state(), fresh, metadata)
    fresh.replace(path)


def load_checkpoint(path: Path, optimizer: MuonAdamW, settings: PretrainSettings) -> Progress:
    """The progress to go on from; a fresh one if there is no checkpoint of these settings."""
    if not path.exists():
        return Progress()
    with safe_open(path, "pt") as stored:
        metadata = stored.metadata()
        if metadata["settings"] != json.dumps(asdict(settings), sort_keys=True):
            return Progress()
        optimizer.load({key: stored.get_tensor(key) for key in stored.keys()})
    return Progress(**json.loads(metadata["progress"]))


def finished_model(optimizer: MuonAdamW, config: TransformerConfig) -> Transformer:
    """The current weights rounded to bf16, as an fp32 model: what a user of the target computes with."""
    model = Transformer(config)
    rounded = {name: tensor.bfloat16().float() for name, tensor in optimizer.masters.items()}
    model.load_state_dict(rounded)
    return model.eval()


def build_tokenizer(settings: PretrainSettings) -> Tokenizer:
    samples = [s for name in sorted(TASKS) for s in TASKS[name].samples("train", 0, settings.tokenizer_samples)]
    return train_tokenizer((s.prompt + s.reference["solution"] for s in samples), settings.vocab_size)


def run(params: dict, inputs: dict, out: Path, session) -> dict:
    """Train with `params` (fields of PretrainSettings) and write the target directory into `out`.

    A killed run goes on from the checkpoint beside the session's journal, if it has one. `session.progress` gets
    the masked-token accuracy of fresh training problems and, now and then, exact accuracies on held-out ones.
    """
    settings = parse_settings(params)
    tokenizer = build_tokenizer(settings)
    stop_id, mask_id = tokenizer.token_to_id(STOP), tokenizer.token_to_id(MASK)
    model = new_model(settings, tokenizer.get_vocab_size()).bfloat16()
    optimizer = MuonAdamW(model, settings.muon_lr, settings.adam_lr)
    checkpoint = (session.journal or out / "pretrain").with_suffix(".safetensors")
    progress = load_checkpoint(checkpoint, optimizer, settings)
    figures = progress.figures
    stream = Stream(tokenizer, stop_id, mask_id, settings.seed)
    family = FAMILIES[settings.embedded]
    corpus = CanvasCorpus(stream) if family.attention == "full" else Corpus(stream)
    began = time.perf_counter() - progress.seconds

    def held_out(split: str, count: int) -> dict[str, float]:
        finished = finished_model(optimizer, model.config)
        target = Target(
            settings.embedded, finished, None, WINDOW, mask_id, frozenset({stop_id}), family.attention, family.shift
        )
        return exact_accuracy(target, tokenizer, settings.generation_length, split, count)

    for step in range(progress.step, settings.steps):
        small = small_blocks(settings, step)
        block = SMALL_BLOCK if small else WINDOW
        batches = corpus.batches(step, settings.rows, block, second_phase=step >= settings.second_phase)
        fresh = train_step(model, batches)
        optimizer.step(step + 1, learning_rate(settings, step))
        if not small:
            figures.update({key: 0.98 * figures.get(key, value) + 0.02 * value for key, value in fresh.items()})
        done = step + 1
        if done % settings.checkpoint_every == 0:
            progress.step, progress.seconds = done, time.perf_counter() - began
            save_checkpoint(checkpoint, optimizer, settings, progress)
        if done % settings.check_every == 0:
            session.progress(done, settings.steps, **figures, **held_out("calibration", settings.check_samples))
        elif done % 20 == 0:
            session.progress(done, settings.steps, **figures)

    minutes = (time.perf_counter() - began) / 60
    summary = {
        "steps": settings.steps,
        "minutes": round(minutes, 1),
        "parameters": sum(p.numel() for p in model.parameters()),
        "masked_token_accuracy": round(figures["masked_token_accuracy"], 4),
        "accuracy": held_out("test", settings.final_samples),
        "accuracy_samples": settings.final_samples,
    }
    write_target(out, family, optimizer.masters, model.config, WINDOW, tokenizer)
    written = [path for path in sorted(out.iterdir()) if path != checkpoint]
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in written}
    rebuild = {"command": f"python -m pipeline submit specs/targets/{settings.embedded}.yaml", "note": NOTE}
    build = {"settings": asdict(settings), "summary": summary, "sha256": hashes, **rebuild}
    (out / "build.json").write_text(json.dumps(build, indent=2) + "\n")
    checkpoint.unlink(missing_ok=True)
    return summary
