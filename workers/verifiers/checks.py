"""Whether a rejection verifier follows the target's law on live states (SPOT, section B.4), and theory of acceptance.

Every check is a `Check`: one row, for the warehouse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from workers.decoding.commit import single
from workers.decoding.conditionals import Conditionals
from workers.decoding.noise import RoundNoise
from workers.decoding.transition import Step
from workers.drafters import Drafter, DraftRequest
from workers.verifiers import Verifier
from workers.verifiers.residual import accept_residual, draw, tempered

LEAST_EXPECTED = 5.0  # draws per cell of a chi-square test; smaller cells are pooled
LEAST_P = 1e-5
IMPOSSIBLE = 1e300  # finite, because JSON knows no infinity
ACCEPTANCE_TOLERANCE = 0.002  # of the paper


@dataclass(frozen=True)
class LiveState:
    """A state the target has gone through: state int64 [L] and the position it commits next, its own logits and the
    stale ones fp32 [L, V], the mask id at -inf."""

    state: np.ndarray
    position: int
    logits: Tensor
    stale: Tensor


@dataclass(frozen=True)
class Check:
    """One check over `states` live states, `draws` at each.

    statistic: chi-square summed over the states, with dof and p_value, or, for the acceptance identity, the largest
    difference between measured and theoretical acceptance. proposal: how the drafts were made.
    """

    check: str
    proposal: str
    states: int
    draws: int
    statistic: float
    dof: int | None
    p_value: float | None
    passed: bool


def total_variation(p: Tensor, q: Tensor) -> float:
    """Of two laws [V]."""
    return float((p - q).abs().sum() / 2)


def gumbel_agreement(p: Tensor, q: Tensor) -> float:
    """Probability that argmax(log p + G) and argmax(log q + G) agree under shared Gumbel noise, laws float64 [V]:
    the sum over i of 1 / sum_j max(p_j / p_i, q_j / q_i) (Daliri et al. 2025; SPOT, section 4.3).

    With TV d between the laws it is at least (1 - d) / (1 + d) and at most 1 - d.
    """
    both = (p > 0) & (q > 0)
    ratios = torch.maximum(p[None, :] / p[both, None], q[None, :] / q[both, None])
    return float((1 / ratios.sum(dim=1)).sum())


def chi_square(counts: np.ndarray, law: np.ndarray) -> tuple[float, int]:
    """Statistic and degrees of freedom of counts [N] against a law [N], rare cells pooled.

    The statistic is IMPOSSIBLE if something of probability zero occurred.
    """
    if counts[law <= 0].any():
        return IMPOSSIBLE, 1
    expected = law / law.sum() * counts.sum()
    rare = expected < LEAST_EXPECTED
    observed, expected = (np.append(cells[~rare], cells[rare].sum()) for cells in (counts, expected))
    if expected[-1] < LEAST_EXPECTED and len(expected) > 1:
        # Too little for a cell of its own: the smallest of the others takes it in.
        smallest = int(expected[:-1].argmin())
        observed[smallest] += observed[-1]
        expected[smallest] += expected[-1]
        observed, expected = observed[:-1], expected[:-1]
    return float(((observed - expected) ** 2 / expected).sum()), len(expected) - 1


def goodness(check: str, proposal: str, draws: int, found: Sequence[tuple[float, int]]) -> Check:
    """The chi-squares of independent states as one test."""
    statistic, dof = sum(s for s, _ in found), sum(d for _, d in found)
    p_value = float(stats.chi2.sf(statistic, dof)) if dof else 1.0
    return Check(check, proposal, len(found), draws, statistic, dof, p_value, p_value >= LEAST_P)


def proposals(live: LiveState) -> Iterator[tuple[str, Tensor]]:
    """Logits [L, V] to propose from: the stale ones, and some that are wrong on purpose."""
    yield "stale", live.stale
    yield "flattened", live.stale / 3
    yield "sharpened", live.stale * 3
    yield "of the next position", live.stale.roll(1, dims=0)


def check_rule(states: Sequence[LiveState], temperature: float, draws: int, seed: int) -> list[Check]:
    """Accept-residual at the position each state commits: its draws against the target's law, and its acceptance."""
    random = np.random.default_rng(seed)
    found: dict[str, list[tuple[float, int]]] = {}
    gaps: dict[str, list[float]] = {}
    for live in states:
        target = tempered(live.logits[live.position], temperature)
        for name, logits in proposals(live):
            proposal = tempered(logits[live.position], temperature)
            uniforms = torch.from_numpy(random.random((3, draws))).to(target.device)
            token, accepted = accept_residual(target, proposal, draw(proposal, uniforms[0]), *uniforms[1:])
            counts = torch.bincount(token, minlength=len(target)).cpu().numpy()
            found.setdefault(name, []).append(chi_square(counts, target.cpu().numpy()))
            gap = abs(float(accepted.double().mean()) - (1 - total_variation(target, proposal)))
            gaps.setdefault(name, []).append(gap)
    checks = [goodness("accept-residual", name, draws, values) for name, values in found.items()]
    for name, values in gaps.items():
        worst = max(values)
        checks.append(
            Check("acceptance", name, len(values), draws, worst, None, None, worst <= ACCEPTANCE_TOLERANCE)
        )
    return checks


def check_pairs(
    states: Sequence[LiveState],
    verifier: Verifier,
    drafter: Drafter,
    temperature: float,
    budget: int,
    mask_id: int,
    draws: int,
    seed: int,
) -> list[Check]:
    """The (position, token) pairs that whole rounds commit first, drafter and walk included, against the target's law.

    Draft states are given the root's logits: what follows the first link is no part of the pair.
    """
    random = np.random.default_rng(seed)
    found: dict[str, list[tuple[float, int]]] = {}
    for live in states:
        length, vocab = live.logits.shape
        law = np.zeros((length, vocab))
        law[live.position] = tempered(live.logits[live.position], temperature).cpu().numpy()
        rows = torch.zeros_like(live.logits)
        for name, logits in proposals(live):
            stale = Conditionals(logits)
            counts = np.zeros((length, vocab))
            for _ in range(draws):
                rows[live.position] = torch.from_numpy(random.gumbel(size=vocab))
                noise = RoundNoise(rows, random.random((3, length)))
                tokens, probs = verifier.hypotheses(stale, temperature, noise, drafter.hedge)
                masked = live.state == mask_id
                tree = drafter.draft(DraftRequest(live.state, masked, stale, tokens, probs, budget, -1))
                replicas = np.concatenate([live.state[None], tree.states])
                shared = live.logits.expand(len(replicas), length, vocab)
                step = Step(replicas, shared, mask_id, single, temperature, noise, stale)
                walk = verifier.walk(tree, step)
                after = tree.states[walk.path[0]] if walk.path else walk.state
                committed = np.flatnonzero(after != live.state)
                counts[committed, after[committed]] += 1
            found.setdefault(name, []).append(chi_square(counts.ravel(), law.ravel()))
    return [goodness("committed pairs", name, draws, values) for name, values in found.items()]
