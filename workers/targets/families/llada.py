"""LLaDA-8B-Instruct (arXiv 2502.09992): Llama-like with OLMo's names, full attention, RoPE in fp32."""

from __future__ import annotations

from workers.targets.families.family import Family

LAYER = {
    "attention_norm.weight": ("attn_norm.weight",),
    "qkv.weight": ("q_proj.weight", "k_proj.weight", "v_proj.weight"),
    "out.weight": ("attn_out.weight",),
    "mlp_norm.weight": ("ff_norm.weight",),
    "gate_up.weight": ("ff_proj.weight", "up_proj.weight"),
    "down.weight": ("ff_out.weight",),
}

LLADA = Family(
    name="llada",
    model_type="llada",
    architecture="LLaDAModelLM",
    attention="full",
    shift=False,
    mask_tokens=("<|mdm_mask|>",),
    mask_id=126336,
    stop_tokens=("<|endoftext|>", "<|eot_id|>"),
    mark="model.transformer.wte.weight",
    fields={
        "vocab_size": "embedding_size",
        "hidden_size": "d_model",
        "num_layers": "n_layers",
        "num_heads": "n_heads",
        "num_kv_heads": "n_kv_heads",
        "intermediate_size": "mlp_hidden_size",
        "max_positions": "max_sequence_length",
        "rope_theta": "rope_theta",
        "norm_eps": "rms_norm_eps",
    },
    fixed={
        "block_type": "llama",
        "activation_type": "silu",
        "layer_norm_type": "rms",
        "rope": True,
        "rope_full_precision": True,
        "alibi": False,
        "attention_layer_norm": False,
        "include_bias": False,
        "include_qkv_bias": False,
        "input_emb_norm": False,
        "scale_logits": False,
        "weight_tying": False,
    },
    top={
        "embed.weight": "model.transformer.wte.weight",
        "norm.weight": "model.transformer.ln_f.weight",
        "head.weight": "model.transformer.ff_out.weight",
    },
    prefix="model.transformer.blocks.{}.",
    layer=lambda config, index: LAYER,
    extend=lambda published: {
        "head_dim": published["d_model"] // published["n_heads"],
        "qk_norm": False,
        "rope_fp32": True,
    },
    published_extras=lambda config: {"vocab_size": config.vocab_size},
)
