"""What a decode is told and what it reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.decoding.rules import parse_rule
from workers.errors import UserError


@dataclass(frozen=True)
class DecodeSettings:
    """generation_length: tokens asked for; the last block is filled to its end. stop: "fill" decodes every block, "eos"
    ends with the block that holds the first stop id. budget: most drafts per round. padded: every drafted forward has 1
    + budget replicas. layout: replicas as batch rows ("batch") or behind a blockwise mask in one row ("concat"). cache:
    see `workers.decoding.caches`. commit_rule: see `workers.decoding.rules`. check_logits: record the largest
    difference between the logits that decided a drafted round and those of a forward without drafts, which is in no account.
    """

    generation_length: int
    stop: str = "fill"
    budget: int = 0
    padded: bool = False
    layout: str = "batch"
    temperature: float = 0.0
    commit_rule: str = "single"
    cache: str = "auto"
    check_logits: bool = False

    def __post_init__(self) -> None:
        if self.stop not in ("fill", "eos"):
            raise UserError(f"stop: {self.stop!r} is unknown; choose fill or eos")
        if self.layout not in ("batch", "concat"):
            raise UserError(f"layout: {self.layout!r} is unknown; choose batch or concat")
        try:
            parse_rule(self.commit_rule)
        except UserError as error:
            raise UserError(f"commit_rule: {error}") from None
        if self.generation_length < 1 or self.budget < 0 or self.temperature < 0:
            raise UserError("generation_length must be at least 1, budget and temperature at least 0")


@dataclass(frozen=True)
class Round:
    """One target forward.

    block: index of the block among the generated ones; round: index within the block, 0 is always undrafted. accepted:
    drafts accepted, the bonus commit not counted. positions: absolute, in commit order, those of one step by falling
    confidence. reject_cause at the state where the walk stopped, whose next commit (the first of its step) was (s, v):
    "token" if a child fills s with another token, "budget" if the tree went no further there though s comes first in
    the drafter's own order, else "position" (SPOT, section F.9); None if nothing was drafted. true_position_rank: rank
    (0 is best) of s by stale confidence among the positions masked there; true_order_rank: the same in the drafter's
    own order (`DraftTree.ranking`); true_token_rank: rank of v at s in the stale distribution; all None in round 0,
    which has none. replicas: states in the forward, padding included. Seconds. masked: masked positions of the state
    where the walk stopped; certain: those of confidence tau or more under its forward, tau as in
    `workers.decoding.rules.threshold_of`. levels: depth of the draft tree; level: that of the last accepted draft, 0
    for none. A rule of several commits may skip levels, so that level is not `accepted`. ahead_*: the same for the next
    block, whose commits are in no other account than this (inter-block speculation). logit_error: see `DecodeSettings`.
    """

    block: int
    round: int
    drafted: int
    accepted: int
    positions: list[int]
    draft_s: float
    forward_s: float
    reject_cause: str | None
    true_position_rank: int | None
    true_order_rank: int | None
    true_token_rank: int | None
    replicas: int
    masked: int
    certain: int
    levels: int
    level: int
    ahead_drafted: int = 0
    ahead_accepted: int = 0
    ahead_positions: list[int] = field(default_factory=list)
    logit_error: float | None = None


@dataclass(frozen=True)
class BlockStats:
    """Counts over the commits of one block.

    exact_ties, near_ties: commits whose two largest confidences were equal, or less than 1e-6 apart (equal included).
    compared: commits made with a stale distribution known, which is the one before the forward that made them;
    stale_token: of those, commits of the stale argmax. steps_compared: the steps (target transitions) that made them,
    as many as commits if each commits one; stale_position: steps that fill the position of the largest stale confidence
    among the positions masked at that moment. roots_compared: rounds with a stale distribution; root_token,
    root_position: the same for the first commit of those rounds alone, no draft between it and the distribution.
    argmax: commits of the most probable token of the distribution they were made from; probability: sum of the
    untempered probabilities of the committed tokens there. coverage_roots, covered_*: see
    `workers.decoding.diagnostics.StaleCoverage`, as are doubtful and doubtful_covered; mass_*: see `MassBins`, mass_sum
    the summed mass of the drafted.
    """

    block: int
    commits: int
    compared: int
    stale_token: int
    stale_position: int
    exact_ties: int
    near_ties: int
    steps_compared: int
    roots_compared: int
    root_token: int
    root_position: int
    argmax: int
    probability: float
    coverage_roots: list[int]
    covered_1: list[int]
    covered_2: list[int]
    covered_4: list[int]
    covered_8: list[int]
    covered_positions: list[int]
    doubtful: int
    doubtful_covered: list[int]
    mass_drafted: list[int]
    mass_accepted: list[int]
    mass_sum: list[float]


@dataclass(frozen=True)
class Decoded:
    """tokens: all behind the prompt through the end of the last block. nfe: target forwards. nfe_answer: each forward
    split evenly over its commits, the share at or before the first stop id (nfe if there is none). store_passes:
    finished blocks re-encoded for the cache (fused into a counted forward). Seconds; wall_s is the whole generation,
    less lookahead_s, what an oracle's look-ahead took, and journal_s, what recording took.
    """

    tokens: list[int]
    nfe: int
    nfe_answer: float
    store_passes: int
    wall_s: float
    draft_s: float
    forward_s: float
    lookahead_s: float
    journal_s: float
    rounds: list[Round]
    blocks: list[BlockStats]

    @property
    def exact_ties(self) -> int:
        return sum(block.exact_ties for block in self.blocks)

    @property
    def near_ties(self) -> int:
        return sum(block.near_ties for block in self.blocks)


def answer_share(rounds: list[Round], stop_position: int | None) -> float:
    """Forwards spent on the positions up to `stop_position` (absolute, inclusive), each split over its commits."""
    if stop_position is None:
        return float(len(rounds))
    commits = [r.positions + r.ahead_positions for r in rounds]
    return sum(sum(position <= stop_position for position in each) / len(each) for each in commits)
