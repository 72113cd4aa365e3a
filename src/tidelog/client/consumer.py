"""Reads one topic's partitions from given offsets on, without a group.

Invariant  Each record at or after the starting offset is yielded once, in offset order within
           its partition; control records and, under read_committed, aborted ones are left out.
Invariant  Positions move past everything that was read, yielded or not, so a log that ends in
           control records or compacted gaps is still read to its end.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.client.blocking import Client
from tidelog.client.errors import RequestRefused, Unreachable
from tidelog.client.metadata import TopicView
from tidelog.client.offsets import Isolation, partition_bounds
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    decode_fetch_response,
    encode_fetch,
)
from tidelog.records.batch import BatchHeader, whole_batches
from tidelog.records.control_batch import ControlKind, control_kind
from tidelog.records.record import Record, records_of

_WAIT_MS: Final = 500
_FETCH_BYTES: Final = 16 << 20
_PARTITION_BYTES: Final = 4 << 20


class ConsumedRecord(NamedTuple):
    """One record, with where it was found and whose epoch wrote it."""

    topic: str
    partition: int
    leader_epoch: int
    record: Record


class Consumer:
    """A position in each partition, and the records from there on."""

    def __init__(
        self,
        client: Client,
        topic: str,
        starts: Mapping[int, int],
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> None:
        self._client, self._topic = client, topic
        self._isolation = isolation
        self.positions = dict(starts)

    def until_end(self) -> Iterator[ConsumedRecord]:
        """Every record there is at the moment of the call, but for those that a log gives up."""
        ends = self._ends()
        while True:
            before = dict(self.positions)
            open_partitions = [index for index, end in ends.items() if before[index] < end]
            if not open_partitions:
                return
            for found in self._fetch(open_partitions):
                if found.record.offset < ends[found.partition]:
                    yield found
            if self.positions == before:
                ends = {index: min(end, ends[index]) for index, end in self._ends().items()}

    def _ends(self) -> dict[int, int]:
        bounds = partition_bounds(self._client, self._topic, self.positions, self._isolation)
        return {index: end for index, (_, end) in bounds.items()}

    def forever(self) -> Iterator[ConsumedRecord]:
        """Every record, and then the ones to come."""
        while True:
            yield from self._fetch(list(self.positions))

    def _fetch(self, partitions: list[int]) -> Iterator[ConsumedRecord]:
        """One round to each leader; trouble that passes is waited out."""
        fetched = self._client.retrying(lambda: self._ask(partitions))
        for partition in fetched:
            yield from self._read(partition)

    def _ask(self, partitions: list[int]) -> list[FetchedPartition]:
        found: list[FetchedPartition] = []
        trouble: RequestRefused | Unreachable | None = None
        led = self._client.leaders(self._topic, partitions)
        wait_ms = _WAIT_MS // len(led)
        topic = self._client.view.topic(self._topic)
        for leader, indexes in led.items():
            try:
                response = self._request(leader, topic, indexes, wait_ms)
            except Unreachable as error:
                trouble = error
                continue
            if ErrorCode(response.error) is not ErrorCode.none:
                raise RequestRefused(ErrorCode(response.error), f"fetch from broker {leader}")
            for answer in (each for answered in response.topics for each in answered.partitions):
                if answer.error == ErrorCode.none:
                    found.append(answer)
                else:
                    trouble = self._refusal(answer)
        if trouble is not None:
            if not any(answer.records for answer in found):
                raise trouble
            # What was read is handed on first; the partition in trouble is looked up anew.
            self._client.forget()
        return found

    def _request(
        self, leader: int, topic: TopicView, indexes: list[int], wait_ms: int
    ) -> FetchResponse:
        epochs = {each.partition: each.leader_epoch for each in topic.partitions}
        asked = [
            FetchPartition(index, epochs[index], self.positions[index], -1, -1, _PARTITION_BYTES)
            for index in indexes
        ]
        request = FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            isolation_level=int(self._isolation),
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic.name, topic.topic_id, asked)],
            forgotten=[],
            rack_id="",
            cluster_id=None,
        )

        def decode(version: int, frame: memoryview) -> tuple[int, FetchResponse]:
            response = decode_fetch_response(frame, version)
            return response.correlation_id, response

        connection = self._client.broker(leader)
        answer: FetchResponse = connection.call_with(
            ApiKey.FETCH, lambda version: encode_fetch(version, request), decode
        )
        return answer

    def _read(self, fetched: FetchedPartition) -> Iterator[ConsumedRecord]:
        if not isinstance(fetched.records, (bytes, bytearray, memoryview)):
            return
        aborted = _Aborted(fetched.aborted or ())
        for header, batch in whole_batches(fetched.records):
            if header.next_offset <= self.positions[fetched.index]:
                continue
            hidden = aborted.hides(header, batch) or header.is_control
            if not hidden:
                for record in records_of(batch):
                    if record.offset >= self.positions[fetched.index]:
                        self.positions[fetched.index] = record.offset + 1
                        yield ConsumedRecord(
                            self._topic, fetched.index, header.leader_epoch, record
                        )
            self.positions[fetched.index] = header.next_offset

    def _refusal(self, answer: FetchedPartition) -> RequestRefused:
        code = ErrorCode(answer.error)
        where = f"{self._topic}-{answer.index}"
        if code is not ErrorCode.offset_out_of_range:
            return RequestRefused(code, where)
        bounds = partition_bounds(self._client, self._topic, [answer.index], self._isolation)
        start, end = bounds[answer.index]
        wanted = self.positions[answer.index]
        return RequestRefused(code, where, f"offset {wanted} is outside the log [{start}, {end})")


class _Aborted:
    """Which batches of one answer belong to aborted transactions.

    A producer's transaction counts as aborted from its listed first offset until its ABORT
    marker; afterwards the producer may be in a new one.
    """

    def __init__(self, listed: Sequence[tuple[int, int]]) -> None:
        self._coming = [(first_offset, producer_id) for producer_id, first_offset in listed]
        heapq.heapify(self._coming)
        self._producers: set[int] = set()

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._producers.add(heapq.heappop(self._coming)[1])
        if header.producer_id not in self._producers or not header.is_transactional:
            return False
        if header.is_control:
            marker = next(records_of(batch), None)
            if marker is not None and control_kind(marker.key) is ControlKind.ABORT:
                self._producers.discard(header.producer_id)
        return True
