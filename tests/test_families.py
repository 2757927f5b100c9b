"""Every family from a made checkpoint: parity with an independent implementation, tokens, and what can be wrong with one."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from pipeline.cli import main
from workers.errors import UserError
from workers.targets.families import FAMILIES
from workers.targets.load import load_target
from workers.targets.make_checkpoint import make_checkpoint
from workers.targets.transformer import KVCache, block_causal_mask

TOLERANCE = 1e-5
LENGTH = 70  # two blocks of 32 and a part of a third


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    return {family: make_checkpoint(family, root / family, seed=1) for family in FAMILIES}


@pytest.fixture
def broken(checkpoints, tmp_path) -> dict[str, Path]:
    """Copies to break."""
    return {family: Path(shutil.copytree(path, tmp_path / family)) for family, path in checkpoints.items()}


def published(directory: Path) -> tuple[dict, dict[str, torch.Tensor]]:
    weights: dict[str, torch.Tensor] = {}
    for path in sorted(directory.glob("*.safetensors")):
        weights.update(load_file(path))
    config = json.loads((directory / "config.json").read_text())
    return config, {name: tensor.float() for name, tensor in weights.items()}


def some_tokens(vocab: int, rows: int = 2, length: int = LENGTH) -> torch.Tensor:
    return torch.randint(vocab, (rows, length), generator=torch.Generator().manual_seed(1))


def visible_to(family: str, block_length: int, length: int = LENGTH) -> torch.Tensor:
    positions = torch.arange(length)
    if FAMILIES[family].attention == "full":
        return torch.ones(length, length, dtype=torch.bool)
    return block_causal_mask(positions, block_length)


def from_transformers(kind, config, weights: dict[str, torch.Tensor], ids: torch.Tensor, mask: torch.Tensor):
    model = kind(config).float().eval()
    model.load_state_dict(weights)
    return model(ids, attention_mask=mask.expand(len(ids), 1, *mask.shape), use_cache=False).logits


def reference_sdar(config, weights, ids, mask):
    return from_transformers(Qwen3ForCausalLM, Qwen3Config(**config | {"model_type": "qwen3"}), weights, ids, mask)


def reference_dream(config, weights, ids, mask):
    return from_transformers(Qwen2ForCausalLM, Qwen2Config(**config | {"model_type": "qwen2"}), weights, ids, mask)


def reference_llada(config, weights, ids, mask):
    names = {
        "model.transformer.wte": "model.embed_tokens",
        "model.transformer.ln_f": "model.norm",
        "model.transformer.ff_out": "lm_head",
        "model.transformer.blocks": "model.layers",
        ".attn_norm": ".input_layernorm",
        ".ff_norm": ".post_attention_layernorm",
        ".attn_out": ".self_attn.o_proj",
        ".q_proj": ".self_attn.q_proj",
        ".k_proj": ".self_attn.k_proj",
        ".v_proj": ".self_attn.v_proj",
        ".ff_proj": ".mlp.gate_proj",
        ".up_proj": ".mlp.up_proj",
        ".ff_out": ".mlp.down_proj",
    }
    renamed = {}
    for name, tensor in weights.items():
        for old, new in names.items():
            name = name.replace(old, new)
        renamed[name] = tensor
    shape = LlamaConfig(
        vocab_size=config["embedding_size"],
        hidden_size=config["d_model"],
        num_hidden_layers=config["n_layers"],
        num_attention_heads=config["n_heads"],
        num_key_value_heads=config["n_kv_heads"],
        intermediate_size=config["mlp_hidden_size"],
        max_position_embeddings=config["max_sequence_length"],
        rope_theta=config["rope_theta"],
        rms_norm_eps=config["rms_norm_eps"],
        tie_word_embeddings=False,
    )
    return from_transformers(LlamaForCausalLM, shape, renamed, ids, mask)


def reference_llada2(config, weights, ids, mask):
    """The published formulas one by one: a loop over heads and over every token's experts, nothing fused."""
    heads, groups, width = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    turned = int(width * config["partial_rotary_factor"])
    length = ids.shape[1]
    frequencies = torch.tensor([config["rope_theta"] ** (-2 * k / turned) for k in range(turned // 2)], dtype=torch.float64)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
    cos, sin = angles.cos().float(), angles.sin().float()

    def norm(x, name):
        return x / (x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]).sqrt() * weights[name]

    def turn(x):
        a, b, rest = x[..., : turned // 2], x[..., turned // 2 : turned], x[..., turned:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)

    def swiglu(x, prefix):
        gate, up, down = (weights[f"{prefix}.{name}_proj.weight"] for name in ("gate", "up", "down"))
        return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T

    def attention(x, prefix):
        fused = (x @ weights[f"{prefix}.query_key_value.weight"].T).unflatten(-1, (heads + 2 * groups, width))
        outputs = []
        for head in range(heads):
            group = head // (heads // groups)
            q = turn(norm(fused[:, :, head], f"{prefix}.query_layernorm.weight"))
            k = turn(norm(fused[:, :, heads + group], f"{prefix}.key_layernorm.weight"))
            scores = (q @ k.mT / width**0.5).masked_fill(~mask, -torch.inf)
            outputs.append(scores.softmax(-1) @ fused[:, :, heads + groups + group])
        return torch.cat(outputs, dim=-1) @ weights[f"{prefix}.dense.weight"].T

    def experts(x, prefix):
        scores = torch.sigmoid(x @ weights[f"{prefix}.gate.weight"].T)
        selection = scores + weights[f"{prefix}.gate.expert_bias"]
        per_group = config["num_experts"] // config["n_group"]
        result = swiglu(x, f"{prefix}.shared_experts")
        for row, column in torch.cartesian_prod(torch.arange(len(ids)), torch.arange(length)).tolist():
            s = selection[row, column]
            strength = [s[g * per_group : (g + 1) * per_group].sort(descending=True).values[:2].sum() for g in range(config["n_group"])]
            kept = sorted(range(config["n_group"]), key=lambda g: -strength[g])[: config["topk_group"]]
            allowed = [e for e in range(config["num_experts"]) if e // per_group in kept]
            chosen = sorted(allowed, key=lambda e: -s[e])[: config["num_experts_per_tok"]]
            total = sum(scores[row, column, e] for e in chosen)
            for e in chosen:
                share = scores[row, column, e] / total * config["routed_scaling_factor"]
                result[row, column] += share * swiglu(x[row, column], f"{prefix}.experts.{e}")
        return result

    x = weights["model.word_embeddings.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        x = x + attention(norm(x, f"{prefix}.input_layernorm.weight"), f"{prefix}.attention")
        h = norm(x, f"{prefix}.post_attention_layernorm.weight")
        x = x + (swiglu if layer < config["first_k_dense_replace"] else experts)(h, f"{prefix}.mlp")
    return norm(x, "model.norm.weight") @ weights["lm_head.weight"].T


REFERENCES = {"sdar": reference_sdar, "llada2": reference_llada2, "llada": reference_llada, "dream": reference_dream}


@pytest.mark.parametrize("block_length", [16, 32])
@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_logits_equal_an_independent_implementation(checkpoints, family, block_length):
    """fp32, two rows, a last block that is not whole."""
    if FAMILIES[family].attention == "full" and block_length == 16:
        pytest.skip("full attention knows no blocks")
    config, weights = published(checkpoints[family])
    target = load_target(str(checkpoints[family]), block_length)
    ids, mask = some_tokens(target.vocab_size), visible_to(family, block_length)
    expected = REFERENCES[family](config, weights, ids, mask)
    found = target.model(ids, torch.arange(LENGTH), mask)
    assert expected.std() > 0.5
    assert (found - expected).abs().max() <= TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_cached_equals_uncached(checkpoints, family):
    """What a cached forward sees are keys and values turned at the right positions, in every family."""
    target = load_target(str(checkpoints[family]), 32)
    ids, positions = some_tokens(target.vocab_size), torch.arange(LENGTH)
    mask = visible_to(family, 32)
    if target.attention == "full":
        # A prefix that sees itself alone, as if the rest were its later block.
        mask = block_causal_mask(positions, 64)
    expected = target.model(ids, positions, mask)
    cache = KVCache(target.model.config, 2, LENGTH, target.device, target.dtype)
    first = target.model(ids[:, :64], positions[:64], mask[:64, :64], cache, store=64)
    rest = target.model(ids[:, 64:], positions[64:], None, cache)
    assert (torch.cat([first, rest], dim=1) - expected).abs().max() <= TOLERANCE


@torch.inference_mode()
def test_rows_may_have_their_own_positions(checkpoints):
    """A left-padded row gives the logits of the row alone."""
    target = load_target(str(checkpoints["dream"]), 32)
    ids = some_tokens(target.vocab_size, rows=1, length=20)
    padded = torch.cat([torch.zeros(1, 5, dtype=torch.int64), ids], dim=1)
    positions = (torch.arange(25) - 5).clamp(min=0)[None]
    mask = (torch.arange(25) >= 5)[None, None, None]
    found = target.model(padded, positions, mask)[:, 5:]
    assert (found - target.model(ids, torch.arange(20))).abs().max() <= TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_keeps_the_router_exact(checkpoints, family):
    target = load_target(str(checkpoints[family]), 32, dtype="bfloat16")
    logits = target.model(some_tokens(target.vocab_size), torch.arange(LENGTH), visible_to(family, 32))
    assert logits.dtype == torch.bfloat16 and logits.isfinite().all()
    routers = {p.dtype for name, p in target.model.named_parameters() if ".router." in name}
    assert routers == ({torch.float32} if family == "llada2" else set())
    assert target.model.cos.dtype == torch.float32


CHATS = {
    "sdar": "<|im_start|>user\nAdd 2 and 3.<|im_end|>\n<|im_start|>assistant\n",
    "llada2": "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>Add 2 and 3.<|role_end|><role>ASSISTANT</role>",
    "llada": "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\nAdd 2 and 3.<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "dream": "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nAdd 2 and 3.<|im_end|>\n"
    "<|im_start|>assistant\n",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_masks_and_stops(checkpoints, family):
    target = load_target(str(checkpoints[family]), 32)
    known = FAMILIES[family]
    chat = target.encode("Add 2 and 3.", chat=True)
    assert target.tokenizer.decode(chat) == CHATS[family]
    assert target.encode("Add 2 and 3.") == chat
    assert target.decode(target.encode("Add 2 and 3.", chat=False)) == "Add 2 and 3."
    ids = target.tokenizer.convert_tokens_to_ids([*known.stop_tokens])
    assert target.stop_ids == set(ids)
    assert target.tokenizer.convert_ids_to_tokens(target.mask_id) in known.mask_tokens
    # The vocabulary is padded, as in the published checkpoints; what is not in the tokenizer has no text.
    assert target.decode([target.vocab_size - 1, *target.encode("x", chat=False)]) == "x"


def test_a_tokenizer_without_template_takes_plain_prompts_only(broken):
    (broken["sdar"] / "chat_template.jinja").unlink()
    target = load_target(str(broken["sdar"]), 32)
    assert target.encode("a") == target.encode("a", chat=False)
    with pytest.raises(UserError, match="no chat template"):
        target.encode("a", chat=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_of_another_family(broken, family):
    other = "dream" if family == "sdar" else "sdar"
    shutil.copy(broken[other] / "config.json", broken[family] / "config.json")
    with pytest.raises(UserError, match=f"config.json says {other}, but the weights are those of a {family} checkpoint"):
        load_target(str(broken[family]), 32)


def test_unusable_files_are_named_in_one_line(broken):
    first, second = sorted(broken["llada2"].glob("*.safetensors"))
    second.write_bytes(second.read_bytes()[:-100])
    with pytest.raises(UserError, match=f"{second.name}: truncated"):
        load_target(str(broken["llada2"]), 32)
    second.unlink()
    with pytest.raises(UserError, match=f"{second.name} named in model.safetensors.index.json is missing"):
        load_target(str(broken["llada2"]), 32)
    (broken["dream"] / "merges.txt").unlink()
    with pytest.raises(UserError, match="tokenizer.json: no such file.*merges.txt"):
        load_target(str(broken["dream"]), 32)
    config = json.loads((broken["llada2"] / "config.json").read_text())
    del config["topk_group"]
    (broken["llada2"] / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="missing topk_group"):
        load_target(str(broken["llada2"]), 32)


def test_missing_experts_are_listed(broken):
    path = sorted(broken["llada2"].glob("*.safetensors"))[-1]
    weights = load_file(path)
    lost = [name for name in weights if ".experts.3." in name]
    save_file({name: tensor for name, tensor in weights.items() if name not in lost}, path)
    with pytest.raises(UserError) as caught:
        load_target(str(broken["llada2"]), 32)
    assert lost and all(f"missing {name}" in str(caught.value) for name in lost)


def test_a_checkpoint_is_the_same_for_the_same_seed_and_never_overwrites(checkpoints, tmp_path):
    same, other = make_checkpoint("llada", tmp_path / "a", seed=1), make_checkpoint("llada", tmp_path / "b", seed=2)
    files = sorted(path.name for path in same.iterdir())
    assert files == sorted(path.name for path in checkpoints["llada"].iterdir())
    assert all((same / name).read_bytes() == (checkpoints["llada"] / name).read_bytes() for name in files)
    assert any((same / name).read_bytes() != (other / name).read_bytes() for name in files)
    with pytest.raises(UserError, match="not an empty directory"):
        make_checkpoint("llada", same)
    with pytest.raises(UserError, match="unknown family 'gpt'.*sdar, llada2, llada, dream"):
        make_checkpoint("gpt", tmp_path / "c")


def test_the_command_says_how_to_use_what_it_made(tmp_path):
    first, second = (CliRunner().invoke(main, ["make-checkpoint", "sdar", str(tmp_path / "made")]) for _ in range(2))
    assert first.exit_code == 0
    assert shlex.split(first.output)[-2:] == ["--set", f"target={{checkpoint: {tmp_path / 'made'}, name: sdar}}"]
    inside_a_file = CliRunner().invoke(main, ["make-checkpoint", "sdar", str(tmp_path / "made" / "config.json" / "sub")])
    for refused in (second, inside_a_file):
        assert refused.exit_code == 2 and refused.output.startswith("error: ") and refused.output.count("\n") == 1
