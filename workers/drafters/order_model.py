"""The order model q(s | y): which position the target commits next, given a hypothetical prefix (SPOT, section 4.2)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from workers.drafters.features import (
    PATH_FEATURES,
    RANKS,
    TOP,
    Roots,
    path_features,
    remaining_rank,
    static_features,
    static_size,
)
from workers.errors import UserError


@dataclass(frozen=True)
class OrderModelConfig:
    """Shape of the encoder. The defaults are the paper's: three layers, width 128, eight heads, 0.6 M parameters.

    `root_layers` of the layers run once per root, before the prefix is known; 0 is the paper's model.
    """

    layers: int = 3
    width: int = 128
    heads: int = 8
    top: int = 32
    root_layers: int = 0

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise UserError(f"order model: width {self.width} is not a multiple of heads {self.heads}")
        if not 1 <= self.top <= TOP:
            raise UserError(f"order model: top {self.top} must be from 1 to {TOP}, the number of probabilities collected")
        if not 0 <= self.root_layers < self.layers:
            raise UserError(f"order model: root_layers {self.root_layers} must be below layers {self.layers}")


class EncoderLayer(nn.Module):
    """Pre-norm self-attention over the masked positions, then a feed-forward of width 4d."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """fp32 [B, M, width] -> [B, M, width]; every position sees all of its row."""
        rows, masked, width = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(rows, masked, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, masked, width))
        return x + self.down(F.gelu(self.up(self.feed_norm(x)), approximate="tanh"))


class OrderModel(nn.Module):
    """Encoder over the positions masked at the root.

    Its logit is a learned prior on the rank in the stale confidence order plus a correction, so that an untrained model
    already ranks positions as stale confidence does.
    """

    def __init__(self, config: OrderModelConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Linear(static_size(config.top), config.width)
        self.embed_path = nn.Linear(PATH_FEATURES, config.width, bias=False)
        self.layers = nn.ModuleList(EncoderLayer(config.width, config.heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, 1, bias=False)
        nn.init.zeros_(self.head.weight)
        self.rank_prior = nn.Parameter(-0.5 * torch.arange(RANKS, dtype=torch.float32))

    def encode(self, roots: Roots) -> Tensor:
        """What the roots contribute, once for all prefixes: [B, M, width]."""
        x = self.embed(self._tensor(static_features(roots, self.config.top)))
        for layer in self.layers[: self.config.root_layers]:
            x = layer(x)
        return x

    def score(self, encoded: Tensor, roots: Roots, taken: np.ndarray) -> Tensor:
        """Log q(s | y), fp32 [B, K, M], -inf at taken positions, for K prefixes taken bool [B, K, M] of every root."""
        batch, prefixes, masked = taken.shape
        x = encoded[:, None] + self.embed_path(self._tensor(path_features(roots, taken)))
        x = x.view(batch * prefixes, masked, -1)
        for layer in self.layers[self.config.root_layers :]:
            x = layer(x)
        logits = self.head(self.norm(x)).view(batch, prefixes, masked)
        logits = logits + self.rank_prior[self._tensor(np.minimum(remaining_rank(taken), RANKS - 1))]
        return logits.masked_fill(self._tensor(taken), -torch.inf).log_softmax(-1)

    def forward(self, roots: Roots, taken: np.ndarray) -> Tensor:
        """Log q(s | y), see `score`, of roots that are encoded for it alone."""
        return self.score(self.encode(roots), roots, taken)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.rank_prior.device)


def save_order_model(model: OrderModel, directory: Path, facts: dict) -> None:
    """Write order_model.safetensors and order_model.json (shape plus `facts` about its training) into `directory`."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, directory / "order_model.safetensors")
    text = json.dumps({"config": asdict(model.config), **facts}, indent=2, sort_keys=True)
    (directory / "order_model.json").write_text(text + "\n", encoding="utf-8")


def load_order_model(directory: Path, device: str = "cpu") -> OrderModel:
    """Read what `save_order_model` wrote, ready for inference; UserError if it is missing or does not fit."""
    try:
        config = OrderModelConfig(**json.loads((directory / "order_model.json").read_text(encoding="utf-8"))["config"])
        weights = load_file(directory / "order_model.safetensors", device=device)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{directory}: not an order model ({error}); run the train stage again") from error
    model = OrderModel(config).to(device)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{directory}: weights do not fit order_model.json; run the train stage again") from error
    return model.eval().requires_grad_(False)
