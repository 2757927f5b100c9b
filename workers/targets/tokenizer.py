"""The tokenizer of the embedded targets: byte-level BPE, trained on the task families."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

STOP, MASK = "<|endoftext|>", "<|mask|>"
SMALL_NUMBERS = "".join(f" {number}" for number in range(100))


def train_tokenizer(
    texts: Iterable[str], vocab_size: int, special_tokens: Sequence[str] = (STOP, MASK)
) -> Tokenizer:
    """At most `vocab_size` tokens; any text can be encoded, and every number of 0 .. 99 after a space is one token.

    One token per number is what lets a small model learn two-digit arithmetic.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special_tokens),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, *[SMALL_NUMBERS] * 2000], trainer)
    return tokenizer
