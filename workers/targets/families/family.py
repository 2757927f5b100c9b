"""What a family of published checkpoints is: its config.json, its tensor names, and how it is decoded (no torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from workers.errors import UserError
from workers.targets.config import TransformerConfig

Attention = Literal["block-causal", "full"]
# Published name -> rows of our tensor that it holds, in order.
Parts = dict[str, int]


@dataclass(frozen=True)
class Family:
    """One family; `name` is what users call it, `model_type` what its config.json says.

    attention: "block-causal" (i sees j iff block(j) <= block(i), blocks aligned to position 0) or "full" (everything
    sees everything, masks of later blocks included). shift: row i - 1 of the logits predicts token i. mask_tokens,
    stop_tokens: spellings in the tokenizer; mask_id: the published id, used if neither config.json nor the tokenizer
    tells. mark: a published tensor that no other family has. top, layer: our tensor -> published ones, whose rows
    follow each other in it; names of a layer come behind `prefix`. fields: our field -> key of config.json; fixed: keys
    that leave no choice, absent means the same; extend: the rest of the shape, from config.json.
    """

    name: str
    model_type: str
    architecture: str
    attention: Attention
    shift: bool
    mask_tokens: tuple[str, ...]
    mask_id: int
    stop_tokens: tuple[str, ...]
    mark: str
    fields: Mapping[str, str]
    fixed: Mapping[str, Any]
    top: Mapping[str, str]
    prefix: str
    layer: Callable[[TransformerConfig, int], Mapping[str, tuple[str, ...]]]
    extend: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda published: {}
    published_extras: Callable[[TransformerConfig], dict[str, Any]] = lambda config: {}

    def read_config(self, published: Mapping[str, Any], where: str) -> TransformerConfig:
        """Our shape from a config.json; raises UserError that names what is missing or not supported."""
        if missing := [theirs for theirs in self.fields.values() if published.get(theirs) is None]:
            raise UserError(f"{where}: missing {', '.join(missing)}; a config.json of a {self.name} checkpoint has them")
        for key, value in self.fixed.items():
            if published.get(key, value) != value:
                raise UserError(f"{where}: {key} is {published[key]!r}, a {self.name} target needs {value!r}")
        shape = {ours: published[theirs] for ours, theirs in self.fields.items()}
        try:
            config = TransformerConfig(**{**shape, **self.extend(published)})
        except KeyError as error:
            raise UserError(f"{where}: missing {error.args[0]}; a config.json of a {self.name} checkpoint has it") from None
        if config.num_heads % config.num_kv_heads or (config.rotary_dim or config.head_dim) % 2:
            raise UserError(f"{where}: heads must be a multiple of key/value heads, and RoPE needs an even width")
        return config

    def publish_config(self, config: TransformerConfig) -> dict[str, Any]:
        """The config.json of a model of this shape, without token ids."""
        shape = {theirs: getattr(config, ours) for ours, theirs in self.fields.items()}
        fixed = {"architectures": [self.architecture], "model_type": self.model_type, **self.fixed}
        return {**fixed, **shape, **self.published_extras(config), "torch_dtype": "bfloat16"}

    def parts(self, config: TransformerConfig) -> dict[str, Parts]:
        """Every tensor of ours with the published ones it is made of."""
        found = {}
        for ours, theirs in self.top.items():
            found[ours] = {theirs: config.hidden_size if ours == "norm.weight" else config.vocab_size}
        for index in range(config.num_layers):
            prefix = self.prefix.format(index)
            for ours, names in self.layer(config, index).items():
                rows = _rows(config, ours)
                rows = rows if len(names) > 1 else (sum(rows),)
                found[f"layers.{index}.{ours}"] = {
                    prefix + name: count for name, count in zip(names, rows, strict=True)
                }
        return found


def _rows(config: TransformerConfig, ours: str) -> tuple[int, ...]:
    """Rows of the parts of one of our tensors of a layer; experts' tensors are taken as one matrix."""
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    experts = config.experts
    if ours in ("q_norm.weight", "k_norm.weight"):
        return (config.head_dim,)
    if ours in ("qkv.weight", "qkv.bias"):
        return queries, keys, keys
    if ours == "gate_up.weight":
        return (config.intermediate_size,) * 2
    if ours.startswith("experts.router"):
        return (experts.count,)
    if ours == "experts.gate_up":
        return (experts.intermediate_size,) * (2 * experts.count)
    if ours == "experts.down":
        return (config.hidden_size,) * experts.count
    if ours == "experts.shared_gate_up.weight":
        return (experts.shared_size,) * 2
    return (config.hidden_size,)
