"""Random-weight checkpoints in the published layout of every family, so that all of a pipeline can be tried offline.

They have the family's config.json, sharded safetensors with an index, its special tokens and its chat template; the
tokenizer is a byte-level BPE trained on the generated tasks. What they write is noise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from workers.errors import UserError
from workers.targets.config import ExpertsConfig, TransformerConfig
from workers.targets.export import published_weights
from workers.targets.families import FAMILIES, Family
from workers.targets.tokenizer import train_tokenizer
from workers.targets.transformer import Transformer
from workers.tasks import TASKS

SHARDS = 2
SHARPNESS = 2.0


@dataclass(frozen=True)
class Size:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    experts: int
    vocabulary: int


SIZES = {
    "tiny": Size(hidden=32, layers=2, heads=4, kv_heads=2, intermediate=64, experts=8, vocabulary=448),
    "small": Size(hidden=256, layers=6, heads=8, kv_heads=4, intermediate=768, experts=16, vocabulary=2048),
}

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
SYSTEM = "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}"
ROLES = (
    "{{ '<role>SYSTEM</role>detailed thinking off<|role_end|>' }}{% for message in messages %}"
    "{{ '<role>HUMAN</role>' + message['content'] + '<|role_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<role>ASSISTANT</role>' }}{% endif %}"
)
HEADERS = (
    "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' "
    "+ message['content'] + '<|eot_id|>' }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
)


@dataclass(frozen=True)
class Tokens:
    """Tokens added behind the vocabulary, the end of text first; all but the `unflagged` ones are special tokens."""

    added: tuple[str, ...]
    mask: str
    template: str
    unflagged: tuple[str, ...] = ()
    bos: str | None = None


TOKENS = {
    "sdar": Tokens(("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|MASK|>"), "<|MASK|>", CHATML, ("<|MASK|>",)),
    "llada2": Tokens(
        ("<|endoftext|>", "<|mask|>", "<role>", "</role>", "<|role_end|>"), "<|mask|>", ROLES, ("<|role_end|>",)
    ),
    "llada": Tokens(
        ("<|endoftext|>", "<|startoftext|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|mdm_mask|>"),
        "<|mdm_mask|>",
        HEADERS,
        bos="<|startoftext|>",
    ),
    "dream": Tokens(
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|beginoftext|>", "<|mask|>"),
        "<|mask|>",
        SYSTEM + CHATML,
        bos="<|beginoftext|>",
    ),
}


def make_checkpoint(family: str, directory: str | Path, size: str = "tiny", seed: int = 0, block_length: int = 32) -> Path:
    """Write a checkpoint of `family` into `directory`, which must be new or empty; the same seed gives the same bytes.

    Raises UserError for an unknown family or size, a directory that holds something or one that cannot be created.
    """
    for kind, value, known in (("family", family, FAMILIES), ("size", size, SIZES)):
        if value not in known:
            raise UserError(f"unknown {kind} '{value}'; choose one of {', '.join(known)}")
    directory = Path(directory)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"{directory}: is there already and not an empty directory; give a new one")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{directory}: cannot be created ({error.strerror}); give a place that can be written to") from None
    tokens = TOKENS[family]
    tokenizer = make_tokenizer(tokens, SIZES[size].vocabulary)
    config = make_config(family, SIZES[size], vocab_size=-(-len(tokenizer) // 64) * 64)
    write_weights(directory, published_weights(FAMILIES[family], random_weights(config, seed), config))
    write_config(directory, FAMILIES[family], config, tokenizer, tokens, block_length)
    tokenizer.save_pretrained(directory)
    if family == "dream":
        split_tokenizer(directory)
    return directory


def make_tokenizer(tokens: Tokens, vocab_size: int) -> PreTrainedTokenizerFast:
    samples = [sample for name in sorted(TASKS) for sample in TASKS[name].samples("train", 0, 50)]
    trained = train_tokenizer((s.prompt + s.reference["solution"] for s in samples), vocab_size, special_tokens=())
    for token in tokens.added:
        added = AddedToken(token, special=token not in tokens.unflagged, normalized=False)
        (trained.add_special_tokens if added.special else trained.add_tokens)([added])
    end = tokens.added[0]
    names = {"eos_token": end, "pad_token": end} | ({"bos_token": tokens.bos} if tokens.bos else {})
    made = PreTrainedTokenizerFast(tokenizer_object=trained, clean_up_tokenization_spaces=False, **names)
    made.chat_template = tokens.template
    return made


def split_tokenizer(directory: Path) -> None:
    """Replace tokenizer.json by the files that Dream has instead."""
    whole = json.loads((directory / "tokenizer.json").read_text())
    (directory / "vocab.json").write_text(json.dumps(whole["model"]["vocab"], ensure_ascii=False))
    (directory / "merges.txt").write_text("".join(f"{' '.join(merge)}\n" for merge in whole["model"]["merges"]))
    added = {str(token.pop("id")): token for token in whole["added_tokens"]}
    config = json.loads((directory / "tokenizer_config.json").read_text())
    _write_json(
        directory / "tokenizer_config.json", config | {"added_tokens_decoder": added, "tokenizer_class": "DreamTokenizer"}
    )
    (directory / "tokenizer.json").unlink()


def make_config(family: str, size: Size, vocab_size: int) -> TransformerConfig:
    shape = {
        "vocab_size": vocab_size,
        "hidden_size": size.hidden,
        "num_layers": size.layers,
        "num_heads": size.heads,
        "num_kv_heads": size.kv_heads,
        "head_dim": size.hidden // size.heads,
        "intermediate_size": size.intermediate,
        "max_positions": 2048,
    }
    if family == "sdar":
        return TransformerConfig(**shape | {"head_dim": 2 * shape["head_dim"]})
    if family == "llada":
        kind = {"num_kv_heads": size.heads, "qk_norm": False, "rope_fp32": True, "rope_theta": 5e5, "norm_eps": 1e-5}
        return TransformerConfig(**shape | kind)
    if family == "dream":
        return TransformerConfig(**shape, qk_norm=False, qkv_bias=True)
    expert = size.intermediate // 4
    experts = ExpertsConfig(size.experts, 3, 4, 2, expert, expert, scale=2.5, first_layer=1)
    rotary = shape["head_dim"] // 2
    return TransformerConfig(**shape, rope_theta=6e5, rotary_dim=rotary, experts=experts)


def random_weights(config: TransformerConfig, seed: int) -> dict[str, Tensor]:
    """Weights of unit gain and a head that is far from flat; norms, biases and routers are random too."""
    with torch.device("meta"):
        model = Transformer(config)
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name:
            weights[name] = 1 + 0.1 * noise
        elif parameter.dim() == 1:
            weights[name] = 0.1 * noise
        else:
            gain = SHARPNESS if name == "head.weight" else 1.0
            weights[name] = noise if name == "embed.weight" else noise * gain / parameter.shape[-1] ** 0.5
    return weights


def write_weights(directory: Path, weights: dict[str, Tensor]) -> None:
    """bf16 in shards of consecutive tensors, with the index that says where each is."""
    names = list(weights)
    length = -(-len(names) // SHARDS)
    where = {}
    for number in range(SHARDS):
        path = directory / f"model-{number + 1:05}-of-{SHARDS:05}.safetensors"
        part = names[number * length : (number + 1) * length]
        save_file({name: weights[name].bfloat16() for name in part}, path, {"format": "pt"})
        where.update(dict.fromkeys(part, path.name))
    total = sum(2 * tensor.numel() for tensor in weights.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def write_config(
    directory: Path,
    family: Family,
    config: TransformerConfig,
    tokenizer: PreTrainedTokenizerFast,
    tokens: Tokens,
    block_length: int,
) -> None:
    """config.json with the ids that the published one of the family holds; SDAR's stop ids are in generation_config.json."""
    end, mask = tokenizer.convert_tokens_to_ids([tokens.added[0], tokens.mask])
    ids = {"pad_token_id": end}
    if family.name != "llada2":
        ids |= {"eos_token_id": end, "mask_token_id": mask}
    if family.name == "sdar":
        ids |= {"block_size": block_length}
        stop = tokenizer.convert_tokens_to_ids(list(family.stop_tokens))
        _write_json(directory / "generation_config.json", {"eos_token_id": stop, "pad_token_id": end})
    _write_json(directory / "config.json", family.publish_config(config) | ids)


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
