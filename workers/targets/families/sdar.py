"""SDAR 1.7B, 4B and 8B (arXiv 2510.06303): Qwen3 with an untied head, block-causal; also the embedded target."""

from __future__ import annotations

from workers.targets.families.family import Family

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

SDAR = Family(
    name="sdar",
    model_type="sdar",
    architecture="SDARForCausalLM",
    attention="block-causal",
    shift=False,
    mask_tokens=("<|MASK|>", "<MASK>"),  # tokenizer_config.json and added_tokens.json spell it differently
    mask_id=151669,
    stop_tokens=("<|im_end|>", "<|endoftext|>"),
    mark="model.layers.0.self_attn.q_norm.weight",
    fields=FIELDS,
    fixed={
        "hidden_act": "silu",
        "attention_bias": False,
        "rope_scaling": None,
        "sliding_window": None,
        "tie_word_embeddings": False,
    },
    top=TOP,
    prefix="model.layers.{}.",
    layer=lambda config, index: LAYER,
)
