"""Writing weights under their published names, and an embedded target's directory."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from workers.targets.config import TransformerConfig
from workers.targets.families import Family
from workers.targets.tokenizer import MASK, STOP


def write_target(
    out: Path,
    family: Family,
    weights: dict[str, Tensor],
    config: TransformerConfig,
    block_length: int,
    tokenizer: Tokenizer,
) -> None:
    """Write config.json, model.safetensors (bf16) and the tokenizer into the existing directory `out`."""
    mask_id, stop_id = tokenizer.token_to_id(MASK), tokenizer.token_to_id(STOP)
    ids = {"block_size": block_length, "mask_token_id": mask_id, "eos_token_id": stop_id, "pad_token_id": stop_id}
    (out / "config.json").write_text(json.dumps(family.publish_config(config) | ids, indent=2) + "\n")
    published = {name: tensor.bfloat16() for name, tensor in published_weights(family, weights, config).items()}
    save_file(published, out / "model.safetensors", {"format": "pt"})
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=STOP,
        pad_token=STOP,
        mask_token=MASK,
        clean_up_tokenization_spaces=False,
        model_max_length=config.max_positions,
    ).save_pretrained(out)


def published_weights(family: Family, weights: dict[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Copies of our tensors under their published names."""
    published = {}
    for ours, theirs in family.parts(config).items():
        rows = weights[ours].flatten(0, -2) if weights[ours].dim() > 2 else weights[ours]
        published.update(zip(theirs, map(Tensor.clone, rows.split(list(theirs.values())))))
    return published
