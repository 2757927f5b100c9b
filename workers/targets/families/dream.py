"""Dream-v0-Instruct-7B (arXiv 2508.15487): Qwen2 with full attention; row i - 1 of the logits predicts token i."""

from __future__ import annotations

from workers.targets.families import sdar
from workers.targets.families.family import Family

LAYER = {
    **{ours: theirs for ours, theirs in sdar.LAYER.items() if ours not in ("q_norm.weight", "k_norm.weight")},
    "qkv.bias": ("self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"),
}

DREAM = Family(
    name="dream",
    model_type="Dream",
    architecture="DreamModel",
    attention="full",
    shift=True,
    mask_tokens=("<|mask|>",),
    mask_id=151666,
    stop_tokens=("<|endoftext|>", "<|im_end|>"),
    mark="model.layers.0.self_attn.q_proj.bias",
    fields={ours: theirs for ours, theirs in sdar.FIELDS.items() if ours != "head_dim"},
    fixed={
        "hidden_act": "silu",
        "rope_scaling": None,
        "use_sliding_window": False,
        "tie_word_embeddings": False,
    },
    top=sdar.TOP,
    prefix="model.layers.{}.",
    layer=lambda config, index: LAYER,
    extend=lambda published: {
        "head_dim": published["hidden_size"] // published["num_attention_heads"],
        "qk_norm": False,
        "qkv_bias": True,
    },
)
