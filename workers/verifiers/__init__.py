"""Verifiers decide which drafted states the target would have reached itself (SPOT, sections 3.2 and 4.3)."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from workers.decoding.acceptance import FORMS, is_subset
from workers.errors import UserError

if TYPE_CHECKING:
    from workers.decoding.conditionals import Conditionals
    from workers.decoding.noise import RoundNoise
    from workers.decoding.transition import Step
    from workers.decoding.tree import DraftTree
    from workers.drafters import Hedge

VERIFIERS = ("greedy", "uncoupled", "coupled", "rejection", "pt-rejection")


@dataclass(frozen=True)
class Walk:
    """The one path of accepted drafts and what follows it.

    path: accepted nodes in order (indices into the tree). steps: for every node on [root, *path] the positions it
    committed within the block, the most confident first; the last entry is the bonus commit. state int64 [L]: the next
    root, after the bonus.
    """

    path: list[int]
    steps: list[np.ndarray]
    state: np.ndarray

    @property
    def last(self) -> int:
        """The node the walk stopped at: its conditionals are the next stale ones; -1 is the root."""
        return self.path[-1] if self.path else -1


class Verifier(Protocol):
    """What drafts are offered and which are accepted; `name` is the one in records."""

    name: str

    def exact(self, temperature: float) -> bool:
        """Whether the committed tokens follow the target's own law at `temperature`."""
        ...

    def hypotheses(
        self, stale: Conditionals, temperature: float, noise: RoundNoise | None, hedge: Hedge
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokens int64 [L, hedge.size] (-1 where absent) and their untempered stale probabilities fp32 [L, hedge.size].

        noise: None at T=0. The probabilities may be a statistic of the position instead, where the choice of what to
        draft must not depend on the tokens drawn (rejection sampling).
        """
        ...

    def walk(self, tree: DraftTree, step: Step) -> Walk:
        """Follow the target's own commits through `tree`.

        step: the target's forward over [root, *tree.states]; node n is its replica n + 1.
        """
        ...


def make_verifier(name: str) -> Verifier:
    """The verifier called `name`; "none" is the control's, which only ever commits the target's own draw.

    Raises UserError for an unknown name.
    """
    if is_subset(name):
        return importlib.import_module("workers.verifiers.subset").build(name)
    if name not in (*VERIFIERS, "none"):
        raise UserError(f"verifier: {name!r} is unknown; choose one of {', '.join((*VERIFIERS, *FORMS))}")
    module = "uncoupled" if name == "none" else name.replace("-", "_")
    return importlib.import_module(f"workers.verifiers.{module}").build()
