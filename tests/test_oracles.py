"""Oracles: how far they shorten a decode, that they change nothing else, and that looking ahead is free of charge."""

from __future__ import annotations

from time import perf_counter, sleep

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from targets_for_tests import random_target

from workers.decoding.loop import decode
from workers.decoding.lookahead import Lookahead
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings, Decoded
from workers.drafters import ORACLES, TargetInfo, make_drafter
from workers.errors import UserError
from workers.verifiers import make_verifier

TARGETS = [random_target(seed) for seed in range(3)]
LENGTH = TARGETS[0].block_length
VOCAB = TARGETS[0].vocab_size
PROMPT = [5, 9, 2, 30, 7, 7, 41, 3, 12, 18, 25]
INFO = TargetInfo(LENGTH, VOCAB, VOCAB - 1)


def run(
    drafter: str, target=TARGETS[0], prompt=PROMPT, budget=0, temperature=0.0, length=24, layout="batch"
) -> Decoded:
    verifier = make_verifier("none" if drafter == "none" else "coupled")
    options = DecodeSettings(length, budget=budget, temperature=temperature, layout=layout)
    noise = GumbelNoise(0, "s", VOCAB)
    return decode(target, prompt, options, make_drafter(drafter, {}, {}, INFO), verifier, noise)


def order(decoded: Decoded) -> list[int]:
    return [position for r in decoded.rounds for position in r.positions]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    target=st.sampled_from(TARGETS),
    temperature=st.sampled_from([0.0, 0.7, 1.5]),
    budget=st.integers(1, 10),
    prompt_length=st.integers(0, len(PROMPT)),
    length=st.integers(1, 20),
    layout=st.sampled_from(["batch", "concat"]),
)
def test_the_joint_oracle_meets_the_ideal_schedule(target, temperature, budget, prompt_length, length, layout):
    """Per block of m masks 1 + ceil((m - 1) / (D + 1)) forwards, whatever the other oracles need; all are exact."""
    prompt = PROMPT[:prompt_length]
    control = run("none", target, prompt, 0, temperature, length)
    found = {name: run(name, target, prompt, budget, temperature, length, layout) for name in ORACLES}
    ideal = sum(1 + -(-(block.commits - 1) // (budget + 1)) for block in control.blocks)
    assert found["oracle-joint"].nfe == ideal
    for oracle in found.values():
        assert oracle.tokens == control.tokens and order(oracle) == order(control)
        assert ideal <= oracle.nfe <= control.nfe
        assert oracle.store_passes == control.store_passes


def test_what_ends_the_path_of_each_oracle():
    """Who knows the order never misses a position, who knows the tokens never a token."""
    causes = {}
    for name in ORACLES:
        decodes = [run(name, target, budget=4, temperature=t) for t in (0.0, 1.2) for target in TARGETS]
        rounds = [r for decoded in decodes for r in decoded.rounds]
        causes[name] = {r.reject_cause for r in rounds if r.drafted}
    assert causes == {
        "oracle-position": {"token", "budget"},
        "oracle-token": {"position", "budget"},
        "oracle-joint": {"budget"},
    }


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_position_oracle_accepts_the_run_of_right_stale_tokens(temperature):
    """A path ends at the first commit whose token is not the stale one, never before."""
    control = run("none", TARGETS[1], temperature=temperature)
    oracle = run("oracle-position", TARGETS[1], budget=LENGTH, temperature=temperature)
    assert oracle.tokens == control.tokens
    joint = run("oracle-joint", TARGETS[1], budget=LENGTH, temperature=temperature)
    assert joint.nfe < oracle.nfe < control.nfe
    for r in oracle.rounds:
        if r.drafted:
            assert (r.true_position_rank is not None) and (r.reject_cause == "budget") == (r.accepted == r.drafted)
        if r.reject_cause == "token" and not temperature:
            assert r.true_token_rank > 0


def test_a_block_is_looked_ahead_once_and_left_out_of_the_account(monkeypatch):
    """With every look-ahead slowed by 0.05 s: that time is in lookahead_s, in neither wall_s nor draft_s."""
    calls: list[int] = []
    look = Lookahead._run

    def slow(self, state):
        look(self, state)
        sleep(0.05)
        calls.append(1)
        self.seconds += 0.05

    monkeypatch.setattr(Lookahead, "_run", slow)
    began = perf_counter()
    decoded = run("oracle-joint", budget=2)
    elapsed = perf_counter() - began
    assert len(calls) == len(decoded.blocks) and len(decoded.rounds) > 2 * len(calls)
    assert decoded.lookahead_s > 0.05 * len(calls)
    assert decoded.draft_s + decoded.forward_s <= decoded.wall_s <= elapsed - decoded.lookahead_s
    assert run("none").lookahead_s == 0


def test_off_its_trajectory_the_future_is_looked_up_anew():
    """Greedy match at T>0 accepts argmaxes, which the target's own draws do not foretell; drafts stay legal."""
    options = DecodeSettings(24, budget=4, temperature=1.5)
    noise = GumbelNoise(0, "s", VOCAB)
    oracle = make_drafter("oracle-joint", {}, {}, INFO)
    decoded = decode(TARGETS[0], PROMPT, options, oracle, make_verifier("greedy"), noise)
    assert sorted(order(decoded)) == list(range(len(PROMPT), len(PROMPT) + len(decoded.tokens)))
    assert np.all(np.array(decoded.tokens) < VOCAB - 1)


def test_oracles_have_no_options():
    with pytest.raises(UserError, match="oracle-token has no option 'hedge'"):
        make_drafter("oracle-token", {"hedge": 2}, {}, INFO)
