"""Loading a target directory: config.json, safetensors (one file or shards) and tokenizer.json."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedTokenizerFast

from workers.errors import UserError
from workers.targets.digest import target_directory, target_name, weight_files
from workers.targets.packed import pack_linears
from workers.targets.sdar import published_names, published_shapes, read_config
from workers.targets.target import Target
from workers.targets.transformer import Transformer, TransformerConfig, rope_table

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
LISTED = 8


def load_target(reference: dict | str, block_length: int, device: str = "cpu", dtype: str = "float32") -> Target:
    """Load a packaged target ("tiny-sdar") or the directory of one; see `target_directory` for references.

    Raises UserError for whatever is wrong with the directory: files missing, unreadable or truncated, a shape or an option that
    is not SDAR's, tensors missing, extra or misshapen (all of them in one line).
    """
    if dtype not in DTYPES:
        raise UserError(f"dtype '{dtype}' is unknown; choose one of {', '.join(DTYPES)}")
    directory = target_directory(reference)
    published = read_json(directory / "config.json")
    config = read_config(published, str(directory / "config.json"))
    model = load_model(directory, config, torch.device(device), DTYPES[dtype])
    if torch.device(device).type == "cpu":
        pack_linears(model)
    tokenizer = load_tokenizer(directory)
    return Target(
        name=target_name(reference),
        model=model,
        tokenizer=tokenizer,
        block_length=block_length,
        mask_id=mask_id(published, tokenizer, config, directory),
        stop_ids=stop_ids(published, directory),
    )


def read_json(path: Path) -> dict:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; a target directory has one") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: not a JSON object")
    return content


def load_model(directory: Path, config: TransformerConfig, device: torch.device, dtype: torch.dtype) -> Transformer:
    """The model in evaluation mode; tensors go to the device one by one, so no second copy is held."""
    with torch.device("meta"):
        model = Transformer(config)
    model.cos, model.sin = rope_table(config)
    with ExitStack() as stack:
        stored = {}
        for path in weight_files(directory):
            file = open_weights(stack, path)
            stored.update({key: (file, path) for key in file.keys()})
        check_tensors(directory, config, {name: p.shape for name, p in model.named_parameters()}, stored)
        weights = {}
        for ours, theirs in published_names(config).items():
            parts = [stored[name][0].get_tensor(name).to(device=device, dtype=dtype) for name in theirs]
            weights[ours] = torch.cat(parts) if len(parts) > 1 else parts[0]
    model.load_state_dict(weights, assign=True)
    return model.to(device=device, dtype=dtype).requires_grad_(False).eval()


def open_weights(stack: ExitStack, path: Path):
    try:
        return stack.enter_context(safe_open(path, "pt"))
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: truncated or not a safetensors file ({error}); fetch it again") from None


def check_tensors(directory: Path, config: TransformerConfig, ours: dict[str, torch.Size], stored: dict) -> None:
    """Raises UserError that lists every tensor that is missing, extra or misshapen."""
    expected = published_shapes(config, ours)
    problems = [f"missing {name}" for name in expected if name not in stored]
    problems += [f"extra {name} in {stored[name][1].name}" for name in sorted(stored) if name not in expected]
    for name, shape in expected.items():
        if name in stored and (found := tuple(stored[name][0].get_slice(name).get_shape())) != shape:
            problems.append(f"{name} has shape {list(found)} instead of {list(shape)}")
    if problems:
        more = f"; and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
        raise UserError(f"{directory}: weights do not fit config.json: {'; '.join(problems[:LISTED])}{more}")


def load_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    if not (directory / "tokenizer.json").exists():
        raise UserError(f"{directory / 'tokenizer.json'}: no such file; a target directory has one")
    try:
        return PreTrainedTokenizerFast.from_pretrained(directory, local_files_only=True)
    except Exception as error:  # the library raises bare Exception for malformed files
        raise UserError(f"{directory / 'tokenizer.json'}: {error}") from None


def mask_id(published: dict, tokenizer: PreTrainedTokenizerFast, config: TransformerConfig, directory: Path) -> int:
    """From config.json, else from the tokenizer: the published spellings of the mask token differ."""
    vocabulary = tokenizer.get_vocab()
    candidates = [published.get("mask_token_id"), tokenizer.mask_token_id]
    candidates += [vocabulary.get(spelling) for spelling in ("<|MASK|>", "<MASK>")]
    found = next((token for token in candidates if token is not None), None)
    if found is None or not 0 <= found < config.vocab_size:
        raise UserError(f"{directory}: no mask token; set mask_token_id in config.json")
    return found


def stop_ids(published: dict, directory: Path) -> frozenset[int]:
    """All end-of-sequence ids of config.json and generation_config.json."""
    generation = directory / "generation_config.json"
    found: set[int] = set()
    for source in [published] + ([read_json(generation)] if generation.exists() else []):
        stop = source.get("eos_token_id")
        found.update(stop if isinstance(stop, list) else [] if stop is None else [stop])
    if not found:
        raise UserError(f"{directory}: no eos_token_id in config.json or generation_config.json")
    return frozenset(found)
