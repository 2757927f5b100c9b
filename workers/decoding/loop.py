"""The one decode loop: drafters, verifiers, commit rules and layouts plug in (SPOT, sections 4.2, 4.3 and D.2-D.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch

from workers.decoding.ahead import Ahead
from workers.decoding.commit import commit_rule
from workers.decoding.conditionals import Conditionals
from workers.decoding.context import Context, make_context
from workers.decoding.journal import BlockJournal
from workers.decoding.lookahead import Lookahead
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import BlockStats, Decoded, DecodeSettings, Round, answer_share
from workers.decoding.rules import threshold_of
from workers.decoding.transition import Step, Transition
from workers.decoding.tree import DraftTree
from workers.drafters import Drafter, DraftRequest
from workers.errors import UserError
from workers.verifiers import Verifier, Walk

if TYPE_CHECKING:
    from workers.targets.target import Target


@torch.inference_mode()
def decode(
    target: Target,
    prompt_tokens: Sequence[int],
    settings: DecodeSettings,
    drafter: Drafter,
    verifier: Verifier,
    noise: GumbelNoise,
) -> Decoded:
    """Decode one sample.

    `Target.span` says where the blocks lie; the last one is filled to its end. The first forward of a block is
    undrafted; every later one verifies drafts made from the conditionals of the state at which the previous one
    stopped. Raises UserError if prompt and generation do not fit the target.
    """
    length = target.block_length
    first, end = target.span(len(prompt_tokens), settings.generation_length)
    check_prompt(target, prompt_tokens, end)
    began = perf_counter()
    replicas, ahead = 1 + settings.budget, drafter.inter_blocks > 0
    context = make_context(target, settings.cache, end, settings.layout, replicas, ahead)
    decoder = BlockDecoder(target, settings, context, noise, drafter, verifier)
    tokens = list(prompt_tokens)
    context.prefill(tokens[:first])
    rounds: list[Round] = []
    blocks: list[BlockStats] = []
    stop_position: int | None = None
    for block, start in enumerate(range(first, end, length)):
        state = decoder.begun(length)
        tail = tokens[start:]
        state[: len(tail)] = tail
        final, stats = decoder.decode(block, start, state, rounds)
        blocks.append(stats)
        new = final[len(tail) :].tolist()
        if stop_position is None:
            stop_position = next((len(tokens) + i for i, token in enumerate(new) if token in target.stop_ids), None)
        tokens += new
        if settings.stop == "eos" and stop_position is not None:
            break
        context.finish(tokens[start:])
    return Decoded(
        tokens=tokens[len(prompt_tokens) :],
        nfe=len(rounds),
        nfe_answer=answer_share(rounds, stop_position),
        store_passes=context.store_passes,
        wall_s=perf_counter() - began - decoder.lookahead.seconds - decoder.journal_seconds,
        draft_s=sum(r.draft_s for r in rounds),
        forward_s=sum(r.forward_s for r in rounds),
        lookahead_s=decoder.lookahead.seconds,
        journal_s=decoder.journal_seconds,
        rounds=rounds,
        blocks=blocks,
    )


def check_prompt(target: Target, prompt_tokens: Sequence[int], end: int) -> None:
    """Raise UserError if a sequence of `end` positions does not fit the target, or if the prompt holds the mask id, or
    nothing where the logits of the first position come from the one before."""
    if end > target.max_positions:
        raise UserError(
            f"target {target.name}: a prompt of {len(prompt_tokens)} tokens and its generation need {end} positions, "
            f"the target has {target.max_positions}; lower generation_length or drop the sample"
        )
    if target.mask_id in prompt_tokens:
        raise UserError(f"target {target.name}: the prompt contains the mask token (id {target.mask_id})")
    if target.shift and not prompt_tokens:
        raise UserError(f"target {target.name}: the prompt is empty; this target predicts a token from the one before it")


class BlockDecoder:
    """Decodes the blocks of one sample, round by round."""

    def __init__(
        self,
        target: Target,
        settings: DecodeSettings,
        context: Context,
        noise: GumbelNoise,
        drafter: Drafter,
        verifier: Verifier,
    ):
        rule = commit_rule(settings.commit_rule)

        def transition() -> Transition:
            return Transition(rule, settings.temperature, noise, target.mask_id, target.device)

        self._mask_id = target.mask_id
        self._synchronise = torch.cuda.synchronize if target.device.type == "cuda" else (lambda: None)
        self._settings = settings
        self._context = context
        self._transition = transition()
        self._drafter = drafter
        self._verifier = verifier
        self._tau = threshold_of(settings.commit_rule)
        self._ahead = None
        if drafter.inter_blocks:
            self._ahead = Ahead(transition(), drafter, verifier, target.mask_id, self._tau)
        self.lookahead = Lookahead(context, self._transition, target.mask_id, self._synchronise)
        self.journal_seconds = 0.0

    def begun(self, length: int) -> np.ndarray:
        """The state int64 [L] of a new block: masks, but what was decoded ahead."""
        state = self._ahead.take() if self._ahead else None
        return np.full(length, self._mask_id, dtype=np.int64) if state is None else state

    def decode(self, block: int, start: int, state: np.ndarray, rounds: list[Round]) -> tuple[np.ndarray, BlockStats]:
        """Fill `state` int64 [L], the block at absolute position `start`; its rounds are appended to `rounds`."""
        self._transition.open_block(start, len(state))
        self.lookahead.open_block(start)
        journal = BlockJournal(block, start, self._tau)
        stale: Conditionals | None = None
        last = -1
        while (masked := state == self._mask_id).any():
            self._transition.open_round(len(rounds))
            drafting = perf_counter() - self.lookahead.seconds
            tree = self._draft(state, masked, stale, last)
            tree_ahead = self._draft_ahead(masked, stale, tree, len(rounds))
            pair = None if tree_ahead is None else self._ahead.states(tree_ahead)
            states = self._replicas(state, tree, 0 if pair is None else len(pair) - 1)
            forwarding = perf_counter()
            if pair is None:
                logits = self._context.forward(states, start)
            else:
                logits, logits_ahead = self._context.forward_pair(states, pair, start)
            self._synchronise()
            done = perf_counter()
            drafted = 1 + len(tree)
            step = self._transition.step(states[:drafted], logits[:drafted], stale)
            walk = self._verifier.walk(tree, step)
            if stale is None and self._ahead:
                self._ahead.open_block(start + len(state), len(state), self._context.ahead_logits)
            progress = None if pair is None else self._ahead.advance(tree_ahead, logits_ahead)
            seconds = (forwarding - self.lookahead.seconds - drafting, done - forwarding)
            entry = journal.add(tree, step, walk, stale, len(states), *seconds)
            if progress is not None:
                entry = replace(entry, replicas=len(states) + len(pair), **progress)
            elif self._settings.check_logits and len(tree):
                entry = replace(entry, logit_error=self._logit_error(step, walk, start))
            rounds.append(entry)
            state, last = walk.state, int(walk.steps[-1][-1])
            stale = Conditionals(logits[walk.last + 1], step.confidences[walk.last + 1])
        stats = journal.stats()
        self.journal_seconds += journal.seconds
        return state, stats

    def _draft_ahead(
        self, masked: np.ndarray, stale: Conditionals | None, tree: DraftTree, round: int
    ) -> DraftTree | None:
        if self._ahead is None or stale is None:
            return None
        ahead = self._ahead.draft(float(stale.confidence.cpu().numpy()[masked].max()), round)
        if ahead is not None and len(tree) + len(ahead) > self._settings.budget:
            raise ValueError(f"{len(tree)} + {len(ahead)} drafts of two blocks on a budget of {self._settings.budget}")
        return ahead

    def _logit_error(self, step: Step, walk: Walk, start: int) -> float:
        """Largest difference between the logits of the root and of the accepted drafts in this forward and in one
        without drafts; these forwards are in no account."""
        began = perf_counter()
        worst = 0.0
        for replica in (0, *(node + 1 for node in walk.path)):
            alone = self._context.forward(step.states[replica][None], start)[0]
            finite = torch.isfinite(alone)
            worst = max(worst, float((alone[finite] - step.logits[replica][finite]).abs().max()))
        self.journal_seconds += perf_counter() - began
        return worst

    def _draft(self, state: np.ndarray, masked: np.ndarray, stale: Conditionals | None, last: int) -> DraftTree:
        settings = self._settings
        if stale is None or settings.budget == 0:
            return DraftTree.empty(len(state))
        tokens, probs = self._verifier.hypotheses(
            stale, settings.temperature, self._transition.noise, self._drafter.hedge
        )
        future = self.lookahead.future
        tree = self._drafter.draft(DraftRequest(state, masked, stale, tokens, probs, settings.budget, last, future))
        if len(tree) > settings.budget:
            name = type(self._drafter).__name__
            raise ValueError(f"{name} drafted {len(tree)} states on a budget of {settings.budget}")
        return tree

    def _replicas(self, state: np.ndarray, tree: DraftTree, elsewhere: int) -> np.ndarray:
        """States [R, L] of the next forward: the root, the drafts and, if padded, dummy copies of the root;
        `elsewhere`: drafts of the next block in the same forward."""
        drafted_round = len(tree) > 0
        dummies = self._settings.budget - len(tree) - elsewhere if self._settings.padded and drafted_round else 0
        if not drafted_round:
            return state[None]
        return np.concatenate([state[None], tree.states, np.broadcast_to(state, (dummies, len(state)))])
