"""Where a target lives and what it is, without loading it (no torch)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from workers.errors import UserError

PACKAGED = {"tiny-sdar": Path(__file__).with_name("tiny-sdar")}
SMALL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
)
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def target_directory(reference: dict | str) -> Path:
    """Directory of a reference: a packaged name, a path, or {"checkpoint": path, "name": label}."""
    place = reference["checkpoint"] if isinstance(reference, dict) else reference
    directory = PACKAGED.get(place) or Path(place).expanduser()
    if not directory.is_dir():
        raise UserError(f"target '{place}': no such directory, and packaged targets are {', '.join(sorted(PACKAGED))}")
    return directory


def target_name(reference: dict | str) -> str:
    """The label of a reference: its own, or the last part of its path."""
    if isinstance(reference, dict) and reference.get("name"):
        return reference["name"]
    return reference if reference in PACKAGED else target_directory(reference).resolve().name


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a target, those of its index if it has one; raises UserError if there are none, or not all.

    Pickles are refused: loading one runs code.
    """
    index = directory / "model.safetensors.index.json"
    if index.exists():
        try:
            names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise UserError(f"{index}: not an index of safetensors files ({error}); fetch it again") from None
        if lost := [name for name in names if not (directory / name).is_file()]:
            raise UserError(f"{directory}: {', '.join(lost)} named in {index.name} is missing; fetch the checkpoint again")
        return [directory / name for name in names]
    files = sorted(directory.glob("*.safetensors"))
    if files:
        return files
    if pickles := sorted(path.name for pattern in PICKLES for path in directory.glob(pattern)):
        raise UserError(f"{directory}: {pickles[0]} is a pickle, which can run code when loaded; convert it to safetensors")
    raise UserError(f"{directory}: no *.safetensors file")


def target_digest(reference: dict | str) -> str:
    """SHA-256 (hex) over configuration, weights and tokenizer: what decides the outputs, wherever it lies."""
    directory = target_directory(reference)
    files = [directory / name for name in SMALL_FILES]
    digest = hashlib.sha256()
    for path in [path for path in files if path.exists()] + weight_files(directory):
        with open(path, "rb") as file:
            digest.update(f"{path.name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()
