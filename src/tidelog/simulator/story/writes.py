"""What producers wrote to one partition, what they were told of it, and whether it is still there.

Invariant  A batch is recognised by its bytes behind the checksum, which no broker changes: a write
           counts as lost when it was acknowledged and the present leader's disk does not have it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidelog.protocol.produce_response import ProducedPartition
from tidelog.records.batch import CorruptBatch
from tidelog.records.record import records_of
from tidelog.simulator.rules.held_log import HeldBatch, HeldLog
from tidelog.simulator.story.picture import WritePicture
from tidelog.simulator.story.sentences import error_name
from tidelog.simulator.story.traffic import CarriedMessage, ProduceAsked

_BODY_AT: Final = 21
"""Behind base offset, length, leader epoch, magic and checksum."""
_SHOWN: Final = 8
_LONGEST_VALUE: Final = 14
_MOST_VALUES: Final = 6
WAITS: Final = "waits"
ACKNOWLEDGED: Final = "acknowledged"
REFUSED: Final = "refused"
UNANSWERED: Final = "unanswered"


@dataclass(slots=True)
class _Write:
    label: str
    body: bytes
    acks: int
    broker: str
    fate: str = WAITS
    offset: int = -1
    error: str = ""
    answered: bool = False
    """The broker sent its answer, which may not have arrived yet."""


class Writes:
    """The batches that arrived at brokers, in their order."""

    def __init__(self) -> None:
        self._writes: dict[tuple[str, int], _Write] = {}
        self._labelled: dict[int, int] = {}

    def label(self, batch: bytes) -> str:
        """The values of a batch, or how many there are."""
        values = _values(batch)
        if values and len(values) <= _MOST_VALUES and all(map(_is_short, values)):
            return ", ".join(values)
        return f"{len(values)} records" if len(values) != 1 else "1 record"

    def arrived(self, message: CarriedMessage, asked: ProduceAsked) -> None:
        """A produce request reached a broker."""
        body = asked.batch[_BODY_AT:]
        write = _Write(self.label(asked.batch), body, asked.acks, message.receiver)
        if asked.acks == 0:
            write.fate = UNANSWERED
            write.answered = True
        self._writes[message.request_id] = write

    def answered(self, requests: Iterable[tuple[str, int]]) -> None:
        """A broker sent its answers to these requests."""
        for request in requests:
            if (write := self._writes.get(request)) is not None:
                write.answered = True

    def heard(self, request: tuple[str, int], given: ProducedPartition) -> None:
        """The producer got its answer."""
        write = self._writes.get(request)
        if write is None:
            return
        if given.error:
            write.fate, write.error = REFUSED, error_name(given.error)
        else:
            write.fate, write.offset = ACKNOWLEDGED, given.base_offset

    def broker_died(self, broker: str) -> None:
        """Whoever waited for it gets no answer."""
        for write in self._writes.values():
            if write.broker == broker and write.fate == WAITS:
                write.fate = UNANSWERED
                write.answered = True

    def parked_at(self, broker: str, held: HeldLog | None) -> tuple[int, ...]:
        """The high watermarks for which answers of this broker wait."""
        waiting = [
            each for each in self._writes.values() if each.broker == broker and not each.answered
        ]
        if not waiting or held is None:
            return ()
        ends = {
            batch.data[_BODY_AT:]: batch.next_offset for batch in held.batches[-len(waiting) * 4 :]
        }
        return tuple(sorted({ends[each.body] for each in waiting if each.body in ends}))

    def pictures(self, leading: HeldLog | None) -> tuple[WritePicture, ...]:
        """The last of them, as the clients see them."""
        shown = list(self._writes.values())[-_SHOWN:]
        return tuple(
            WritePicture(
                each.label,
                each.acks,
                each.fate,
                each.offset,
                each.error,
                each.fate == ACKNOWLEDGED and leading is not None and _lacks(leading, each),
            )
            for each in shown
        )

    def note_values(self, held: HeldLog, values: dict[tuple[int, int], str]) -> None:
        """Keep the short values of what a replica holds, for whoever draws it."""
        batches: list[HeldBatch] = held.batches
        for batch in reversed(batches):
            if (batch.epoch, batch.base_offset) in values:
                break
            for at, value in enumerate(_values(batch.data)):
                short = value if _is_short(value) else ""
                values[batch.epoch, batch.base_offset + at] = short


def _lacks(held: HeldLog, write: _Write) -> bool:
    """Whether a log does not have a write where its producer was told it is."""
    if write.offset < held.start_offset:
        return False
    batches = held.batches
    place = bisect_left(batches, write.offset, key=lambda batch: batch.base_offset)
    return place == len(batches) or batches[place].data[_BODY_AT:] != write.body


def _values(batch: bytes) -> list[str]:
    try:
        return [(record.value or b"").decode("utf-8", "replace") for record in records_of(batch)]
    except CorruptBatch:
        return []


def _is_short(value: str) -> bool:
    return value.isprintable() and 0 < len(value) <= _LONGEST_VALUE
