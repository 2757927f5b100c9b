"""LLaDA2.0-mini (arXiv 2512.15745; BailingMoeV2): block-causal, partial RoPE, experts behind a dense first layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.targets.config import ExpertsConfig, TransformerConfig
from workers.targets.families import sdar
from workers.targets.families.family import Family

ATTENTION = {
    "attention_norm.weight": ("input_layernorm.weight",),
    "qkv.weight": ("attention.query_key_value.weight",),
    "q_norm.weight": ("attention.query_layernorm.weight",),
    "k_norm.weight": ("attention.key_layernorm.weight",),
    "out.weight": ("attention.dense.weight",),
    "mlp_norm.weight": ("post_attention_layernorm.weight",),
}
DENSE = {
    "gate_up.weight": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    "down.weight": ("mlp.down_proj.weight",),
}
ROUTED = {
    "experts.router.weight": ("mlp.gate.weight",),
    "experts.router.bias": ("mlp.gate.expert_bias",),
    "experts.shared_gate_up.weight": ("mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight"),
    "experts.shared_down.weight": ("mlp.shared_experts.down_proj.weight",),
}


def layer_names(config: TransformerConfig, index: int) -> Mapping[str, tuple[str, ...]]:
    if not config.has_experts(index):
        return ATTENTION | DENSE
    each = [f"mlp.experts.{expert}." for expert in range(config.experts.count)]
    return {
        **ATTENTION,
        **ROUTED,
        "experts.gate_up": tuple(prefix + name for prefix in each for name in ("gate_proj.weight", "up_proj.weight")),
        "experts.down": tuple(prefix + "down_proj.weight" for prefix in each),
    }


def read_extras(published: Mapping[str, Any]) -> dict[str, Any]:
    experts = ExpertsConfig(
        count=published["num_experts"],
        per_token=published["num_experts_per_tok"],
        groups=published["n_group"],
        groups_kept=published["topk_group"],
        intermediate_size=published["moe_intermediate_size"],
        shared_size=published["num_shared_experts"] * published["moe_intermediate_size"],
        scale=published["routed_scaling_factor"],
        first_layer=published["first_k_dense_replace"],
    )
    return {"rotary_dim": int(published["head_dim"] * published["partial_rotary_factor"]), "experts": experts}


def publish_extras(config: TransformerConfig) -> dict[str, Any]:
    experts = config.experts
    return {
        "partial_rotary_factor": config.rotary_dim / config.head_dim,
        "num_experts": experts.count,
        "num_experts_per_tok": experts.per_token,
        "n_group": experts.groups,
        "topk_group": experts.groups_kept,
        "moe_intermediate_size": experts.intermediate_size,
        "num_shared_experts": experts.shared_size // experts.intermediate_size,
        "routed_scaling_factor": experts.scale,
        "first_k_dense_replace": experts.first_layer,
    }


LLADA2 = Family(
    name="llada2",
    model_type="llada2_moe",
    architecture="LLaDA2MoeModelLM",
    attention="block-causal",
    shift=False,
    mask_tokens=("<|mask|>",),
    mask_id=156895,
    stop_tokens=("<|endoftext|>", "<|role_end|>"),
    mark="model.word_embeddings.weight",
    fields=sdar.FIELDS,
    fixed={
        "hidden_act": "silu",
        "use_bias": False,
        "use_qkv_bias": False,
        "rope_scaling": None,
        "use_sliding_window": False,
        "tie_word_embeddings": False,
        "score_function": "sigmoid",
        "norm_topk_prob": True,
        "moe_router_enable_expert_bias": True,
    },
    top={**sdar.TOP, "embed.weight": "model.word_embeddings.weight"},
    prefix="model.layers.{}.",
    layer=layer_names,
    extend=read_extras,
    published_extras=publish_extras,
)
