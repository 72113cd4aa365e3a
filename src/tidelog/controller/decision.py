"""What the controller decides: records to append, and the reply that is true once they are.

Invariant  A decision changes nothing. Its records change the image when they are replayed, and its
           reply is given when they are committed.
Invariant  Whatever a decision does to leaders and in-sync sets stands in `causes`, with the reason
           in words; the log itself does not say why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from tidelog.controller.records import MetadataRecord

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """A new leader epoch: another leader, none, or the same one again."""

    topic: str
    partition: int
    old: int
    new: int
    epoch: int
    why: str
    unclean: bool = False
    may_lose: str = ""
    """After an unclean election: which committed records may be gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChange:
    """Another in-sync set, and who outside of it may still lead should it become empty."""

    topic: str
    partition: int
    old: tuple[int, ...]
    new: tuple[int, ...]
    eligible: tuple[int, ...]
    why: str


Cause: TypeAlias = LeaderChange | IsrChange


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """Records and the reply that goes with them. Atomic records belong into one batch."""

    records: tuple[MetadataRecord, ...]
    reply: R
    atomic: bool = True
    causes: tuple[Cause, ...] = ()
