"""Loading a target directory: config.json, safetensors (one file or shards) and the tokenizer's files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen2TokenizerFast

from workers.errors import UserError
from workers.targets.config import TransformerConfig
from workers.targets.digest import target_directory, target_name, tokenizer_file, weight_files
from workers.targets.families import Family, family_of, family_of_tensors
from workers.targets.packed import pack_linears
from workers.targets.target import Target
from workers.targets.transformer import Transformer, rope_table

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
LISTED = 8


def load_target(
    reference: dict | str, block_length: int, device: str = "cpu", dtype: str = "float32", pack: bool = True
) -> Target:
    """Load a packaged target ("tiny-sdar") or a checkpoint of any known family; see `target_directory` for references.

    pack: on a CPU the linear layers are laid out for speed, and their weights can be read no more.

    Raises UserError for whatever is wrong with the directory: files missing, unreadable or truncated, an unknown
    family, an option the family does not have, tensors missing, extra or misshapen (all of them in one line).
    """
    if dtype not in DTYPES:
        raise UserError(f"dtype '{dtype}' is unknown; choose one of {', '.join(DTYPES)}")
    directory = target_directory(reference)
    published = read_json(directory / "config.json")
    family = family_of(published, str(directory / "config.json"))
    config = family.read_config(published, str(directory / "config.json"))
    tokenizer = load_tokenizer(directory)
    mask = mask_id(published, tokenizer, family, config, directory)
    stop = stop_ids(published, tokenizer, family, directory)
    model = load_model(directory, family, config, torch.device(device), DTYPES[dtype])
    if pack and torch.device(device).type == "cpu":
        pack_linears(model)
    return Target(target_name(reference), model, tokenizer, block_length, mask, stop, family.attention, family.shift)


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


def load_model(
    directory: Path, family: Family, config: TransformerConfig, device: torch.device, dtype: torch.dtype
) -> Transformer:
    """The model in evaluation mode. Tensors go file by file to the device, each to its place in ours, so that the host
    never holds more than one of them beside the model; a router's stay fp32."""
    with torch.device("meta"):
        model = Transformer(config)
    parts = family.parts(config)
    files = weight_files(directory)
    check_tensors(directory, family, {name: p.shape for name, p in model.named_parameters()}, parts, files)
    weights = {
        name: torch.empty(p.shape, device=device, dtype=p.dtype if ".router." in name else dtype)
        for name, p in model.named_parameters()
    }
    places = {}
    for ours, theirs in parts.items():
        places.update(zip(theirs, rows_of(weights[ours]).split(list(theirs.values()))))
    for path in files:
        with open_weights(path) as file:
            for name in file.keys():
                places[name].copy_(rows_of(file.get_tensor(name)))
    model.load_state_dict(weights, assign=True)
    model.cos, model.sin = (table.to(device) for table in rope_table(config))
    return model.requires_grad_(False).eval()


def rows_of(tensor: Tensor) -> Tensor:
    """A view as a list of rows: experts' matrices below each other."""
    return tensor.flatten(0, -2) if tensor.dim() > 2 else tensor


@contextmanager
def open_weights(path: Path) -> Iterator[safe_open]:
    """A safetensors file, open. Raises UserError if it is none, or truncated."""
    try:
        file = safe_open(path, "pt")
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: truncated or not a safetensors file ({error}); fetch it again") from None
    with file:
        yield file


def check_tensors(
    directory: Path, family: Family, shapes: dict[str, torch.Size], parts: dict[str, dict[str, int]], files: list[Path]
) -> None:
    """Raises UserError that lists every tensor that is missing, extra or misshapen, or names the family they are of."""
    expected = {
        name: (rows, *shapes[ours][1:][-1:]) for ours, theirs in parts.items() for name, rows in theirs.items()
    }
    stored, problems = set(), []
    for path in files:
        with open_weights(path) as file:
            for name in sorted(file.keys()):
                stored.add(name)
                if name not in expected:
                    problems.append(f"extra {name} in {path.name}")
                elif (found := tuple(file.get_slice(name).get_shape())) != expected[name]:
                    problems.append(f"{name} has shape {list(found)} instead of {list(expected[name])}")
    other = family_of_tensors(stored)
    if family.mark not in stored and other not in (None, family):
        raise UserError(
            f"{directory}: config.json says {family.name}, but the weights are those of a {other.name} checkpoint"
        )
    problems = [f"missing {name}" for name in expected if name not in stored] + problems
    if problems:
        more = f"; and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
        raise UserError(f"{directory}: weights do not fit config.json: {'; '.join(problems[:LISTED])}{more}")


def load_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    """With the chat template, if there is one; nothing in the files is executed, whatever class they name."""
    path = tokenizer_file(directory)
    kind = PreTrainedTokenizerFast if path.name == "tokenizer.json" else Qwen2TokenizerFast
    try:
        return kind.from_pretrained(directory, local_files_only=True)
    except Exception as error:  # the library raises bare Exception for malformed files
        raise UserError(f"{path}: {' '.join(str(error).split())}") from None


def mask_id(
    published: dict, tokenizer: PreTrainedTokenizerFast, family: Family, config: TransformerConfig, directory: Path
) -> int:
    """From config.json, else from the tokenizer, else the family's own."""
    vocabulary = tokenizer.get_vocab()
    candidates = [published.get("mask_token_id"), tokenizer.mask_token_id]
    candidates += [*map(vocabulary.get, family.mask_tokens), family.mask_id]
    found = next(token for token in candidates if token is not None)
    if not 0 <= found < config.vocab_size:
        raise UserError(f"{directory}: no mask token; set mask_token_id in config.json")
    return found


def stop_ids(published: dict, tokenizer: PreTrainedTokenizerFast, family: Family, directory: Path) -> frozenset[int]:
    """All end-of-sequence ids of config.json and generation_config.json, and the family's stop tokens."""
    generation = directory / "generation_config.json"
    vocabulary = tokenizer.get_vocab()
    found = {vocabulary[token] for token in family.stop_tokens if token in vocabulary}
    for source in [published] + ([read_json(generation)] if generation.exists() else []):
        stop = source.get("eos_token_id")
        found.update(stop if isinstance(stop, list) else [] if stop is None else [stop])
    if not found:
        raise UserError(f"{directory}: no eos_token_id in config.json or generation_config.json")
    return frozenset(found)
