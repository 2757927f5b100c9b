"""Exact-match accuracy of a model under training, by draft-free decoding of held-out problems."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer
from torch import Tensor

from workers.decoding.canvas import CanvasContext
from workers.targets.target import Target
from workers.targets.transformer import KVCache, block_causal_mask
from workers.tasks import TASKS


@torch.inference_mode()
def decode_prefix(target: Target, prompts: Tensor, length: int) -> Tensor:
    """Decode prompts [B, P] of one length at temperature 0, one commit per forward, until all rows have stopped.

    Every forward commits the most confident masked position of the block, ties to the lowest. Returns [B, P + N].
    """
    rows, prompt = prompts.shape
    model, block, mask_id = target.model, target.block_length, target.mask_id
    (stop_id,) = target.stop_ids
    total = target.span(prompt, length)[1]
    tokens = torch.full((rows, total), mask_id)
    tokens[:, :prompt] = prompts
    cache = KVCache(model.config, rows, total, tokens.device, model.embed.weight.dtype)
    whole = prompt // block * block
    positions = torch.arange(total)
    if whole:
        mask = block_causal_mask(positions[:whole], block)
        model(tokens[:, :whole], positions[:whole], mask, cache, store=whole, keep=0)
    for start in range(whole, total, block):
        state = tokens[:, start : start + block]
        here = positions[start : start + block]
        while (state == mask_id).any():
            commit(state, model(state, here, None, cache), mask_id)
        if (tokens[:, prompt : start + block] == stop_id).any(dim=1).all():
            return tokens[:, : start + block]
        model(state, here, None, cache, store=block, keep=0)
    return tokens


@torch.inference_mode()
def decode_canvas(target: Target, prompts: Tensor, length: int) -> Tensor:
    """The same for full attention: blocks behind the prompt's end, what surrounds them as it was when they opened."""
    rows, prompt = prompts.shape
    block = target.block_length
    (stop_id,) = target.stop_ids
    total = target.span(prompt, length)[1]
    context = CanvasContext(target, total, cache="dual", pads=[0] * rows)
    context.prefill(prompts.tolist())
    tokens = prompts
    for start in range(prompt, total, block):
        state = torch.full((rows, block), target.mask_id)
        while (state == target.mask_id).any():
            commit(state, context.forward(state.numpy(), start), target.mask_id)
        context.finish(state.numpy())
        tokens = torch.cat([tokens, state], dim=1)
        if (tokens[:, prompt:] == stop_id).any(dim=1).all():
            break
    return tokens


def commit(state: Tensor, logits: Tensor, mask_id: int) -> None:
    """Fill the most confident masked position of every row of `state` [B, L], ties to the lowest."""
    logits[..., mask_id] = float("-inf")
    confidence, best = logits.softmax(dim=-1).max(dim=-1)
    where = confidence.masked_fill(state != mask_id, -1).argmax(dim=1, keepdim=True)
    state.scatter_(1, where, best.gather(1, where))


def exact_accuracy(target: Target, tokenizer: Tokenizer, length: int, split: str, count: int) -> dict[str, float]:
    """Share of the first `count` problems of `split` solved, by task."""
    decode = decode_canvas if target.attention == "full" else decode_prefix
    (stop_id,) = target.stop_ids
    shares = {}
    for name, task in sorted(TASKS.items()):
        by_length: dict[int, list] = {}
        for sample in task.samples(split, 0, count):
            prompt = tokenizer.encode(sample.prompt).ids
            by_length.setdefault(len(prompt), []).append((sample, prompt))
        solved = 0
        for prompt_length, members in sorted(by_length.items()):
            prompts = torch.tensor([prompt for _, prompt in members])
            decoded = decode(target, prompts, length)
            for (sample, _), row in zip(members, decoded[:, prompt_length:].tolist()):
                answer = row[: row.index(stop_id)] if stop_id in row else row
                solved += task.score(sample, tokenizer.decode(answer)).correct
        shares[name] = solved / count
    return shares
