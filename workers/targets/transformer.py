"""One compact transformer for every diffusion LM: explicit positions, masks and key/value cache."""

from __future__ import annotations

from functools import cache
from typing import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workers.targets.config import TransformerConfig
from workers.targets.experts import Experts


# (q, k, v) [B, heads, Q or K, D] -> mixed values [B, heads, Q, D].
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


class KVCache:
    """Keys and values of the first `length` positions of `batch` sequences, preallocated.

    Keys are stored after RoPE. A forward over fewer rows than `batch` uses the first ones. A cache of batch 1 serves
    any number of replicas of its sequence, at the price of copying the prefix in every forward; a cache with one row
    per replica, kept equal by `replicate`, saves the copies.
    """

    def __init__(self, config: TransformerConfig, batch: int, capacity: int, device: torch.device, dtype: torch.dtype):
        shape = (config.num_layers, 2, batch, config.num_kv_heads, capacity, config.head_dim)
        self.data = torch.zeros(shape, device=device, dtype=dtype)
        self.length = 0
        self._views_of: dict[tuple[int, int], list[tuple[Tensor, Tensor, Tensor, Tensor]]] = {}
        self._views_length = 0

    @property
    def capacity(self) -> int:
        return self.data.shape[4]

    def extend(self, layer: int, k: Tensor, v: Tensor, store: int) -> tuple[Tensor, Tensor]:
        """Cached keys and values followed by `k`, `v` [B, H, Q, D]; the first `store` of them are kept.

        The caller advances `length` once all layers have run.
        """
        rows, queries = k.shape[0], k.shape[2]
        if rows <= self.data.shape[2] and self.length + queries <= self.capacity:
            # Scratch space behind `length` saves a copy of the whole prefix.
            new_k, new_v, all_k, all_v = self._views(rows, queries)[layer]
            new_k.copy_(k)
            new_v.copy_(v)
            return all_k, all_v
        if store:
            raise ValueError(f"cannot store {store} positions behind {self.length}: capacity is {self.capacity}")
        prefix_k, prefix_v = self.data[layer, :, :rows, :, : self.length].expand(-1, rows, -1, -1, -1)
        return torch.cat([prefix_k, k], dim=2), torch.cat([prefix_v, v], dim=2)

    def _views(self, rows: int, queries: int) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Per layer the scratch space of keys and values, then prefix and scratch; slicing anew would cost more."""
        if self._views_length != self.length:
            self._views_of, self._views_length = {}, self.length
        if (rows, queries) not in self._views_of:
            end = self.length + queries
            self._views_of[rows, queries] = [
                (
                    layer[0, :rows, :, self.length : end],
                    layer[1, :rows, :, self.length : end],
                    layer[0, :rows, :, :end],
                    layer[1, :rows, :, :end],
                )
                for layer in self.data
            ]
        return self._views_of[rows, queries]

    def replicate(self, start: int) -> None:
        """Copy positions start .. length - 1 of the first row to every other row."""
        self.data[:, :, 1:, :, start : self.length] = self.data[:, :, :1, :, start : self.length]


def rope_table(config: TransformerConfig) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines [max_positions, rotary_dim] of the rotate-half convention, fp32, for `rotate`."""
    width = config.rotary_dim or config.head_dim
    exponent = torch.arange(0, width, 2, dtype=torch.float64) / width
    angles = torch.outer(torch.arange(config.max_positions, dtype=torch.float64), config.rope_theta**-exponent)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([cos, cos], dim=-1).float(), torch.cat([-sin, sin], dim=-1).float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the first R dimensions of x [..., D] by the broadcastable rows cos, sin [..., R] of `rope_table`.

    Computed in the dtype of cos and sin, returned in that of x.
    """
    width = cos.shape[-1]
    if width < x.shape[-1]:
        return torch.cat([rotate(x[..., :width], cos, sin), x[..., width:]], dim=-1)
    return torch.addcmul(x * cos, x.roll(width // 2, dims=-1), sin).to(x.dtype)


def normalise(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm over the last dimension; `weight` [D] or [heads, D] broadcasts to x."""
    if x.dtype == torch.float32 and x.device.type == "cpu":
        # Small forwards on a CPU are bound by the number of operations, and PyTorch's own norm there is made of ten.
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x * torch.addcmul(constant(eps), norm, norm, value=1 / x.shape[-1]).rsqrt_() * weight
    if weight.dim() == 1:
        return F.rms_norm(x, x.shape[-1:], weight, eps)
    return F.rms_norm(x, x.shape[-1:], None, eps) * weight


@cache
def constant(value: float) -> Tensor:
    """A scalar fp32 tensor on the CPU."""
    return torch.tensor(value)


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension, of `size` (see `normalise`)."""

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return normalise(x, self.weight, self.eps)


class Layer(nn.Module):
    """Pre-norm attention, grouped where there are fewer key heads, then a gated feed-forward or experts."""

    def __init__(self, config: TransformerConfig, index: int):
        super().__init__()
        self.heads = (config.num_heads, config.num_kv_heads, config.num_kv_heads)
        self.head_dim = config.head_dim
        self.qk_norm = config.qk_norm
        self.has_experts = config.has_experts(index)
        query = config.num_heads * config.head_dim
        self.attention_norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.qkv = nn.Linear(config.hidden_size, sum(self.heads) * config.head_dim, bias=config.qkv_bias)
        if self.qk_norm:
            self.q_norm = RMSNorm(config.head_dim, config.norm_eps)
            self.k_norm = RMSNorm(config.head_dim, config.norm_eps)
        self.out = nn.Linear(query, config.hidden_size, bias=False)
        self.mlp_norm = RMSNorm(config.hidden_size, config.norm_eps)
        if self.has_experts:
            self.experts = Experts(config.experts, config.hidden_size)
        else:
            self.gate_up = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
            self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def attend(self, x: Tensor, rope: tuple[Tensor, Tensor], mask, cache, index: int, store: int) -> Tensor:
        """Normed x [B, Q, hidden] -> [B, Q, hidden]; rope: cosines and sines of its positions; mask, cache and store as
        in `Transformer.forward`; index: this layer's place in the cache."""
        batch, length, _ = x.shape
        heads, kv_heads, _ = self.heads
        qk, v = self.qkv(x).view(batch, length, -1, self.head_dim).split((heads + kv_heads, kv_heads), dim=2)
        if self.qk_norm:
            weight = torch.cat([self.q_norm.weight.expand(heads, -1), self.k_norm.weight.expand(kv_heads, -1)])
            qk = normalise(qk, weight, self.q_norm.eps)
        qk = rotate(qk, *rope)
        q, k = qk.transpose(1, 2).split((heads, kv_heads), dim=1)
        v = v.transpose(1, 2)
        if cache is not None:
            k, v = cache.extend(index, k, v, store)
        if callable(mask):
            mixed = mask(q, k, v)
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=heads != kv_heads)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], mask, cache, index: int, store: int) -> Tensor:
        """x [B, Q, hidden] -> [B, Q, hidden]; see `attend`."""
        x = x + self.attend(self.attention_norm(x), rope, mask, cache, index, store)
        h = self.mlp_norm(x)
        if self.has_experts:
            return x + self.experts(h)
        gate, up = self.gate_up(h).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Transformer(nn.Module):
    """Transformer of all target families, without a built-in mask: the caller says who sees whom.

    With the defaults of its configuration and the block-causal mask it is SDAR (arXiv 2510.06303).
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        cos, sin = rope_table(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor | Attention | None = None,
        cache: KVCache | None = None,
        store: int = 0,
        keep: int | None = None,
        select: Tensor | None = None,
    ) -> Tensor:
        """Logits [B, Q or keep, V] in the model's dtype.

        tokens [B, Q] and positions [Q] or [B, Q] are int64; `mask` is bool, broadcastable to [B, heads, Q, K], True
        where the query sees the key (None: everything), with K = cache.length + Q. The first `store` of the Q positions
        stay in the cache. `keep` restricts the logits to the last `keep` positions; `select` (bool [B, Q]) to N
        positions, whose logits are then [N, V]. A function in place of the mask computes the attention itself.
        """
        x = self.embed(tokens)
        dtype = torch.float32 if self.config.rope_fp32 else x.dtype
        rope = (self.cos[positions].unsqueeze(-2).to(dtype), self.sin[positions].unsqueeze(-2).to(dtype))
        for index, layer in enumerate(self.layers):
            x = layer(x, rope, mask, cache, index, store)
        if store:
            cache.length += store
        if keep is not None:
            x = x[:, -keep:] if keep else x[:, :0]
        if select is not None:
            x = x[select]
        return self.head(self.norm(x))


def block_causal_mask(positions: Tensor, block_length: int, keys: Tensor | None = None) -> Tensor:
    """Bool [Q, K]: i sees j iff block(j) <= block(i), blocks aligned to absolute position 0."""
    keys = positions if keys is None else keys
    return (keys // block_length)[None, :] <= (positions // block_length)[:, None]
