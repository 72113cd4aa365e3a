"""Who asks: a principal, as Kafka names it (`User:alice`).

Invariant  A principal comes from the connection on which a request arrived, or from the envelope
           that a broker put around it; never from the request itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

USER_TYPE: Final = "User"


class Principal(NamedTuple):
    """A kind of identity and a name."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """The principal of a text like `User:alice`; ValueError for anything else."""
        type_, colon, name = text.partition(":")
        if not colon or not type_ or not name:
            raise ValueError(f"{text!r} is no principal: write it as User:name")
        return cls(type_, name)


ANONYMOUS: Final = Principal(USER_TYPE, "ANONYMOUS")
"""Whoever was not asked who he is."""


def principals(text: str) -> frozenset[Principal]:
    """The principals in a text like `User:alice;User:bob`; ValueError for what is none."""
    return frozenset(Principal.parse(name.strip()) for name in text.split(";") if name.strip())
