"""The target's distribution at every position of one block, with the views drafters need."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

TOP = 32


class Conditionals:
    """The stale conditionals of one block: the last target distribution known while drafting (SPOT, section 4.2).

    logits: fp32 [L, V] on the target's device, the mask id at -inf; confidence fp32 [L] if it is known already. All
    views are untempered and computed on first use.
    """

    def __init__(self, logits: Tensor, confidence: Tensor | None = None):
        self.logits = logits
        if confidence is not None:
            self.confidence = confidence

    @cached_property
    def log_probs(self) -> Tensor:
        """fp32 [L, V]."""
        return torch.log_softmax(self.logits, dim=-1)

    @cached_property
    def confidence(self) -> Tensor:
        """fp32 [L]: the largest probability at each position."""
        return torch.softmax(self.logits, dim=-1).amax(dim=-1)

    @cached_property
    def tokens(self) -> Tensor:
        """int64 [L]: the most probable token at each position, ties to the lowest id."""
        return self.logits.argmax(dim=-1)

    @cached_property
    def _top(self) -> tuple[Tensor, Tensor]:
        values, tokens = self.logits.topk(min(TOP, self.logits.shape[-1]), dim=-1)
        return torch.exp(values - self.logits.logsumexp(dim=-1, keepdim=True)), tokens

    @property
    def top_probs(self) -> Tensor:
        """fp32 [L, min(32, V)], descending."""
        return self._top[0]

    @property
    def top_tokens(self) -> Tensor:
        """int64 [L, min(32, V)], by descending probability."""
        return self._top[1]

    @cached_property
    def log_doubt(self) -> Tensor:
        """fp32 [L]: log(1 - p1), from the log-sum-exp of all but the best token, so that it stays finite at p1 = 1."""
        rest = self.logits.scatter(-1, self.logits.argmax(dim=-1, keepdim=True), -torch.inf)
        return rest.logsumexp(dim=-1) - self.logits.logsumexp(dim=-1)

    @cached_property
    def entropy(self) -> Tensor:
        """fp32 [L], nats."""
        return torch.special.entr(self.log_probs.exp()).sum(dim=-1)
