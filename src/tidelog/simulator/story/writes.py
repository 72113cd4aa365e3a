"""What producers wrote to one partition, what they were told of it, and whether it is still there.

Invariant  A batch is recognised by its bytes behind the checksum, which no broker changes: a write
           counts as lost when it was acknowledged and the present leader's disk does not have it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
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
_LOOKED_AT: Final = 64
"""Whoever waits for an acknowledgement wrote one of the last batches."""
_LONGEST_VALUE: Final = 14
_MOST_VALUES: Final = 6
ACKS_ALL: Final = -1
"""Nothing else waits for the high watermark; an answer may also wait for those before it."""
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


class Writes:
    """The batches that arrived at brokers, in their order."""

    def __init__(self) -> None:
        self._recent: deque[_Write] = deque(maxlen=_SHOWN)
        self._unheard: dict[tuple[str, int], _Write] = {}
        """Those whose producers wait."""
        self._unanswered: dict[tuple[str, int], _Write] = {}
        """Those whose brokers have not sent their answers, which then are parked."""

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
        self._recent.append(write)
        if asked.acks == 0:
            write.fate = UNANSWERED
        else:
            self._unheard[message.request_id] = self._unanswered[message.request_id] = write

    def answered(self, requests: Iterable[tuple[str, int]]) -> None:
        """A broker sent its answers to these requests."""
        for request in requests:
            self._unanswered.pop(request, None)

    def heard(self, request: tuple[str, int], given: ProducedPartition) -> None:
        """The producer got its answer."""
        write = self._unheard.pop(request, None)
        if write is None:
            return
        if given.error:
            write.fate, write.error = REFUSED, error_name(given.error)
        else:
            write.fate, write.offset = ACKNOWLEDGED, given.base_offset

    def broker_died(self, broker: str) -> None:
        """Whoever waited for it gets no answer."""
        for waiting in (self._unheard, self._unanswered):
            for request in [each for each, write in waiting.items() if write.broker == broker]:
                waiting.pop(request).fate = UNANSWERED

    def parked_at(self, broker: str, held: HeldLog | None) -> tuple[int, ...]:
        """The high watermarks for which answers of this broker wait."""
        bodies = {
            each.body
            for each in self._unanswered.values()
            if each.broker == broker and each.acks == ACKS_ALL
        }
        if not bodies or held is None:
            return ()
        last = held.batches[-_LOOKED_AT:]
        return tuple(batch.next_offset for batch in last if batch.data[_BODY_AT:] in bodies)

    def pictures(self, leading: HeldLog | None) -> tuple[WritePicture, ...]:
        """The last of them, as the clients see them."""
        return tuple(
            WritePicture(
                each.label,
                each.acks,
                each.fate,
                each.offset,
                each.error,
                each.fate == ACKNOWLEDGED and leading is not None and _lacks(leading, each),
            )
            for each in self._recent
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
