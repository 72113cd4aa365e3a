"""How much of what a coordinator has to write on its own account goes into one batch.

Invariant  A piece fits into a batch of the given size, however its records are laid out in it, or
           it is one record alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from tidelog.records.batch import HEADER_SIZE

T = TypeVar("T")

BatchBytes: TypeAlias = Callable[[], int]
"""How large a batch of the internal topic may be, by its settings of this moment."""
AT_ONCE: Final = 1000
"""Records in one piece: others must get their turn."""
RECORD_BYTES: Final = 32
"""What a record takes besides its key and value, at most."""


class FirstBatch(NamedTuple, Generic[T]):
    """The first of the records, as many as go into one batch."""

    records: tuple[T, ...]
    is_all: bool


def first_batch(
    records: Iterable[T],
    encode: Callable[[T], tuple[bytes, bytes | None]],
    batch_bytes: int,
    *,
    at_once: int = AT_ONCE,
) -> FirstBatch[T]:
    """Take records until the next one would be too much."""
    taken: list[T] = []
    room = batch_bytes - HEADER_SIZE
    for record in records:
        room -= _bytes_of(*encode(record))
        if taken and (room < 0 or len(taken) == at_once):
            return FirstBatch(tuple(taken), False)
        taken.append(record)
    return FirstBatch(tuple(taken), True)


def fits_alone(key: bytes, value: bytes | None, batch_bytes: int) -> bool:
    """Whether a batch holds this record; one that does not fit must not stop those behind it."""
    return HEADER_SIZE + _bytes_of(key, value) <= batch_bytes


def _bytes_of(key: bytes, value: bytes | None) -> int:
    return RECORD_BYTES + len(key) + len(value or b"")
