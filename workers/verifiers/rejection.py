"""Rejection sampling: drafts are draws from the stale law, corrected link by link into draws from the target's own."""

from __future__ import annotations

import numpy as np
import torch

from workers.decoding.conditionals import Conditionals
from workers.decoding.noise import RoundNoise
from workers.decoding.transition import Step
from workers.decoding.tree import ROOT, DraftTree
from workers.drafters import Hedge
from workers.verifiers import Walk
from workers.verifiers.candidates import most_probable
from workers.verifiers.follow import follow
from workers.verifiers.residual import accept_residual, draw, tempered

PROPOSAL, ACCEPT, RESIDUAL = range(3)


class Rejection:
    """Exact in law, not token for token: accepted tokens are not those the target's own noise would have drawn.

    One token is drawn per masked position and round, so that a draft proposes "if position s commits next, then v[s]";
    the position itself is a function of the state. A wrong position has target mass zero and is rejected, a right one
    accepted by equation 13 of SPOT. On a chain this is the paper's rule. With `trees`, the branches share v and differ
    in positions only (PT-RS): at most one child fits the position that commits, and its token is a fresh draw whatever
    path led there, provided that which states are drafted does not depend on v. Hence `hypotheses` gives drafters the
    largest stale probability of each position instead of the stale probability of v.
    """

    def __init__(self, name: str, trees: bool):
        self.name = name
        self._trees = trees

    def exact(self, temperature: float) -> bool:
        return True

    def hypotheses(
        self, stale: Conditionals, temperature: float, noise: RoundNoise | None, hedge: Hedge
    ) -> tuple[np.ndarray, np.ndarray]:
        if noise is None:
            return most_probable(stale, hedge)
        law = tempered(stale.logits, temperature)
        quantile = torch.from_numpy(noise.uniforms[PROPOSAL, :, None]).to(law.device)
        tokens = np.full((len(law), hedge.size), -1, dtype=np.int64)
        probs = np.zeros((len(law), hedge.size), dtype=np.float32)
        tokens[:, :1] = draw(law, quantile).cpu().numpy()
        probs[:, 0] = stale.confidence.cpu().numpy()
        return tokens, probs

    def walk(self, tree: DraftTree, step: Step) -> Walk:
        """Raises ValueError if the tree branches where only chains are allowed, or fills one position in two ways."""
        if step.noise is None:
            return follow(tree, step, accept=step.sampled, bonus=step.sampled)
        node, path = ROOT, []
        steps = [np.flatnonzero(step.committed[0])]
        while (child := self._child(tree, node, step, steps[-1][0])) is not None:
            (position,) = steps[-1]
            token, accepted = self._correct(step, node, position, tree.states[child, position])
            if not accepted:
                state = step.states[node + 1].copy()
                state[position] = token
                return Walk(path, steps, state)
            node = child
            path.append(node)
            steps.append(np.flatnonzero(step.committed[node + 1]))
        return Walk(path, steps, step.sampled[node + 1])

    def _child(self, tree: DraftTree, node: int, step: Step, position: int) -> int | None:
        """The child of `node` that fills `position`, or None."""
        children = tree.children(node)
        if len(children) > 1 and not self._trees:
            raise ValueError(f"{self.name} verifies chains, but the draft branches; draft a chain or use pt-rejection")
        fitting = [child for child in children if tree.states[child, position] != step.states[node + 1, position]]
        if len(fitting) > 1:
            raise ValueError(f"{self.name} needs one token per position, but two drafts fill position {position}")
        return fitting[0] if fitting else None

    def _correct(self, step: Step, node: int, position: int, token: int) -> tuple[int, bool]:
        target = tempered(step.logits[node + 1, position], step.temperature)
        proposal = tempered(step.stale.logits[position], step.temperature)
        accept, residual = torch.from_numpy(step.noise.uniforms[1:, position, None]).to(target.device)
        tokens, accepted = accept_residual(target, proposal, target.new_tensor([token]).long(), accept, residual)
        return int(tokens), bool(accepted)


def build() -> Rejection:
    return Rejection("rejection", trees=False)
