"""The accept-residual rule: a token drawn from one law becomes a token of another (SPOT, section B.1)."""

from __future__ import annotations

import torch
from torch import Tensor


def tempered(logits: Tensor, temperature: float) -> Tensor:
    """float64 [..., V]: the law that tokens are drawn from at temperature T > 0."""
    return torch.softmax(logits.double() / temperature, dim=-1)


def draw(law: Tensor, uniform: Tensor) -> Tensor:
    """int64 [..., N]: the tokens at quantiles `uniform` [..., N] of weights `law` float64 [..., V], not all zero.

    A token of weight zero is never drawn.
    """
    cumulated = law.cumsum(dim=-1)
    total = cumulated[..., -1:]
    token = torch.searchsorted(cumulated, (uniform * total).contiguous(), right=True)
    # Rounding may put a quantile just below 1 at the total.
    return torch.where(token < law.shape[-1], token, law.argmax(dim=-1, keepdim=True))


def accept_residual(
    target: Tensor, proposal: Tensor, token: Tensor, accept: Tensor, residual: Tensor
) -> tuple[Tensor, Tensor]:
    """Correct N draws `token` [N] of `proposal` into draws of `target`, laws float64 [V] (SPOT, equations 13 and 14).

    A draw is accepted with probability min(1, target / proposal), else replaced by one of (target - proposal)+. accept,
    residual: uniforms [N]. Returns committed tokens int64 [N] and accepted bool [N]; the share of accepted draws is
    1 - TV(target, proposal), the most any rule can reach.
    """
    accepted = accept * proposal[token] < target[token]
    left = (target - proposal).clamp_min(0)
    if not left.any():
        return token, torch.ones_like(accepted)
    return torch.where(accepted, token, draw(left, residual)), accepted
