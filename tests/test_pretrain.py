"""The pretrain stage: what a training row shows whom, exact resumption, and the shipped result."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from workers.errors import UserError
from workers.stages.muon import orthogonalise
from workers.stages.pretrain import RECIPES, PretrainSettings, build_tokenizer, new_model, run, small_blocks
from workers.stages.pretrain_canvas import CanvasCorpus, answer_masks
from workers.stages.pretrain_check import decode_canvas, decode_prefix, exact_accuracy
from workers.stages.pretrain_data import Corpus, TwoCopyAttention, masked_pair
from workers.stages.pretrain_stream import WINDOW, Stream
from workers.decoding.loop import decode
from workers.decoding.noise import GumbelNoise
from workers.decoding.records import DecodeSettings
from workers.drafters import make_drafter
from workers.targets.digest import PACKAGED
from workers.targets.load import load_target
from workers.targets.target import Target
from workers.targets.transformer import block_causal_mask
from workers.tasks import get_task
from workers.verifiers import make_verifier

TINY = dict(
    steps=6, rows=2, layers=1, width=32, heads=2, intermediate=32, vocab_size=400, max_positions=512, warmup=2,
    second_phase=3, tokenizer_samples=20, checkpoint_every=2, check_every=4, check_samples=1, final_samples=2,
)  # fmt: skip


def settings_and_stream() -> tuple[PretrainSettings, Stream]:
    settings = PretrainSettings(**TINY)
    return settings, Stream(build_tokenizer(settings), 0, 1, seed=3)


@pytest.mark.parametrize("block", [WINDOW, 4])
def test_attention_shows_each_part_what_it_may_see(block):
    """Against one big mask written down from the definition: copy, block and cleanness of every position."""
    first, windows = 1, 3
    clean_length = windows * WINDOW - block
    noisy = torch.arange(first * WINDOW, windows * WINDOW)
    where = torch.cat([noisy, noisy, torch.arange(clean_length)]) // block
    copy = torch.tensor([1] * len(noisy) + [2] * len(noisy) + [0] * clean_length)
    same = (copy[:, None] == copy[None]) & (where[:, None] == where[None])
    mask = same | ((copy[None] == 0) & (where[None] < where[:, None]))
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, len(where), 8, generator=generator) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(TwoCopyAttention(first, windows, block)(q, k, v), expected, atol=1e-5, rtol=1e-5)


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, WINDOW - 1))
def test_masks_cover_the_answer_and_spare_the_prompt(seed, windows, tail):
    first, second = masked_pair(np.random.default_rng(seed), windows, tail)
    assert not first[:tail].any() and not second[:tail].any()
    assert (first | second)[tail:].all()
    full = first.reshape(windows, WINDOW).sum(axis=1) == [WINDOW - tail] + [WINDOW] * (windows - 1)
    overlap = (first & second).reshape(windows, WINDOW).any(axis=1)
    assert not (overlap & ~full).any()


def test_rows_hold_training_problems_with_the_answer_as_label():
    _, stream = settings_and_stream()
    tokenizer = stream.tokenizer
    prompts = {s.prompt for name in ("tiny-math", "tiny-code") for s in get_task(name).samples("train", 5, 5)}
    seen = set()
    for batch in Corpus(stream).batches(1, 10, WINDOW):
        split = 2 * batch.attention.noisy
        for row, labels in zip(batch.tokens, batch.labels):
            clean = row[split:]
            text = tokenizer.decode(clean.tolist())
            prompt = text[: text.index("\n") + 1]
            seen.add(prompt)
            length = len(tokenizer.encode(prompt).ids)
            for copy in (slice(0, split // 2), slice(split // 2, split)):
                places, marked = batch.positions[copy], labels[copy]
                assert (marked[places < length] == -1).all()
                assert ((row[copy] == stream.mask_id) == (marked >= 0)).all()
                known = (marked >= 0) & (places < len(clean))
                assert torch.equal(marked[known], clean[places[known]])
            assert (labels[split:] == -1).all()
    assert seen == prompts


def test_drills_ask_for_each_result_once():
    """The second phase's rows of arithmetic: every masked token is the right result of what stands before it."""
    _, stream = settings_and_stream()
    batches = Corpus(stream).batches(1, 10, WINDOW, second_phase=True)
    (drills,) = [batch for batch in batches if batch.weight != 1]
    for row, labels in zip(drills.tokens, drills.labels):
        first, second = (labels[start : start + drills.attention.noisy] for start in (0, drills.attention.noisy))
        assert not ((first >= 0) & (second >= 0)).any()
        whole = torch.where(first >= 0, first, row[: drills.attention.noisy])
        text = stream.tokenizer.decode(whole.tolist())
        facts = re.findall(r"(\d+) ([+*-]) (\d+) = (\d+)\.", text)
        assert len(facts) >= 8
        signs = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
        assert all(signs[sign](int(a), int(b)) == int(result) for a, sign, b, result in facts)
        assert ((first >= 0) | (second >= 0)).sum() >= len(facts)


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([4, WINDOW]), st.data())
def test_canvas_masks_are_those_that_the_decoder_makes(seed, windows, block, data):
    """All is clean before a decoder-like row's block, all is masked behind it, and only masks count in the loss."""
    length = windows * WINDOW
    answer = data.draw(st.integers(1, length))
    *like_decoder, anywhere = answer_masks(np.random.default_rng(seed), length, block, answer)
    currents = set()
    for masks, wanted in like_decoder:
        counts = masks.reshape(-1, block).sum(axis=1)
        current = int(np.flatnonzero(counts)[0])
        assert (counts[current + 1 :] == block).all()
        assert wanted.reshape(-1, block)[current].sum() == counts[current]
        assert not (wanted & ~masks).any()
        currents.add(current)
    assert len(currents) == len(like_decoder) >= 1
    assert anywhere[0].any() and (anywhere[0] == anywhere[1]).all()


def test_canvas_rows_hold_training_problems_and_hide_their_padding():
    settings, stream = settings_and_stream()
    model = new_model(settings, stream.tokenizer.get_vocab_size()).eval()
    prompts = {s.prompt for name in ("tiny-math", "tiny-code") for s in get_task(name).samples("train", 5, 5)}
    seen, padded = set(), 0
    for batch in CanvasCorpus(stream).batches(1, 10, WINDOW):
        whole = torch.where(batch.labels >= 0, batch.labels, batch.tokens)
        seen |= {stream.tokenizer.decode(row.tolist()).split("\n")[0] + "\n" for row in whole}
        assert (batch.tokens[batch.labels >= 0] == stream.mask_id).all()
        visible = batch.attention[:, 0, 0] == 0
        assert visible[batch.labels >= 0].all()
        other = torch.where(visible, batch.tokens, 7)
        padded += int((~visible).sum())
        one, two = (model(rows, batch.positions, batch.attention.float()) for rows in (batch.tokens, other))
        torch.testing.assert_close(one[visible], two[visible])
    assert seen == prompts and padded


def test_canvas_decoding_equals_one_by_one():
    """Blocks behind the prompt's end, under the dual cache, one commit in every forward."""
    settings, _ = settings_and_stream()
    model = new_model(replace(settings, embedded="tiny-llada", layers=2), 400).eval()
    model.head.weight.data *= 20
    prompts = torch.randint(2, 400, (3, 37), generator=torch.Generator().manual_seed(4))
    target = Target("random", model, None, 8, 1, frozenset({0}), "full")
    control, verifier = make_drafter("none", {}, {}, None), make_verifier("none")
    for prompt, row in zip(prompts.tolist(), decode_canvas(target, prompts, 20).tolist()):
        noise = GumbelNoise(0, "", 400)
        done = decode(target, prompt, DecodeSettings(20, "eos", cache="dual"), control, verifier, noise)
        assert row[37 : 37 + len(done.tokens)] == done.tokens


def test_a_target_without_norms_starts_from_one_with_them():
    """The norms of queries and keys become part of the projections, and the target's knowledge survives that."""
    settings = RECIPES["tiny-llada"]
    tokenizer = load_target("tiny-sdar", WINDOW).tokenizer
    model = new_model(settings, len(tokenizer))
    assert not model.config.qk_norm
    prompt, answer = (tokenizer.encode(text) for text in ("so 12 + 5 = 17. so 17 * 2 =", " 34"))
    rows = torch.tensor([[*prompt, tokenizer.mask_token_id]])
    logits = model(rows, torch.arange(rows.shape[1]))[0, -1]
    assert answer == [int(logits.argmax())]


def test_small_blocks_come_only_at_first():
    settings = PretrainSettings(steps=100, small_until=20)
    assert [step for step in range(100) if small_blocks(settings, step)] == list(range(0, 20, 2))


def test_orthogonalised_matrices_have_even_singular_values():
    for shape in ((3, 16, 16), (2, 48, 16), (2, 16, 48)):
        matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        values = torch.linalg.svdvals(orthogonalise(matrices).float())
        assert values.min() > 0.3 and values.max() < 1.4


class Killed(Exception):
    pass


def session(folder: Path, kill_at: int = -1) -> SimpleNamespace:
    def progress(done: int, total: int, **figures: float) -> None:
        if done == kill_at:
            raise Killed

    return SimpleNamespace(progress=progress, journal=folder / "journal")


def test_a_killed_run_ends_with_the_same_weights(tmp_path):
    outs = [tmp_path / name for name in ("straight", "killed", "resumed")]
    for out in outs:
        out.mkdir()
    straight = run(TINY, {}, outs[0], session(tmp_path))
    with pytest.raises(Killed):
        run(TINY, {}, outs[1], session(tmp_path, kill_at=4))
    resumed = run(TINY, {}, outs[2], session(tmp_path))
    first, last = (load_file(out / "model.safetensors") for out in (outs[0], outs[2]))
    assert all(torch.equal(first[name], last[name]) for name in first)
    assert straight["accuracy"] == resumed["accuracy"]
    assert not (tmp_path / "journal.safetensors").exists()
    built = json.loads((outs[2] / "build.json").read_text())
    assert built["settings"]["steps"] == 6
    assert set(built["sha256"]) >= {"model.safetensors", "config.json", "tokenizer.json"}
    target = load_target(str(outs[2]), WINDOW)
    assert target.decode(target.encode("any text")) == "any text"


def test_unknown_settings_are_user_errors(tmp_path):
    with pytest.raises(UserError, match="stepz"):
        run({"stepz": 3}, {}, tmp_path, session(tmp_path))
    with pytest.raises(UserError, match="llama"):
        run({"embedded": "llama"}, {}, tmp_path, session(tmp_path))


def test_batched_decoding_equals_one_by_one_without_cache():
    """Every forward sees the whole canvas with the block-causal mask, commits one token, and nothing is cached."""
    settings, _ = settings_and_stream()
    model = new_model(replace(settings, layers=2), 400).eval()
    model.head.weight.data *= 20
    prompts = torch.randint(2, 400, (3, 37), generator=torch.Generator().manual_seed(4))
    found = decode_prefix(Target("random", model, None, 8, 1, frozenset({0})), prompts, 20)
    for prompt, row in zip(prompts, found):
        tokens = torch.cat([prompt, torch.full((64 - 37,), 1)])[None]
        for start in range(32, len(row), 8):
            while (tokens[0, start : start + 8] == 1).any():
                positions = torch.arange(start + 8)
                logits = model(tokens[:, : start + 8], positions, block_causal_mask(positions, 8))[0, start:]
                logits[:, 1] = float("-inf")
                confidence, best = logits.softmax(dim=-1).max(dim=-1)
                where = int(confidence.masked_fill(tokens[0, start : start + 8] != 1, -1).argmax())
                tokens[0, start + where] = best[where]
        assert torch.equal(tokens[0, : len(row)], row)


@pytest.mark.parametrize("name", sorted(PACKAGED))
def test_shipped_files_are_the_built_ones(name):
    directory = PACKAGED[name]
    built = json.loads((directory / "build.json").read_text())
    for file, digest in built["sha256"].items():
        assert hashlib.sha256((directory / file).read_bytes()).hexdigest() == digest
    assert (directory / "model.safetensors").stat().st_size <= 8e6
    assert PretrainSettings(**built["settings"]) == RECIPES[name]


def test_shipped_tokenizer_has_a_token_for_every_small_number():
    target = load_target("tiny-sdar", WINDOW)
    assert all(len(target.encode(f" {number}")) == 1 for number in range(100))
    for name in ("tiny-math", "tiny-code"):
        for sample in get_task(name).samples("test", 0, 200):
            prompt, solution = target.encode(sample.prompt), target.encode(sample.reference["solution"])
            assert 60 <= len(solution) + 1 <= 95 and 30 <= len(prompt) <= 50
            assert prompt + solution == target.encode(sample.prompt + sample.reference["solution"])


@pytest.mark.parametrize("name", sorted(PACKAGED))
def test_shipped_target_solves_held_out_problems(name):
    """A small sample of what build.json states."""
    target = load_target(name, WINDOW)
    shares = exact_accuracy(target, target.tokenizer.backend_tokenizer, 96, "test", 10)
    assert all(share >= 0.8 for share in shares.values()), shares
