"""What evaluate and calibrate-floor share: prompts, drafters and one decoded sample with its figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from workers.decoding.loop import check_prompt, decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings
from workers.drafters import Drafter, TargetInfo, make_drafter
from workers.errors import UserError
from workers.stages import Inputs
from workers.tasks.sample import Sample
from workers.verifiers import Verifier

if TYPE_CHECKING:
    from workers.targets.target import Target

WARMUP_MASKS = 6


@dataclass(frozen=True)
class Setting:
    """Everything that decodes a sample, but the sample."""

    target: Target
    settings: DecodeSettings
    drafter: Drafter
    verifier: Verifier
    seed: int


def target_info(target: Target) -> TargetInfo:
    return TargetInfo(target.block_length, target.vocab_size, target.mask_id, str(target.device))


def build_drafter(name: str, options: Mapping[str, Any], floor: float, inputs: Inputs, target: Target) -> Drafter:
    """The drafter of a cell; `floor` is the mass floor of spot, which overrides the one in its options."""
    options = {key: value for key, value in options.items() if key != "floor"}
    if name == "spot":
        options["floor"] = floor
    artifacts = {role: Path(path) for role, path in inputs.items() if isinstance(path, (str, Path))}
    return make_drafter(name, options, artifacts, target_info(target))


def resolve_floor(floor: float | str, inputs: Inputs) -> float:
    """The number behind a cell's floor: itself, or what calibrate-floor chose."""
    if floor != "calibrated":
        return float(floor)
    if "floor" not in inputs:
        raise UserError("floor: calibrated, but the node has no calibrate-floor stage upstream")
    path = Path(inputs["floor"]) / "floor.json"
    try:
        return float(json.loads(path.read_text(encoding="utf-8"))["floor"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a calibrated floor ({error}); run the calibrate-floor stage again") from error


def require_checks(directory: Path) -> None:
    """Raise UserError unless every check of the check-rejection stage upstream passed."""
    path = directory / "checks.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    failed = [f"{check['check']} ({check['proposal']})" for check in found["checks"] if not check["passed"]]
    if failed:
        raise UserError(
            f"verifier: {found['verifier']} does not follow the target's law at temperature {found['temperature']:g}, so "
            f"nothing is measured with it; failed: {', '.join(failed)}; see {path}"
        )


def encode_samples(target: Target, samples: list[Sample], generation_length: int) -> list[list[int]]:
    """Prompt tokens of every sample. Raises UserError if there are none, or one does not fit the target."""
    if not samples:
        raise UserError("samples: the evaluation has none; set samples to at least 1")
    prompts = [target.encode(sample.prompt) for sample in samples]
    for sample, prompt in zip(samples, prompts):
        try:
            check_prompt(target, prompt, target.span(len(prompt), generation_length)[1])
        except UserError as error:
            raise UserError(f"sample {sample.id}: {error}") from error
    return prompts


def warm_up(setting: Setting, prompt: list[int]) -> float:
    """Decode the last few positions of one block behind a part of `prompt`, drafts included; returns seconds.

    On full attention, where a block holds nothing of the prompt, it is a whole block.
    """
    began = perf_counter()
    length = setting.target.block_length
    short = len(prompt) - (len(prompt) + WARMUP_MASKS) % length
    prompt = prompt[:short] if short > 0 else prompt
    settings = replace(setting.settings, generation_length=1)
    noise = GumbelNoise(setting.seed, "warm-up", setting.target.vocab_size)
    decode(setting.target, prompt, settings, setting.drafter, setting.verifier, noise)
    return perf_counter() - began


def decode_sample(setting: Setting, sample_id: str, prompt: list[int]) -> dict[str, Any]:
    """One decoded sample as JSON-able {"sample": ..., "rounds": [...], "blocks": [...]}, not yet scored."""
    noise = GumbelNoise(setting.seed, sample_id, setting.target.vocab_size)
    done = decode(setting.target, prompt, setting.settings, setting.drafter, setting.verifier, noise)
    stop = next((i for i, token in enumerate(done.tokens) if token in setting.target.stop_ids), None)
    sample = {
        "sample_id": sample_id,
        "prompt_tokens": len(prompt),
        "generated_tokens": len(done.tokens),
        "answer_tokens": len(done.tokens) if stop is None else stop,
        "nfe": done.nfe,
        "nfe_answer": done.nfe_answer,
        "store_passes": done.store_passes,
        "wall_s": done.wall_s,
        "draft_s": done.draft_s,
        "forward_s": done.forward_s,
        "lookahead_s": done.lookahead_s,
        "journal_s": done.journal_s,
        "finish": "length" if stop is None else "stop",
        "tokens": done.tokens,
        "exact_ties": done.exact_ties,
        "near_ties": done.near_ties,
    }
    rounds = [{"sample_id": sample_id, **asdict(entry)} for entry in done.rounds]
    return {"sample": sample, "rounds": rounds, "blocks": [asdict(block) for block in done.blocks]}
