"""What the stale conditionals knew about the commits that followed, and what the drafter's score was worth."""

from __future__ import annotations

import numpy as np

from workers.decoding.conditionals import Conditionals
from workers.decoding.tree import DraftTree

STEPS = 8
CANDIDATES = (1, 2, 4, 8)
MASS_BINS = 10


class StaleCoverage:
    """Of the next K = 1 .. 8 commits behind the root of each round of a block (SPOT, figure 2b): do all their tokens
    lie within the t most probable stale ones of their positions, and are their positions the K most confident stale
    ones?

    Beside that, the masked positions of stale confidence below `tau` ("doubtful"), summed over the roots, and at how
    many of them the token that the block ends with is among the K = 1 .. 8 most probable stale ones (trajectory paper,
    section 3.2).
    """

    def __init__(self, tau: float) -> None:
        self._tau = tau
        self._roots: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, commits: int, masked: np.ndarray, stale: Conditionals, confidence: np.ndarray) -> None:
        """A root with `commits` of the block's commits behind it; masked bool [L], confidence fp32 [L] of `stale`."""
        best = stale.logits.topk(min(CANDIDATES[-1], stale.logits.shape[-1])).indices.cpu().numpy()
        # A stable sort of the negated values breaks ties to the lowest position, as the target does.
        order = np.argsort(np.where(masked, -confidence, np.inf), kind="stable")
        self._roots.append((commits, best, order, masked & (confidence < self._tau)))

    def counts(self, positions: list[int], state: np.ndarray) -> dict[str, list[int] | int]:
        """Fields of `BlockStats`, K = 1 .. 8 each; positions: the block's commits in order; state int64 [L]: all tokens."""
        roots = np.zeros(STEPS, dtype=np.int64)
        tokens = np.zeros((len(CANDIDATES), STEPS), dtype=np.int64)
        places = np.zeros(STEPS, dtype=np.int64)
        doubtful, doubtful_covered = 0, np.zeros(CANDIDATES[-1], dtype=np.int64)
        within = np.array(CANDIDATES)[:, None]
        for commits, best, order, doubt in self._roots:
            coming = np.array(positions[commits : commits + STEPS])
            hits = best[coming] == state[coming, None]
            rank = np.where(hits.any(axis=1), hits.argmax(axis=1), CANDIDATES[-1])
            ahead = len(coming)
            roots[:ahead] += 1
            tokens[:, :ahead] += np.maximum.accumulate(rank) < within
            place = np.empty(len(order), dtype=np.int64)
            place[order] = np.arange(len(order))
            places[:ahead] += np.maximum.accumulate(place[coming]) <= np.arange(ahead)
            doubtful += int(doubt.sum())
            found = np.logical_or.accumulate(best[doubt] == state[doubt, None], axis=1).sum(axis=0)
            doubtful_covered[: len(found)] += found
            doubtful_covered[len(found) :] += found[-1]
        covered = {f"covered_{t}": row.tolist() for t, row in zip(CANDIDATES, tokens)}
        return {
            "coverage_roots": roots.tolist(),
            **covered,
            "covered_positions": places.tolist(),
            "doubtful": doubtful,
            "doubtful_covered": doubtful_covered.tolist(),
        }


class MassBins:
    """Drafted and accepted nodes by the mass their drafter gave them, in ten bins of equal width (SPOT, figure 5)."""

    def __init__(self) -> None:
        self._drafted = np.zeros(MASS_BINS, dtype=np.int64)
        self._accepted = np.zeros(MASS_BINS, dtype=np.int64)
        self._mass = np.zeros(MASS_BINS)

    def add(self, tree: DraftTree, path: list[int]) -> None:
        """One round: its tree and the nodes of it that were accepted."""
        if not len(tree):
            return
        mass = np.asarray(tree.mass)
        bins = np.minimum((mass * MASS_BINS).astype(np.int64), MASS_BINS - 1)
        self._drafted += np.bincount(bins, minlength=MASS_BINS)
        self._accepted += np.bincount(bins[path], minlength=MASS_BINS)
        self._mass += np.bincount(bins, weights=mass, minlength=MASS_BINS)

    def counts(self) -> dict[str, list]:
        """Fields of `BlockStats`."""
        return {
            "mass_drafted": self._drafted.tolist(),
            "mass_accepted": self._accepted.tolist(),
            "mass_sum": self._mass.tolist(),
        }
