"""However drafts are made, verified and laid out: the output is the control's, token for token, in its order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from drafters_for_tests import Oracle, RandomGraph
from hypothesis import given, settings
from hypothesis import strategies as st
from targets_for_tests import random_target

from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise, RoundNoise
from workers.decoding.records import DecodeSettings, Decoded
from workers.decoding.transition import Step
from workers.drafters.chain import Chain
from workers.drafters.none import NoDrafts
from workers.drafters.tree import ConfidenceTree
from workers.targets.packed import pack_linears
from workers.verifiers import Walk, make_verifier
from workers.verifiers.coupled import Coupled
from workers.verifiers.follow import follow
from workers.verifiers.uncoupled import Uncoupled

TARGETS = [random_target(seed) for seed in range(3)]
LENGTH = TARGETS[0].block_length
VOCAB = TARGETS[0].vocab_size
PROMPT = [5, 9, 2, 30, 7, 7, 41, 3, 12, 18, 25]


def run(target, prompt, drafter=None, verifier=None, sample="s", **options) -> Decoded:
    noise = GumbelNoise(0, sample, VOCAB)
    options = {"generation_length": 20, **options}
    verifier = verifier or make_verifier("none")
    return decode(target, prompt, DecodeSettings(**options), drafter or NoDrafts(), verifier, noise)


def order(decoded: Decoded) -> list[int]:
    return [position for r in decoded.rounds for position in r.positions]


def drafter_of(name: str, seed: int):
    if name == "random":
        return RandomGraph(seed, VOCAB)
    return {"chain": Chain(), "tree": ConfidenceTree(), "hedged tree": ConfidenceTree(3, 1.0)}[name]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    target=st.sampled_from(TARGETS),
    drafter=st.sampled_from(["chain", "tree", "hedged tree", "random"]),
    verifier=st.sampled_from(["greedy", "uncoupled", "coupled"]),
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    layout=st.sampled_from(["batch", "concat"]),
    padded=st.booleans(),
    budget=st.integers(1, 12),
    stop=st.sampled_from(["fill", "eos"]),
    prompt_length=st.integers(0, len(PROMPT)),
    generation_length=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_output_is_the_controls(
    target, drafter, verifier, temperature, layout, padded, budget, stop, prompt_length, generation_length, seed
):
    if verifier == "greedy":
        temperature = 0.0
    # A frequent token as stop id, so that `stop: eos` often has something to stop at.
    target = replace(target, stop_ids=frozenset({5, 40}))
    shared = {"generation_length": generation_length, "temperature": temperature, "stop": stop}
    control = run(target, PROMPT[:prompt_length], **shared)
    method = run(
        target,
        PROMPT[:prompt_length],
        drafter_of(drafter, seed),
        make_verifier(verifier),
        layout=layout,
        padded=padded,
        budget=budget,
        **shared,
    )
    assert method.tokens == control.tokens
    assert order(method) == order(control)
    assert method.nfe <= control.nfe
    for r in method.rounds:
        assert r.drafted <= budget and 1 <= len(r.positions) == r.accepted + 1
        assert r.replicas == (1 + budget if padded and r.drafted else 1 + r.drafted)
        assert (r.reject_cause is None) == (r.drafted == 0)
        assert r.round > 0 or r.drafted == 0


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    prompt_length=st.integers(0, len(PROMPT)),
    generation_length=st.integers(1, 20),
    budget=st.integers(1, 9),
    temperature=st.sampled_from([0.0, 1.0]),
)
def test_forward_counts(prompt_length, generation_length, budget, temperature):
    """The control needs one forward per mask, a perfect drafter as few as the undrafted first forwards allow."""
    prompt = PROMPT[:prompt_length]
    shared = {"generation_length": generation_length, "temperature": temperature}
    control = run(TARGETS[0], prompt, **shared)
    end = -(-(prompt_length + generation_length) // LENGTH) * LENGTH
    assert len(control.tokens) == control.nfe == end - prompt_length
    assert sorted(order(control)) == list(range(prompt_length, end))
    assert sum(block.commits for block in control.blocks) == control.nfe
    assert control.store_passes == len(control.blocks) - 1

    blocks: list[list[tuple[int, int]]] = [[] for _ in control.blocks]
    for r in control.rounds:
        blocks[r.block] += [(p % LENGTH, control.tokens[p - prompt_length]) for p in r.positions]
    perfect = run(TARGETS[0], prompt, Oracle(blocks), Coupled(), budget=budget, **shared)
    assert perfect.tokens == control.tokens
    assert perfect.nfe == sum(1 + -(-(len(commits) - 1) // (budget + 1)) for commits in blocks)


def test_eos_ends_with_the_block_that_holds_the_first_stop_id():
    whole = run(TARGETS[0], PROMPT)
    stop_id = next(t for i, t in enumerate(whole.tokens) if t not in whole.tokens[:i] and 5 <= i < 13)
    at = whole.tokens.index(stop_id)
    target = replace(TARGETS[0], stop_ids=frozenset({stop_id}))
    short, full = run(target, PROMPT, stop="eos"), run(target, PROMPT, stop="fill")
    end = (len(PROMPT) + at) // LENGTH * LENGTH + LENGTH
    assert short.tokens == whole.tokens[: end - len(PROMPT)] and full.tokens == whole.tokens
    # The control commits one token per forward, so the answer costs its own length.
    assert short.nfe_answer == full.nfe_answer == at + 1


class Independent(Uncoupled):
    """Draws the token of every commit anew, as if the noise were not tied to the position."""

    def walk(self, tree, step) -> Walk:
        rows = torch.from_numpy(np.random.default_rng(len(tree)).gumbel(size=step.logits.shape[1:])).float()
        fresh = Step(step.states, step.logits, VOCAB - 1, lambda *_: step.committed, 1.0, RoundNoise(rows, np.empty((3, 0))))
        return follow(tree, step, accept=fresh.sampled, bonus=fresh.sampled)


class Credulous(Uncoupled):
    """Accepts the first child of the root unseen."""

    def walk(self, tree, step) -> Walk:
        accept = step.sampled.copy()
        if len(tree):
            accept[0] = tree.states[0]
        return follow(tree, step, accept=accept, bonus=step.sampled)


@pytest.mark.parametrize(("broken", "temperature"), [(Independent(), 1.0), (Credulous(), 0.0), (Credulous(), 1.0)])
def test_a_broken_verifier_is_noticed(broken, temperature):
    """The comparison of this file has teeth: these verifiers change the output."""
    control = run(TARGETS[0], PROMPT, temperature=temperature)
    method = run(TARGETS[0], PROMPT, ConfidenceTree(), broken, budget=6, temperature=temperature)
    assert method.tokens != control.tokens


def test_greedy_match_is_exact_at_zero_only():
    greedy = make_verifier("greedy")
    assert greedy.exact(0) and not greedy.exact(0.7)
    assert all(make_verifier(name).exact(t) for name in ("coupled", "uncoupled", "none") for t in (0, 1.0))
    control = run(TARGETS[0], PROMPT, temperature=1.0)
    assert run(TARGETS[0], PROMPT, ConfidenceTree(), greedy, budget=8, temperature=1.0).tokens != control.tokens
    # Without drafts only the bonus commit is left, and that one is drawn.
    assert run(TARGETS[0], PROMPT, NoDrafts(), greedy, budget=8, temperature=1.0).tokens == control.tokens


def test_coupling_saves_forwards_at_high_temperature():
    """SPOT, section 3.2: coupled drafts survive where the sample is not the argmax."""
    options = {"budget": 8, "temperature": 1.2}

    def forwards(name: str) -> int:
        verifier = make_verifier(name)
        return sum(run(TARGETS[0], PROMPT, ConfidenceTree(), verifier, f"s{i}", **options).nfe for i in range(6))

    assert forwards("coupled") < 0.95 * forwards("uncoupled")


def test_packed_weights_decode_alike():
    packed = random_target(0)
    assert pack_linears(packed.model)
    assert run(packed, PROMPT, ConfidenceTree(), Coupled(), budget=5).tokens == run(TARGETS[0], PROMPT).tokens
