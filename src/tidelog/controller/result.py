"""What the controller decides: records to append, and the reply that is true once they are.

Invariant  A decision changes nothing. Its records change the image when they are replayed, and its
           reply is given when they are committed.
Invariant  Whatever a decision does to leaders and in-sync sets stands in `causes`, with the reason
           in words; the log itself does not say why.
Invariant  Records that must take effect together do so, however many there are: in one batch, or
           as a metadata transaction over several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from tidelog.controller.records import (
    MetadataRecord,
    encode_record,
)
from tidelog.model.errors import Refusal
from tidelog.protocol.stored.metadata import (
    BeginTransactionRecord,
    EndTransactionRecord,
)

R = TypeVar("R")

Charge: TypeAlias = Callable[[int], Refusal | None]
"""Asked with a number of partitions before they are created or deleted; why they may not be."""

ONE_BATCH_RECORDS: Final = 5_000
ONE_BATCH_BYTES: Final = 4 << 20
"""Well below what one batch of the metadata log takes."""
_SURELY_ONE_BATCH: Final = 100
"""So few records fit, since none is larger than a setting's longest value and a bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLeaderChange:
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


Cause: TypeAlias = PartitionLeaderChange | IsrChange


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[R]):
    """Records and the reply that goes with them. Atomic records belong into one batch."""

    records: tuple[MetadataRecord, ...]
    reply: R
    atomic: bool = True
    causes: tuple[Cause, ...] = ()


def free(partitions: int) -> Refusal | None:
    """What is changed is nobody's who has a quota."""
    return None


def together(
    records: Sequence[MetadataRecord], reply: R, causes: tuple[Cause, ...] = ()
) -> ControllerResult[R]:
    """A decision whose records take effect all at once or not at all."""
    if _fit_one_batch(records):
        return ControllerResult(tuple(records), reply, causes=causes)
    framed = (BeginTransactionRecord(), *records, EndTransactionRecord())
    return ControllerResult(framed, reply, atomic=False, causes=causes)


def _fit_one_batch(records: Sequence[MetadataRecord]) -> bool:
    if len(records) <= _SURELY_ONE_BATCH:
        return True
    if len(records) > ONE_BATCH_RECORDS:
        return False
    return sum(len(encode_record(record)) for record in records) <= ONE_BATCH_BYTES
