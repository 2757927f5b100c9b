"""Counter-based Gumbel noise: a function of (seed, sample, absolute position), of nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch


class GumbelNoise:
    """The table G of SPOT, section 4.3: one Gumbel(0, 1) row per absolute position of one sample.

    Philox with the key blake2b(seed, sample) and the position as counter, so that no row depends on which rows were
    drawn before it. Raw 64-bit words rather than a NumPy distribution: only their stream is stable across versions.
    """

    def __init__(self, seed: int, sample: str, vocab_size: int):
        digest = blake2b(f"{seed}/{sample}".encode(), digest_size=16).digest()
        self._key = np.frombuffer(digest, dtype="<u8")
        self.vocab_size = vocab_size

    def row(self, position: int) -> np.ndarray:
        """fp32 [V]: the noise of absolute position `position`."""
        words = np.random.Philox(key=self._key, counter=[0, 0, 0, position]).random_raw(self.vocab_size)
        uniform = ((words >> np.uint64(11)) + 0.5) * 2.0**-53
        return -np.log(-np.log(uniform)).astype(np.float32)

    def rows(self, start: int, length: int) -> torch.Tensor:
        """fp32 [length, V]: the noise of the positions from `start` on."""
        return torch.from_numpy(np.stack([self.row(start + offset) for offset in range(length)]))

    def uniforms(self, start: int, round: int, shape: tuple[int, ...]) -> np.ndarray:
        """float64 in [0, 1): numbers of one round of the block at `start`, independent of all rows and other rounds."""
        words = np.random.Philox(key=self._key, counter=[0, 0, 1 + round, start]).random_raw(shape)
        return (words >> np.uint64(11)) * 2.0**-53


@dataclass(frozen=True)
class RoundNoise:
    """What is random in one round of a block of length L.

    rows: fp32 [L, V] on the target's device, the target's own Gumbel noise, the same in every round. uniforms: float64
    [3, L], fresh in every round, for rejection sampling alone: per position the proposal, the acceptance, the residual.
    """

    rows: torch.Tensor
    uniforms: np.ndarray
