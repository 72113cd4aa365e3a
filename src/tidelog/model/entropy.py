"""Randomness as a port: the broker hands in the operating system's, the simulator a seeded one."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID


class Entropy(Protocol):
    """Where random identities and choices come from."""

    def uuid(self) -> UUID:
        """A fresh random identity whose text form does not start with a dash."""
        ...

    def below(self, bound: int) -> int:
        """A number in [0, bound)."""
        ...


def random_bytes(entropy: Entropy, size: int) -> bytes:
    """So many bytes that nobody can foresee."""
    return entropy.below(1 << (8 * size)).to_bytes(size, "big")
