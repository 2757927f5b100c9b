"""Starting from the weights of another packaged target."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from workers.stages.pretrain_stream import WINDOW
from workers.targets.load import load_target
from workers.targets.target import Target
from workers.targets.transformer import Transformer, block_causal_mask
from workers.tasks import TASKS

PROBES = 20


def start_from(model: Transformer, reference: str) -> None:
    """Give `model` the weights of a packaged target of its shape.

    A norm of queries and keys that the target has and the model lacks becomes part of the projection: each head is
    divided by its mean size over some training problems and multiplied by the norm's weight. What remains different is
    left to the training.
    """
    target = load_target(reference, WINDOW, pack=False)
    weights = target.model.state_dict()
    if target.model.config.qk_norm and not model.config.qk_norm:
        sizes = head_sizes(target)
        for index, size in enumerate(sizes):
            prefix = f"layers.{index}."
            norms = [weights.pop(f"{prefix}{name}_norm.weight") for name in "qk"]
            heads = (target.model.config.num_heads, target.model.config.num_kv_heads)
            gain = torch.cat([norm.expand(count, -1) for norm, count in zip(norms, heads)]) / size[:, None]
            projection = weights[f"{prefix}qkv.weight"]
            projection[: gain.numel()] *= gain.reshape(-1, 1)
    model.load_state_dict(weights)


@torch.inference_mode()
def head_sizes(target: Target) -> list[Tensor]:
    """Per layer the root mean square of every query head, then of every key head, over clean training problems."""
    config = target.model.config
    heads = config.num_heads + config.num_kv_heads
    squares = [torch.zeros(heads) for _ in target.model.layers]
    seen = 0

    def note(index: int):
        def hook(module: nn.Module, inputs: tuple, output: Tensor) -> None:
            parts = output[..., : heads * config.head_dim].unflatten(-1, (heads, config.head_dim))
            squares[index] += parts.square().mean(dim=-1).sum(dim=(0, 1))

        return hook

    hooks = [layer.qkv.register_forward_hook(note(index)) for index, layer in enumerate(target.model.layers)]
    for _, task in sorted(TASKS.items()):
        for sample in task.samples("train", 0, PROBES):
            tokens = torch.tensor([target.encode(sample.prompt + sample.reference["solution"])])
            positions = torch.arange(tokens.shape[1])
            target.model(tokens, positions, block_causal_mask(positions, WINDOW))
            seen += tokens.shape[1]
    for hook in hooks:
        hook.remove()
    return [(total / seen).sqrt() for total in squares]
