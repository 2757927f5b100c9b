"""SPOT: a best-first draft tree over the learned commit order (arXiv 2610.22543, section 4.2, algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from workers.decoding.tree import ROOT, DraftTree
from workers.drafters import Drafter, DraftRequest, Hedge, TargetInfo, reject_unknown
from workers.drafters.features import preference, root_of
from workers.drafters.order_model import OrderModel, load_order_model
from workers.errors import UserError

OPTIONS = ("hedge", "hedge_below", "tau", "floor", "shape")

# Log q(s | y) float64 [N, M] of N prefixes given as taken flags bool [N, M]; -inf where taken.
Order = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Search:
    """The nodes found, by falling mass, parents first: arrays of N.

    parent: index of the parent or ROOT; slot: row of the committed position in the search's own order; choice: column
    of the token hypothesis; log_mass: natural log of the prefix mass (equation 3).
    """

    parent: np.ndarray
    slot: np.ndarray
    choice: np.ndarray
    log_mass: np.ndarray


def best_first(order: Order, token_log: np.ndarray, budget: int, floor: float = 0.0) -> Search:
    """The `budget` states of largest prefix mass m(z) = m(y) q(s | y) p(v), none below `floor` (algorithm 2).

    token_log float64 [M, H]: log p of every token hypothesis, -inf where absent. Level-batched, to the true fixpoint:
    levels go on until no state among the best is unexpanded. As a child never outweighs its parent, a state that leaves
    the best can never come back, so the pool is cut to `budget` after each level. States that fill all M positions are
    never proposed.
    """
    masked, choices = token_log.shape
    least = math.log(floor) if floor > 0 else -math.inf
    best_token = token_log.max(initial=-math.inf)
    flat_tokens = token_log.reshape(-1)

    # Every node that was ever in the pool, in order of insertion; node 0 is the root.
    mass, parent, code, depth = [np.zeros(1)], [np.full(1, ROOT)], [np.full(1, -1)], [np.zeros(1, dtype=np.int64)]
    taken = np.zeros((1, masked), dtype=bool)
    all_mass, all_depth = mass[0], depth[0]
    pool = np.empty(0, dtype=np.int64)
    expanded = np.zeros(1, dtype=bool)
    frontier = np.zeros(1 if masked > 1 and budget > 0 else 0, dtype=np.int64)
    known: dict[bytes, np.ndarray] = {}
    while len(frontier):
        expanded[frontier] = True
        log_q = _order_of(order, taken[frontier], known)
        children = (all_mass[frontier][:, None, None] + log_q[:, :, None]).repeat(choices, axis=2)
        children = (children.reshape(len(frontier), -1) + flat_tokens).reshape(-1)
        weakest = all_mass[pool[-1]] if len(pool) == budget else -math.inf
        wanted = np.flatnonzero((children > weakest) & (children >= least))
        wanted = wanted[np.argsort(-children[wanted], kind="stable")[:budget]]
        origin, slots = frontier[wanted // (masked * choices)], wanted % (masked * choices)
        first = len(all_mass)
        mass.append(children[wanted])
        parent.append(origin)
        code.append(slots)
        depth.append(all_depth[origin] + 1)
        rows = taken[origin]
        rows[np.arange(len(wanted)), slots // choices] = True
        taken = np.concatenate([taken, rows])
        all_mass, all_depth = np.concatenate(mass), np.concatenate(depth)
        expanded = np.concatenate([expanded, np.zeros(len(wanted), dtype=bool)])
        pool = np.concatenate([pool, np.arange(first, len(all_mass))])
        pool = pool[np.argsort(-all_mass[pool], kind="stable")[:budget]]
        open_nodes = ~expanded[pool] & (all_depth[pool] < masked - 1)
        if len(pool) == budget:
            open_nodes &= all_mass[pool] + best_token > all_mass[pool[-1]]
        frontier = pool[open_nodes]

    place = np.full(len(all_mass), ROOT)
    place[pool] = np.arange(len(pool))
    codes = np.concatenate(code)[pool]
    return Search(place[np.concatenate(parent)[pool]], codes // choices, codes % choices, all_mass[pool])


def greedy_path(order: Order, token_log: np.ndarray, budget: int, floor: float = 0.0) -> Search:
    """One chain of at most `budget` states, each the heaviest child of the one before, none below `floor`."""
    masked, choices = token_log.shape
    least = math.log(floor) if floor > 0 else -math.inf
    taken = np.zeros((1, masked), dtype=bool)
    codes: list[int] = []
    mass: list[float] = []
    while len(codes) < min(budget, masked - 1):
        children = (order(taken)[0][:, None] + token_log).reshape(-1)
        best = int(children.argmax())
        below = (mass[-1] if mass else 0.0) + children[best]
        if below < least or below == -math.inf:
            break
        codes.append(best)
        mass.append(below)
        taken[0, best // choices] = True
    found = np.array(codes, dtype=np.int64)
    return Search(np.arange(len(found)) - 1, found // choices, found % choices, np.array(mass))


def _order_of(order: Order, taken: np.ndarray, known: dict[bytes, np.ndarray]) -> np.ndarray:
    """Log q [N, M] for prefixes `taken` [N, M]; equal sets of positions are scored once per round."""
    keys = [row.tobytes() for row in np.packbits(taken, axis=1)]
    fresh = {key: row for row, key in enumerate(keys) if key not in known}
    if fresh:
        known.update(zip(fresh, order(taken[list(fresh.values())])))
    return np.stack([known[key] for key in keys])


SHAPES: dict[str, Callable[..., Search]] = {"tree": best_first, "chain": greedy_path}


class SpotDrafter(Drafter):
    """Drafts the most probable continuations under the order model.

    order_temperature: tau, applied to q before the search; floor: gamma of SPOT-gamma, 0 for none; search: `best_first`
    or, for the chain of the ablations, `greedy_path`. `levels` counts the order model's forwards since the start.
    """

    def __init__(
        self,
        model: OrderModel,
        hedge: Hedge,
        order_temperature: float = 1.0,
        floor: float = 0.0,
        search: Callable[..., Search] = best_first,
    ):
        self.model = model
        self.hedge = hedge
        self.order_temperature = order_temperature
        self.floor = floor
        self.search = search
        self.levels = 0

    @torch.inference_mode()
    def draft(self, request: DraftRequest) -> DraftTree:
        index = preference(request.stale, request.masked)
        roots = root_of(request.stale, index, request.last)
        encoded = self.model.encode(roots)

        def log_order(taken: np.ndarray) -> np.ndarray:
            log_q = self.model.score(encoded, roots, taken[None])[0]
            if self.order_temperature != 1.0:
                log_q = (log_q / self.order_temperature).log_softmax(-1)
            return log_q.double().cpu().numpy()

        def order(taken: np.ndarray) -> np.ndarray:
            self.levels += 1
            return log_order(taken)

        def ranking(state: np.ndarray) -> np.ndarray:
            weights = np.full(len(state), -np.inf)
            weights[index] = log_order((state[index] != request.state[index])[None])[0]
            return weights

        with np.errstate(divide="ignore"):
            token_log = np.log(request.token_probs[index].astype(np.float64))
        found = self.search(order, token_log, request.budget, self.floor)
        positions = index[found.slot]
        tokens = request.tokens[positions, found.choice]
        edges = list(zip(found.parent.tolist(), positions.tolist(), tokens.tolist()))
        return DraftTree.grow(request.state, edges, np.exp(found.log_mass).tolist(), ranking)


def build(options: Mapping[str, Any], artifacts: Mapping[str, Path], target_info: TargetInfo) -> SpotDrafter:
    """Options: `hedge` (token hypotheses per position, 1 for none), `hedge_below` (0.6), `tau` (1), `floor` (0) and
    `shape` (tree or chain)."""
    reject_unknown("spot", options, OPTIONS)
    hedge, floor, temperature = options.get("hedge", 2), options.get("floor", 0.0), options.get("tau", 1.0)
    if hedge not in (1, 2, 3, 4):
        raise UserError(f"drafter_options: hedge of spot must be from 1 (off) to 4, not {hedge!r}")
    if not temperature > 0:
        raise UserError(f"drafter_options: tau of spot must be above 0, not {temperature!r}")
    if not 0 <= floor < 1:
        raise UserError(f"drafter_options: floor of spot must be in [0, 1), not {floor!r}")
    if (shape := options.get("shape", "tree")) not in SHAPES:
        raise UserError(f"drafter_options: shape of spot must be tree or chain, not {shape!r}")
    if "order_model" not in artifacts:
        raise UserError("drafter spot needs an order model: its node has no train stage upstream")
    model = load_order_model(Path(artifacts["order_model"]), target_info.device)
    return SpotDrafter(model, Hedge(hedge, options.get("hedge_below", 0.6)), temperature, floor, SHAPES[shape])
