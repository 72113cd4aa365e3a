"""What the controller decides: records to append, and the reply that is true once they are.

Invariant  A decision changes nothing. Its records change the image when they are replayed, and its
           reply is given when they are committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tidelog.controller.records import MetadataRecord

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """Records and the reply that goes with them. Atomic records belong into one batch."""

    records: tuple[MetadataRecord, ...]
    reply: R
    atomic: bool = True
