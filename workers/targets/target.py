"""A loaded target: the model and what a decode loop must know about its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

import torch

from workers.targets.transformer import Transformer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True)
class Target:
    """A block-causal diffusion LM with its tokenizer; `tokenizer` is None only for random-weight models in tests."""

    name: str
    model: Transformer
    tokenizer: PreTrainedTokenizerFast | None
    block_length: int
    mask_id: int
    stop_ids: frozenset[int]

    @property
    def device(self) -> torch.device:
        return self.model.embed.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.model.embed.weight.dtype

    @property
    def max_positions(self) -> int:
        return self.model.config.max_positions

    @property
    def vocab_size(self) -> int:
        return self.model.config.vocab_size

    def encode(self, prompt: str) -> list[int]:
        """Token ids of a prompt, nothing added."""
        return self.tokenizer.encode(prompt, add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids before the first stop id, without special tokens."""
        answer = list(takewhile(lambda token: token not in self.stop_ids, map(int, ids)))
        return self.tokenizer.decode(answer, skip_special_tokens=True)
