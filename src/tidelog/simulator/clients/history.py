"""What simulated clients were promised and what they saw, for the rules on histories.

Invariant  Every value is written once on purpose: two offsets with the same value are a duplicate.
Invariant  Nothing in here comes from the inside of a node.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from tidelog.model.ids import TopicPartition

ACKS_ALL: Final = -1


@dataclass(slots=True, kw_only=True, eq=False)
class Send:
    """One batch that a producer wants in a partition."""

    producer: str
    partition: TopicPartition
    number: int
    """Counts the batches of this producer in this partition."""
    values: tuple[bytes, ...]
    acks: int
    idempotent: bool
    started_us: int
    known_end: int
    """Everything below was known, to some client, to be in the partition when this began."""
    is_ok: bool = False
    has_failed: bool = False
    """It is not in the log, and never will be, said the broker."""
    is_done: bool = False
    base_offset: int = -1


class Acked(NamedTuple):
    """A broker promised that a batch stands at its base offset."""

    send: Send


class Read(NamedTuple):
    """A consumer got a record."""

    consumer: str
    partition: TopicPartition
    offset: int
    value: bytes


class ToldEnd(NamedTuple):
    """A leader said where its log ends for consumers."""

    client: str
    partition: TopicPartition
    epoch: int
    """The leader epoch that it was asked in."""
    known_end: int
    """Everything below was known to some client when the question was asked."""
    offset: int


Fresh: TypeAlias = Acked | Read | ToldEnd


@dataclass(slots=True)
class PartitionHistory:
    """One partition as clients know it."""

    sends: list[Send] = field(default_factory=list)
    reads: dict[int, bytes] = field(default_factory=dict)
    known_end: int = 0
    deleted_to: int = 0
    """Somebody asked to delete everything below."""
    told_start: int = 0
    """The highest log start that was promised."""


class History:
    """All clients together; `fresh` is what nobody has judged yet."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, PartitionHistory] = {}
        self.by_value: dict[bytes, Send] = {}
        self.fresh: deque[Fresh] = deque()

    def of(self, partition: TopicPartition) -> PartitionHistory:
        known = self.partitions.get(partition)
        if known is None:
            known = self.partitions[partition] = PartitionHistory()
        return known

    def sending(self, send: Send) -> None:
        """A producer begins to send."""
        self.of(send.partition).sends.append(send)
        for value in send.values:
            self.by_value[value] = send

    def acked(self, send: Send, base_offset: int) -> None:
        """A broker said yes."""
        send.is_ok = send.is_done = True
        send.base_offset = base_offset
        if send.acks == ACKS_ALL:
            end = base_offset + len(send.values)
            known = self.of(send.partition)
            known.known_end = max(known.known_end, end)
        self.fresh.append(Acked(send))

    def implied(self, send: Send) -> None:
        """A broker took a later batch of the same producer, so this one is there as well."""
        send.is_ok = send.is_done = True

    def read(self, consumer: str, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A consumer got a record."""
        known = self.of(partition)
        known.known_end = max(known.known_end, offset + 1)
        self.fresh.append(Read(consumer, partition, offset, value))

    def told_end(self, told: ToldEnd) -> None:
        """A leader said where its log ends."""
        self.fresh.append(told)
