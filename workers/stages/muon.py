"""Muon on hidden matrices, AdamW on the rest, with fp32 master weights of a bf16 model.

Muon: K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024): momentum, orthogonalised by a
quintic Newton-Schulz iteration.
"""

from __future__ import annotations

import torch
from torch import Tensor

from workers.targets.transformer import Transformer

BETAS = (0.9, 0.95)
MOMENTUM = 0.95


def orthogonalise(matrices: Tensor, iterations: int = 5) -> Tensor:
    """Nearest semi-orthogonal matrices of a stack [N, rows, columns], to about 30 % in the singular values, bf16."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = (matrices.mT if tall else matrices).bfloat16()
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.mT if tall else x


class MuonAdamW:
    """Optimizer state of one model; `state()` and `load(...)` are flat dictionaries of tensors."""

    def __init__(self, model: Transformer, muon_lr: float, adam_lr: float):
        self.lrs = (muon_lr, adam_lr)
        self.parameters = dict(model.named_parameters())
        self.masters = {name: p.detach().float().clone() for name, p in self.parameters.items()}
        self.matrices = [name for name, p in self.parameters.items() if p.ndim == 2 and name.startswith("layers.")]
        self.others = [name for name in self.parameters if name not in self.matrices]
        self.first = {name: torch.zeros_like(p) for name, p in self.masters.items()}
        self.second = {name: torch.zeros_like(self.masters[name]) for name in self.others}
        width = model.config.head_dim
        heads = [model.config.num_heads * width] + [model.config.num_kv_heads * width] * 2
        self.parts = {"qkv": heads, "gate_up": [model.config.intermediate_size] * 2}

    @torch.no_grad()
    def step(self, number: int, scale: float) -> None:
        """Update `number` (from 1) at `scale` times the learning rates; gradients are consumed."""
        self._muon(self.lrs[0] * scale)
        self._adam(self.lrs[1] * scale, number)
        for name, parameter in self.parameters.items():
            parameter.copy_(self.masters[name])
            parameter.grad = None

    def _muon(self, lr: float) -> None:
        """Fused matrices are orthogonalised part by part; equal shapes go through the iteration as one stack."""
        stacks: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
        for name in self.matrices:
            gradient = self.parameters[name].grad.float()
            momentum = self.first[name].lerp_(gradient, 1 - MOMENTUM)
            update = gradient.lerp(momentum, MOMENTUM)
            rows = self.parts.get(name.split(".")[-2], [update.shape[0]])
            for target, part in zip(self.masters[name].split(rows), update.split(rows)):
                stacks.setdefault(tuple(part.shape), []).append((target, part))
        for (rows, columns), pairs in stacks.items():
            updates = orthogonalise(torch.stack([part for _, part in pairs]))
            for (target, _), update in zip(pairs, updates):
                target.add_(update, alpha=-lr * max(1.0, rows / columns) ** 0.5)

    def _adam(self, lr: float, number: int) -> None:
        for name in self.others:
            gradient = self.parameters[name].grad.float()
            first = self.first[name].lerp_(gradient, 1 - BETAS[0])
            second = self.second[name].lerp_(gradient.square(), 1 - BETAS[1])
            scaled = (first / (1 - BETAS[0] ** number)) / ((second / (1 - BETAS[1] ** number)).sqrt() + 1e-8)
            self.masters[name].add_(scaled, alpha=-lr)

    def state(self) -> dict[str, Tensor]:
        named = {"master": self.masters, "first": self.first, "second": self.second}
        return {f"{kind}/{name}": tensor for kind, tensors in named.items() for name, tensor in tensors.items()}

    @torch.no_grad()
    def load(self, state: dict[str, Tensor]) -> None:
        for key, tensor in self.state().items():
            tensor.copy_(state[key])
        for name, parameter in self.parameters.items():
            parameter.copy_(self.masters[name])
