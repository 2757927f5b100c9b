"""The shape of a target's transformer, as plain data (no torch)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExpertsConfig:
    """Mixture of experts with grouped sigmoid routing, in every layer from `first_layer` on.

    `count` experts in `groups` equal groups, of which a token may use `groups_kept`; `per_token` experts of size
    `intermediate_size` each, weighted to sum to `scale`, and shared ones of `shared_size` together.
    """

    count: int
    per_token: int
    groups: int
    groups_kept: int
    intermediate_size: int
    shared_size: int
    scale: float
    first_layer: int


@dataclass(frozen=True)
class TransformerConfig:
    """Shape of a decoder-style transformer; sizes are counts, `rope_theta` and `norm_eps` are unitless.

    `rotary_dim`: the first dimensions of a head that RoPE turns (None: all); `rope_fp32`: it turns them in fp32
    whatever the model's dtype. `qk_norm`: RMS norm of every query and key head before RoPE.
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    max_positions: int
    rope_theta: float = 1e6
    norm_eps: float = 1e-6
    qk_norm: bool = True
    qkv_bias: bool = False
    rotary_dim: int | None = None
    rope_fp32: bool = False
    experts: ExpertsConfig | None = None

    def has_experts(self, layer: int) -> bool:
        return self.experts is not None and layer >= self.experts.first_layer
