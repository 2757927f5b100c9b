"""Mixture-of-experts layer with the grouped sigmoid routing of LLaDA2.0 (BailingMoeV2)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workers.targets.config import ExpertsConfig


class Router(nn.Module):
    """Chooses experts and their weights; its parameters stay fp32 whatever the model's dtype."""

    def __init__(self, config: ExpertsConfig, hidden_size: int):
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(torch.zeros(config.count, hidden_size, dtype=torch.float32))
        self.bias = nn.Parameter(torch.zeros(config.count, dtype=torch.float32))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """For tokens x [N, hidden] the chosen experts int64 [N, per_token] and their weights fp32.

        The bias takes part in the choice only. A group's score is the sum of its two best experts.
        """
        config = self.config
        scores = torch.sigmoid(x.float() @ self.weight.T)
        choice = (scores + self.bias).view(len(x), config.groups, -1)
        groups = choice.topk(min(2, choice.shape[-1]), dim=-1).values.sum(dim=-1)
        kept = torch.zeros_like(groups, dtype=torch.bool).scatter_(1, groups.topk(config.groups_kept, dim=-1).indices, True)
        chosen = choice.masked_fill(~kept[..., None], -torch.inf).flatten(1).topk(config.per_token, dim=-1).indices
        weights = scores.gather(1, chosen)
        return chosen, weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * config.scale


class Experts(nn.Module):
    """Routed and shared SwiGLU experts; `gate_up` [E, 2 x size, hidden] holds gates, then ups, of every expert."""

    def __init__(self, config: ExpertsConfig, hidden_size: int):
        super().__init__()
        self.router = Router(config, hidden_size)
        self.gate_up = nn.Parameter(torch.empty(config.count, 2 * config.intermediate_size, hidden_size))
        self.down = nn.Parameter(torch.empty(config.count, hidden_size, config.intermediate_size))
        self.shared_gate_up = nn.Linear(hidden_size, 2 * config.shared_size, bias=False)
        self.shared_down = nn.Linear(config.shared_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., hidden]; the experts' outputs are combined in fp32 and cast back before the shared one is added."""
        flat = x.reshape(-1, x.shape[-1])
        chosen, weights = self.router(flat)
        expert, order = chosen.flatten().sort(stable=True)
        ends = torch.searchsorted(expert, torch.arange(len(self.gate_up), device=x.device), right=True, out_int32=True)
        gate, up = F.grouped_mm(flat[order // chosen.shape[1]], self.gate_up.mT, offs=ends).chunk(2, dim=-1)
        sorted_outputs = F.grouped_mm(F.silu(gate) * up, self.down.mT, offs=ends)
        # Back in the order of the choice, so that every sum has a fixed order.
        outputs = torch.empty_like(sorted_outputs).index_copy_(0, order, sorted_outputs).view(*chosen.shape, -1)
        routed = (outputs.float() * weights[..., None]).sum(dim=1)
        gate, up = self.shared_gate_up(flat).chunk(2, dim=-1)
        return (routed.to(x.dtype) + self.shared_down(F.silu(gate) * up)).view_as(x)
