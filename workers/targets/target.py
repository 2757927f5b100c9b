"""A loaded target: the model and what a decode loop must know about its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

import torch

from workers.errors import UserError
from workers.targets.transformer import Transformer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True)
class Target:
    """A diffusion LM with its tokenizer; `tokenizer` is None only for random-weight models in tests.

    attention, shift: as in `workers.targets.families.Family`.
    """

    name: str
    model: Transformer
    tokenizer: PreTrainedTokenizerFast | None
    block_length: int
    mask_id: int
    stop_ids: frozenset[int]
    attention: str = "block-causal"
    shift: bool = False

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

    def encode(self, prompt: str, chat: bool | None = None) -> list[int]:
        """Token ids of a prompt: as a user's message in the chat template, the answer's header behind it, or as it is.

        chat: None takes the template if the tokenizer has one. Raises UserError if one is asked for that is not there.
        """
        template = getattr(self.tokenizer, "chat_template", None)
        if chat or (chat is None and template):
            if not template:
                raise UserError(f"target {self.name}: its tokenizer has no chat template; use plain prompts")
            message = [{"role": "user", "content": prompt}]
            prompt = self.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        return self.tokenizer.encode(prompt, add_special_tokens=False)

    def span(self, prompt_tokens: int, generation_length: int) -> tuple[int, int]:
        """Absolute positions at which the first decoded block starts and the last one ends.

        The blocks of a block-causal target are aligned to position 0, so that the prompt's tail shares the first one;
        on full attention they follow the prompt. The last block is filled to its end.
        """
        length = self.block_length
        first = prompt_tokens // length * length if self.attention == "block-causal" else prompt_tokens
        return first, first + -(-(prompt_tokens + generation_length - first) // length) * length

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids before the first stop id, without special tokens."""
        answer = list(takewhile(lambda token: token not in self.stop_ids, map(int, ids)))
        return self.tokenizer.decode(answer, skip_special_tokens=True)
