"""Targets: parity with the reference implementation, loading, and every way a directory can be wrong."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3Config, Qwen3ForCausalLM
from workers.errors import UserError
from workers.targets.digest import target_digest
from workers.targets.export import write_target
from workers.targets.families.sdar import SDAR
from workers.targets.load import load_target
from workers.targets.tokenizer import MASK, STOP, train_tokenizer
from workers.targets.transformer import KVCache, Transformer, TransformerConfig, block_causal_mask

CONFIG = TransformerConfig(
    vocab_size=300, hidden_size=24, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8, intermediate_size=40, max_positions=64
)
BLOCK = 4
PACKAGED = Path(__file__).parents[1] / "workers/targets/tiny-sdar"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A target directory with random weights, q out (32) different from hidden (24), and grouped keys."""
    out = tmp_path_factory.mktemp("target")
    torch.manual_seed(0)
    model = Transformer(CONFIG)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.3)
    write_target(out, SDAR, dict(model.state_dict()), CONFIG, BLOCK, train_tokenizer(["a text " * 20], CONFIG.vocab_size))
    return out


@pytest.fixture
def broken(directory, tmp_path):
    """A copy of the directory to break."""
    return Path(shutil.copytree(directory, tmp_path / "broken"))


def tokens(count: int) -> torch.Tensor:
    return torch.randint(CONFIG.vocab_size, (2, count), generator=torch.Generator().manual_seed(1))


def test_logits_equal_transformers(directory):
    """fp32, block-causal mask, two rows; also checks every weight's name and place."""
    published = json.loads((directory / "config.json").read_text()) | {"model_type": "qwen3"}
    reference = Qwen3ForCausalLM(Qwen3Config(**published, attn_implementation="sdpa")).eval()
    reference.load_state_dict(load_file(directory / "model.safetensors"))
    reference = reference.float()
    ids, positions = tokens(14), torch.arange(14)
    mask = block_causal_mask(positions, BLOCK)
    with torch.inference_mode():
        expected = reference(ids, attention_mask=mask.expand(2, 1, 14, 14), use_cache=False).logits
        found = load_target(str(directory), BLOCK).model(ids, positions, mask)
    assert expected.std() > 0.5
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_cached_equals_uncached(directory):
    """Prefill, then block by block; a block that is not stored leaves no trace."""
    model = load_target(str(directory), BLOCK).model
    ids, positions = tokens(16), torch.arange(16)
    with torch.inference_mode():
        expected = model(ids, positions, block_causal_mask(positions, BLOCK))
        cache = KVCache(CONFIG, 2, 16, torch.device("cpu"), torch.float32)
        found = [model(ids[:, :8], positions[:8], block_causal_mask(positions[:8], BLOCK), cache, store=8)]
        for start in (8, 12):
            here = slice(start, start + BLOCK)
            model(ids[:, here] * 0, positions[here], None, cache)
            found.append(model(ids[:, here], positions[here], None, cache, store=BLOCK))
    torch.testing.assert_close(torch.cat(found, dim=1), expected, atol=1e-5, rtol=1e-5)


def test_later_blocks_are_invisible(directory):
    model = load_target(str(directory), BLOCK).model
    ids, positions = tokens(12), torch.arange(12)
    changed = ids.clone()
    changed[:, 8:] = 7
    mask = block_causal_mask(positions, BLOCK)
    with torch.inference_mode():
        before, after = model(ids, positions, mask), model(changed, positions, mask)
    assert torch.equal(before[:, :8], after[:, :8]) and not torch.equal(before[:, 8:], after[:, 8:])


def test_selected_logits_are_the_same(directory):
    model = load_target(str(directory), BLOCK).model
    ids, positions = tokens(8), torch.arange(8)
    select = torch.rand(2, 8, generator=torch.Generator().manual_seed(2)) < 0.5
    with torch.inference_mode():
        whole = model(ids, positions)
        torch.testing.assert_close(model(ids, positions, select=select), whole[select])
        torch.testing.assert_close(model(ids, positions, keep=3), whole[:, -3:])


def test_shards_load_like_one_file(directory, broken):
    weights = load_file(broken / "model.safetensors")
    (broken / "model.safetensors").unlink()
    names = sorted(weights)
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        save_file({name: weights[name] for name in part}, broken / f"model-{number:05}-of-00002.safetensors")
    one, two = load_target(str(directory), BLOCK).model, load_target(str(broken), BLOCK).model
    ids, positions = tokens(8), torch.arange(8)
    assert torch.equal(one(ids, positions), two(ids, positions))


def test_target_knows_its_tokens(directory):
    target = load_target({"checkpoint": str(directory), "name": "mine"}, 16)
    text = 'A naïve "text" 42 — 漢字\n    x'
    assert (target.name, target.block_length, target.max_positions, target.vocab_size) == ("mine", 16, 64, target.vocab_size)
    assert target.tokenizer.convert_ids_to_tokens(target.mask_id) == MASK
    assert target.stop_ids == {target.tokenizer.convert_tokens_to_ids(STOP)}
    assert target.decode(target.encode(text)) == text
    assert target.decode(target.encode("a") + list(target.stop_ids) + target.encode("b")) == "a"


def rewrite(path: Path, **changes) -> None:
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value != "remove"}))


def test_wrong_tensors_are_listed_in_one_line(broken):
    weights = load_file(broken / "model.safetensors")
    del weights["lm_head.weight"]
    weights["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(3)
    weights["model.norm.weight"] = torch.ones(25)
    save_file(weights, broken / "model.safetensors")
    with pytest.raises(UserError) as caught:
        load_target(str(broken), BLOCK)
    line = str(caught.value)
    assert "missing lm_head.weight" in line and "extra model.layers.0.self_attn.q_proj.bias" in line
    assert "model.norm.weight has shape [25] instead of [24]" in line and "\n" not in line


@pytest.mark.parametrize("size", [0, 5, 100, 5000])
def test_truncated_weights(broken, size):
    path = broken / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UserError, match="model.safetensors: truncated"):
        load_target(str(broken), BLOCK)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt"])
def test_pickles_are_refused(broken, name):
    (broken / "model.safetensors").rename(broken / name)
    with pytest.raises(UserError, match=f"{name} is a pickle.*safetensors"):
        load_target(str(broken), BLOCK)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"head_dim": "remove", "vocab_size": "remove"}, "missing vocab_size, head_dim"),
        ({"model_type": "llama"}, "model_type is 'llama'"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings is True"),
        ({"rope_scaling": {"factor": 2}}, "rope_scaling is"),
        ({"num_key_value_heads": 3}, "multiple"),
        ({"mask_token_id": 10**6}, "no mask token"),
    ],
)
def test_wrong_configuration(broken, changes, words):
    rewrite(broken / "config.json", **changes)
    with pytest.raises(UserError, match=words):
        load_target(str(broken), BLOCK)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_missing_and_malformed_files(broken, name):
    (broken / name).write_text("{")
    with pytest.raises(UserError, match=name):
        load_target(str(broken), BLOCK)
    (broken / name).unlink()
    with pytest.raises(UserError, match=name.replace("model", ".*")):
        load_target(str(broken), BLOCK)


def test_unknown_references(tmp_path):
    with pytest.raises(UserError, match="no such directory, and packaged targets are tiny-llada, tiny-sdar"):
        load_target(str(tmp_path / "nowhere"), BLOCK)
    with pytest.raises(UserError, match="dtype 'int8'"):
        load_target("tiny-sdar", 32, dtype="int8")


def test_hub_names(directory, tmp_path, monkeypatch):
    """Without a network (as in these tests) what the hub's cache holds can be used, and nothing else."""
    with pytest.raises(UserError, match="'hub:nobody/nothing': not in the local cache and cannot be fetched") as caught:
        load_target({"checkpoint": "hub:nobody/nothing", "name": "x"}, BLOCK)
    assert "\n" not in str(caught.value)
    # The layout of the cache: large files are links to blobs named by their SHA-256.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    repository, commit = tmp_path / "models--me--mine", "a" * 40
    snapshot = Path(shutil.copytree(directory, repository / "snapshots" / commit))
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(commit)
    weights = snapshot / "model.safetensors"
    blob = repository / "blobs" / hashlib.sha256(weights.read_bytes()).hexdigest()
    blob.parent.mkdir()
    weights.rename(blob)
    weights.symlink_to(blob)
    assert load_target("hub:me/mine", BLOCK).name == load_target("hub:me/mine@main", BLOCK).name == "mine"
    assert target_digest("hub:me/mine") == target_digest(str(directory))


def test_digest_follows_the_files_not_the_place(directory, broken):
    assert target_digest(str(directory)) == target_digest({"checkpoint": str(broken), "name": "other"})
    path = broken / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert target_digest(str(directory)) != target_digest(str(broken))
