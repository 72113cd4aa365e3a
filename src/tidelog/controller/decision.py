"""What the controller decides: records to append, and the reply that is true once they are.

Invariant  A decision changes nothing. Its records change the image when they are replayed, and its
           reply is given when they are committed.
Invariant  Records that must take effect together do so, however many there are: in one batch, or
           as a metadata transaction over several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from tidelog.controller.records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    encode_record,
)

R = TypeVar("R")

ONE_BATCH_RECORDS: Final = 5_000
ONE_BATCH_BYTES: Final = 4 << 20
"""Well below what one batch of the metadata log takes."""
_SURELY_ONE_BATCH: Final = 100
"""So few records fit, since none is larger than a setting's longest value and a bit."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """Records and the reply that goes with them. Atomic records belong into one batch."""

    records: tuple[MetadataRecord, ...]
    reply: R
    atomic: bool = True


def together(records: Sequence[MetadataRecord], reply: R) -> Decision[R]:
    """A decision whose records take effect all at once or not at all."""
    if _fit_one_batch(records):
        return Decision(tuple(records), reply)
    framed = (BeginTransactionRecord(), *records, EndTransactionRecord())
    return Decision(framed, reply, atomic=False)


def _fit_one_batch(records: Sequence[MetadataRecord]) -> bool:
    if len(records) <= _SURELY_ONE_BATCH:
        return True
    if len(records) > ONE_BATCH_RECORDS:
        return False
    return sum(len(encode_record(record)) for record in records) <= ONE_BATCH_BYTES
