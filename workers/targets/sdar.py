"""SDAR (arXiv 2510.06303): config.json and tensor names of the published checkpoints, to and from our shapes."""

from __future__ import annotations

import torch
from torch import Tensor

from workers.errors import UserError
from workers.targets.transformer import TransformerConfig

FIELDS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "intermediate_size": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "rope_theta": "rope_theta",
    "norm_eps": "rms_norm_eps",
}
# What the architecture leaves no choice in; absent means the same.
FIXED = {
    "model_type": "sdar",
    "hidden_act": "silu",
    "attention_bias": False,
    "rope_scaling": None,
    "sliding_window": None,
    "tie_word_embeddings": False,
}
TOP = {"embed.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight", "head.weight": "lm_head.weight"}
LAYER = {
    "attention_norm.weight": ("input_layernorm.weight",),
    "qkv.weight": ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"),
    "q_norm.weight": ("self_attn.q_norm.weight",),
    "k_norm.weight": ("self_attn.k_norm.weight",),
    "out.weight": ("self_attn.o_proj.weight",),
    "mlp_norm.weight": ("post_attention_layernorm.weight",),
    "gate_up.weight": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    "down.weight": ("mlp.down_proj.weight",),
}


def read_config(published: dict, where: str) -> TransformerConfig:
    """Our shape from a config.json; raises UserError that names what is missing or not supported."""
    if missing := [theirs for theirs in FIELDS.values() if published.get(theirs) is None]:
        raise UserError(f"{where}: missing {', '.join(missing)}; a config.json of an SDAR checkpoint has them")
    for key, value in FIXED.items():
        if published.get(key, value) != value:
            raise UserError(f"{where}: {key} is {published[key]!r}, an SDAR target needs {value!r}")
    config = TransformerConfig(**{ours: published[theirs] for ours, theirs in FIELDS.items()})
    if config.num_heads % config.num_kv_heads or config.head_dim % 2:
        raise UserError(f"{where}: heads must be a multiple of key/value heads, and head_dim even")
    return config


def published_config(config: TransformerConfig, block_length: int, mask_id: int, stop_id: int) -> dict:
    """The config.json of a model of this shape."""
    return {
        "architectures": ["SDARForCausalLM"],
        **FIXED,
        **{theirs: getattr(config, ours) for ours, theirs in FIELDS.items()},
        "torch_dtype": "bfloat16",
        "block_size": block_length,
        "mask_token_id": mask_id,
        "eos_token_id": stop_id,
        "pad_token_id": stop_id,
    }


def published_names(config: TransformerConfig) -> dict[str, tuple[str, ...]]:
    """Our name -> the published names whose rows it holds, in order."""
    names = {ours: (theirs,) for ours, theirs in TOP.items()}
    for layer in range(config.num_layers):
        for ours, theirs in LAYER.items():
            names[f"layers.{layer}.{ours}"] = tuple(f"model.layers.{layer}.{name}" for name in theirs)
    return names


def row_counts(config: TransformerConfig, ours: str) -> list[int] | None:
    """Rows of each published part of a fused matrix; None if the matrix is not fused."""
    if ours.endswith("qkv.weight"):
        return [config.num_heads * config.head_dim] + [config.num_kv_heads * config.head_dim] * 2
    return [config.intermediate_size] * 2 if ours.endswith("gate_up.weight") else None


def published_shapes(config: TransformerConfig, ours: dict[str, torch.Size]) -> dict[str, tuple[int, ...]]:
    """Shape of every published tensor, from the shapes of our own."""
    shapes = {}
    for name, theirs in published_names(config).items():
        counts = row_counts(config, name) or [ours[name][0]]
        shapes.update({part: (rows, *ours[name][1:]) for part, rows in zip(theirs, counts)})
    return shapes


def split_weights(weights: dict[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Our tensors under their published names."""
    published = {}
    for ours, theirs in published_names(config).items():
        counts = row_counts(config, ours)
        published.update(zip(theirs, weights[ours].split(counts) if counts else [weights[ours]]))
    return published
