"""Tiny targets with random weights: real forwards in well under a millisecond."""

from __future__ import annotations

import torch

from workers.targets.target import Target
from workers.targets.transformer import Transformer, TransformerConfig


def random_target(
    seed: int = 0,
    layers: int = 2,
    hidden: int = 32,
    vocab: int = 48,
    block_length: int = 8,
    max_positions: int = 256,
    sharpness: float = 6.0,
) -> Target:
    """A block-causal target, fp32 on the CPU; mask id vocab - 1, stop id 0, no tokenizer.

    `sharpness` scales the head, so that distributions are far from flat and stale argmaxes often right.
    """
    generator = torch.Generator().manual_seed(seed)
    config = TransformerConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        num_layers=layers,
        num_heads=4,
        num_kv_heads=2,
        head_dim=hidden // 4,
        intermediate_size=2 * hidden,
        max_positions=max_positions,
    )
    model = Transformer(config).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / parameter.shape[-1] ** 0.5)
    model.embed.weight.mul_(hidden**0.5)
    model.head.weight.mul_(sharpness / 2)
    return Target(
        name=f"random-{seed}",
        model=model,
        tokenizer=None,
        block_length=block_length,
        mask_id=vocab - 1,
        stop_ids=frozenset({0}),
    )
