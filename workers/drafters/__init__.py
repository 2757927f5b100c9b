"""Drafters propose hypothetical block states; draft quality affects speed, never the output."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workers.errors import UserError

if TYPE_CHECKING:
    from workers.decoding.conditionals import Conditionals
    from workers.decoding.tree import DraftTree

ORACLES = ("oracle-position", "oracle-token", "oracle-joint")
DRAFTERS = ("none", "chain", "tree", "spiffy", "spot", "trajectory", *ORACLES)


@dataclass(frozen=True)
class Hedge:
    """How many token hypotheses a drafter wants per position.

    size: columns of the hypotheses, the primary one included. below: only positions whose stale top-1 probability is
    below this get more than the primary one (SPOT, section 4.2: runner-up below 0.6); infinity hedges everywhere.
    """

    size: int = 1
    below: float = 0.6

    def __post_init__(self) -> None:
        if not isinstance(self.size, int) or self.size < 1:
            raise UserError(f"drafter_options: hedge must be a whole number from 1 on, not {self.size!r}")
        if not isinstance(self.below, (int, float)):
            raise UserError(f"drafter_options: hedge_below must be a probability, not {self.below!r}")


@dataclass(frozen=True)
class DraftRequest:
    """What a drafter may see: arrays are NumPy, on the host; `stale` holds tensors on the target's device.

    state int64 [L] with the mask id where `masked` bool [L]; tokens int64 [L, H]: column 0 is the primary hypothesis at
    every position, further columns are hedges, -1 where absent; token_probs fp32 [L, H]: the untempered stale
    probability of each hypothesis, 0 where absent; budget: most nodes allowed. No drafted state may fill the block.
    last: position in the block of the most recent commit, which the stale conditionals have not seen.
    lookahead: from a state int64 [L] to the states [K, L] the target will go through, the full block last. Only oracles
    use it: its forwards are neither counted nor timed.
    """

    state: np.ndarray
    masked: np.ndarray
    stale: Conditionals
    tokens: np.ndarray
    token_probs: np.ndarray
    budget: int
    last: int
    lookahead: Callable[[np.ndarray], np.ndarray] | None = None


class Drafter(ABC):
    """hedge: the token hypotheses it asks for; inter_blocks: drafts it makes of the next block, by `draft_ahead`, 0 for
    none."""

    hedge = Hedge()
    inter_blocks = 0

    @abstractmethod
    def draft(self, request: DraftRequest) -> DraftTree:
        """At most `request.budget` states behind `request.state`."""


@dataclass(frozen=True)
class TargetInfo:
    """What a drafter must know of the target it drafts for."""

    block_length: int
    vocab_size: int
    mask_id: int
    device: str = "cpu"


def make_drafter(
    name: str, options: Mapping[str, Any], artifacts: Mapping[str, Path], target_info: TargetInfo
) -> Drafter:
    """The drafter called `name`, from `build(options, artifacts, target_info)` of the module of that name.

    Raises UserError for an unknown name or option, and for a module that builds something else.
    """
    if name not in DRAFTERS:
        raise UserError(f"drafter: {name!r} is unknown; choose one of {', '.join(DRAFTERS)}")
    module = importlib.import_module(f"workers.drafters.{name.replace('-', '_')}")
    drafter = module.build(dict(options), artifacts, target_info)
    if not isinstance(drafter, Drafter):
        raise UserError(f"drafter: what {module.__name__}.build returns is no Drafter; derive its class from Drafter")
    return drafter


def reject_unknown(name: str, options: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raise UserError if `options` of drafter `name` has a key that is not in `known`."""
    for key in options:
        if key not in known:
            allowed = ", ".join(known) or "none"
            raise UserError(f"drafter_options: {name} has no option {key!r}; known options: {allowed}")
