"""All randomness of a run, from one seed.

Invariant  Every purpose has a stream of its own, named in words: a fault that is left out does
           not shift the dice of anything else.
Invariant  A stream depends on the seed and its name alone, not on the hashes of this process.
"""

from __future__ import annotations

from random import Random
from uuid import UUID

from tidelog.model.ids import uuid_text


def stream(seed: int, *purpose: str | int) -> Random:
    """The dice for one purpose."""
    return Random("/".join(map(str, (seed, *purpose))))


class SeededEntropy:
    """What a node believes to be the operating system's dice."""

    __slots__ = ("_dice",)

    def __init__(self, dice: Random) -> None:
        self._dice = dice

    def uuid(self) -> UUID:
        """A fresh identity whose text form does not look like an option."""
        while True:
            identity = UUID(int=self._dice.getrandbits(128), version=4)
            if not uuid_text(identity).startswith("-"):
                return identity

    def below(self, bound: int) -> int:
        return self._dice.randrange(bound)
