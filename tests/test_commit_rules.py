"""Commit rules: what they fill on rows computed by hand, how they are written, and that drafts change nothing under any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drafters_for_tests import RandomGraph
from hypothesis import given, settings
from hypothesis import strategies as st
from targets_for_tests import random_target

from workers.decoding.commit import commit_rule
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings
from workers.decoding.rules import canonical_rule, threshold_of
from workers.drafters import make_drafter, TargetInfo
from workers.drafters.tree import ConfidenceTree
from workers.errors import UserError
from workers.verifiers import make_verifier

CAUSAL = random_target(1, sharpness=14.0)
FULL = replace(CAUSAL, attention="full")
LENGTH, VOCAB, MASK = CAUSAL.block_length, CAUSAL.vocab_size, CAUSAL.mask_id
PROMPT = [5, 9, 2, 30, 7, 7, 41, 3, 12, 18, 25]
RULES = ["single", "threshold:0.9", "threshold:0.5", "top-k:2", "top-k:3", "factor:1.0", "factor:0.5"]


def filled(rule: str, confidence: list[float], masked: list[int]) -> list[int]:
    row = np.array([confidence], dtype=np.float32)
    return np.flatnonzero(commit_rule(rule)(row, np.array([masked], dtype=bool))[0]).tolist()


@pytest.mark.parametrize(
    ("rule", "confidence", "masked", "expected"),
    [
        ("single", [0.2, 0.7, 0.7, 0.9], [1, 1, 1, 0], [1]),
        ("threshold:0.5", [0.2, 0.7, 0.5, 0.9], [1, 1, 1, 0], [1, 2]),  # tau itself passes, filled positions do not
        ("threshold:0.9", [0.2, 0.7, 0.7, 0.95], [1, 1, 1, 0], [1]),  # none passes: the best one
        ("top-k:2", [0.2, 0.7, 0.7, 0.95], [1, 1, 1, 0], [1, 2]),
        ("top-k:2", [0.7, 0.7, 0.7, 0.95], [1, 1, 1, 1], [0, 3]),
        ("top-k:3", [0.2, 0.7, 0.7, 0.95], [0, 1, 0, 0], [1]),
        # Factor 1: ranks 2, 3, 4 need 1 - 1/3, 1 - 1/4 and 1 - 1/5.
        ("factor:1.0", [0.80, 0.76, 0.70, 0.1], [1, 1, 1, 1], [0, 1]),
        ("factor:1.0", [0.80, 0.76, 0.75, 0.1], [1, 1, 1, 1], [0, 1, 2]),
        ("factor:1.0", [0.1, 0.3, 0.2, 0.9], [1, 1, 1, 0], [1]),
        ("factor:1.0", [0.99, 0.99, 0.99, 0.1], [1, 1, 1, 1], [0, 1, 2]),  # released code would fill all four
        ("factor:2.0", [0.80, 0.40, 0.30, 0.1], [1, 1, 1, 1], [0, 1]),
    ],
)
def test_what_a_rule_fills(rule: str, confidence: list[float], masked: list[int], expected: list[int]) -> None:
    assert filled(rule, confidence, masked) == expected


@pytest.mark.parametrize("rule", RULES)
def test_a_full_row_commits_nothing_and_any_other_something(rule: str) -> None:
    confidence = np.random.default_rng(0).random((6, LENGTH)).astype(np.float32)
    masked = np.random.default_rng(1).random((6, LENGTH)) < 0.5
    masked[0] = False
    committed = commit_rule(rule)(confidence, masked)
    assert not committed[0].any() and committed[1:].any(axis=1).all() and not (committed & ~masked).any()
    best = np.where(masked, confidence, -1).argmax(axis=1)
    assert committed[np.arange(1, 6), best[1:]].all()


def test_rules_have_one_written_form() -> None:
    assert [canonical_rule(text) for text in ("single", "threshold", "threshold:0.90", "threshold:1", "factor", "top-k:3")] == [
        "single", "threshold:0.9", "threshold:0.9", "threshold:1.0", "factor:1.0", "top-k:3",
    ]  # fmt: skip
    assert threshold_of("threshold:0.7") == 0.7 and threshold_of("single") == 0.9
    for text in ("top-k", "single:1", "threshold:2", "threshold:0", "top-k:1.5", "top-k:0", "factor:x", "greedy", ""):
        with pytest.raises(UserError):
            canonical_rule(text)
    with pytest.raises(UserError, match="commit_rule: 'greedy' is unknown; choose one of single, threshold:TAU"):
        DecodeSettings(4, commit_rule="greedy")


def run(target, drafter: str, **options):
    info = TargetInfo(LENGTH, VOCAB, MASK)
    made = RandomGraph(3, VOCAB) if drafter == "random" else ConfidenceTree() if drafter == "tree" else make_drafter(drafter, {}, {}, info)
    verifier = make_verifier("none" if drafter == "none" else options.pop("verifier", "coupled"))
    noise = GumbelNoise(0, "s", VOCAB)
    return decode(target, PROMPT, DecodeSettings(18, **options), made, verifier, noise)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    target_cache=st.sampled_from([(CAUSAL, "prefix"), (CAUSAL, "none"), (FULL, "dual"), (FULL, "approximate-prefix"), (FULL, "none")]),
    rule=st.sampled_from(RULES),
    drafter=st.sampled_from(["chain", "tree", "random", "oracle-joint", "oracle-token"]),
    layout=st.sampled_from(["batch", "concat"]),
    temperature=st.sampled_from([0.0, 1.0]),
    budget=st.integers(1, 8),
    stop=st.sampled_from(["fill", "eos"]),
)
def test_drafts_change_no_token_under_any_rule(target_cache, rule, drafter, layout, temperature, budget, stop) -> None:
    target, cache = target_cache
    shared = {"commit_rule": rule, "cache": cache, "temperature": temperature, "stop": stop}
    control = run(target, "none", **shared)
    method = run(target, drafter, budget=budget, layout=layout, verifier="coupled", **shared)
    order = [[p for r in one.rounds for p in r.positions] for one in (control, method)]
    assert method.tokens == control.tokens and order[0] == order[1]
    assert method.nfe <= control.nfe
    assert sum(len(r.positions) for r in method.rounds) == sum(block.commits for block in method.blocks)


@pytest.mark.parametrize("rule", ["threshold:0.5", "top-k:3", "factor:1.0"])
@pytest.mark.parametrize("target", [CAUSAL, FULL], ids=["block-causal", "full"])
def test_a_parallel_rule_takes_fewer_forwards(rule: str, target) -> None:
    single, parallel = run(target, "none"), run(target, "none", commit_rule=rule)
    assert parallel.nfe < single.nfe
    assert max(len(r.positions) for r in parallel.rounds) > 1


def test_vanilla_is_the_single_rule_on_the_whole_canvas() -> None:
    """LLaDA's own loop: the most confident position of the block, one forward over everything each."""
    decoded = run(FULL, "none", cache="none")
    assert decoded.nfe == len(decoded.tokens) == 24 and decoded.store_passes == 0
    assert all(len(r.positions) == 1 for r in decoded.rounds)
