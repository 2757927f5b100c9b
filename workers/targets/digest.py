"""Where a target lives and what it is, without loading it (no torch)."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path

from workers.errors import UserError

PACKAGED = {name: Path(__file__).with_name(name) for name in ("tiny-sdar", "tiny-llada")}
# The packaged target from whose weights the training of another goes on.
STARTS = {"tiny-llada": "tiny-sdar"}
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
HUB = "hub:"
FETCHED = ["*.json", "*.safetensors", "*.jinja", "merges.txt"]
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def target_directory(reference: dict | str) -> Path:
    """Directory of a reference: a packaged name, a path, or {"checkpoint": path, "name": label}.

    The path "hub:OWNER/NAME" or "hub:OWNER/NAME@REVISION" is a repository of the Hugging Face hub, fetched the first
    time it is named. Raises UserError if there is no such directory, or it cannot be fetched.
    """
    place = reference["checkpoint"] if isinstance(reference, dict) else reference
    if place.startswith(HUB):
        return _fetch(place)
    directory = PACKAGED.get(place) or Path(place).expanduser()
    if not directory.is_dir():
        raise UserError(f"target '{place}': no such directory, and packaged targets are {', '.join(sorted(PACKAGED))}")
    return directory


@cache
def _fetch(place: str) -> Path:
    """The local snapshot of a hub repository; only what `load_target` reads is downloaded, no code."""
    from huggingface_hub import snapshot_download

    name, _, revision = place.removeprefix(HUB).partition("@")
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=FETCHED))
    except Exception as error:  # the library raises a dozen kinds
        reason = " ".join(str(error).split()).split(". ")[0]
        raise UserError(f"target '{place}': not in the local cache and cannot be fetched ({reason})") from None


def target_name(reference: dict | str) -> str:
    """The label of a reference: its own, or the last part of its path."""
    if isinstance(reference, dict) and reference.get("name"):
        return reference["name"]
    place = reference["checkpoint"] if isinstance(reference, dict) else reference
    if place.startswith(HUB):
        return place.partition("@")[0].rpartition("/")[2]
    return reference if reference in PACKAGED else target_directory(reference).resolve().name


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a target, those of its index if it has one; raises UserError if there are none, or not
    all.

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


def tokenizer_file(directory: Path) -> Path:
    """tokenizer.json, or vocab.json (beside merges.txt), which Dream has instead; raises UserError if there is neither."""
    if (directory / "tokenizer.json").exists():
        return directory / "tokenizer.json"
    if (directory / "vocab.json").exists() and (directory / "merges.txt").exists():
        return directory / "vocab.json"
    raise UserError(f"{directory / 'tokenizer.json'}: no such file; a target has one, or vocab.json and merges.txt")


def target_digest(reference: dict | str) -> str:
    """SHA-256 (hex) over configuration, weights and tokenizer: what decides the outputs, wherever it lies."""
    directory = target_directory(reference)
    files = [directory / name for name in SMALL_FILES]
    digest = hashlib.sha256()
    for path in [path for path in files if path.exists()] + weight_files(directory):
        digest.update(f"{path.name}\0{_sha256(path)}\n".encode())
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    """Of a file's content. The hub's cache names its large files by it, which saves reading them."""
    blob = path.resolve()
    if blob.parent.name == "blobs" and re.fullmatch("[0-9a-f]{64}", blob.name):
        return blob.name
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
