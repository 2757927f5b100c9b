"""Writing a target directory in the layout of the published SDAR checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from workers.targets.sdar import published_config, split_weights
from workers.targets.tokenizer import MASK, STOP
from workers.targets.transformer import TransformerConfig


def write_target(
    out: Path, weights: dict[str, Tensor], config: TransformerConfig, block_length: int, tokenizer: Tokenizer
) -> None:
    """Write config.json, model.safetensors (bf16) and the tokenizer into the existing directory `out`."""
    special = (tokenizer.token_to_id(MASK), tokenizer.token_to_id(STOP))
    (out / "config.json").write_text(json.dumps(published_config(config, block_length, *special), indent=2) + "\n")
    rounded = {name: tensor.bfloat16().contiguous() for name, tensor in split_weights(weights, config).items()}
    save_file(rounded, out / "model.safetensors", {"format": "pt"})
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=STOP,
        pad_token=STOP,
        mask_token=MASK,
        clean_up_tokenization_spaces=False,
        model_max_length=config.max_positions,
    ).save_pretrained(out)
