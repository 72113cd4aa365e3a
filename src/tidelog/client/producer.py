"""Writes records to one topic: batches per partition, one request per leader, safe retries.

Invariant  With acks=all every batch carries a producer id and a sequence, and a batch is sent
           again unchanged, so an answer lost on the way never becomes a duplicate record.
Invariant  Records of one partition are appended in the order of `send`: the next batch of a
           partition leaves only after the one before it was answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from tidelog.client.blocking import Client
from tidelog.client.errors import RequestRefused, require_accepted
from tidelog.client.partitioner import partition_for_key
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.produce import (
    ProducedPartition,
    ProduceResponse,
    decode_produce_response,
    encode_produce,
)
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.compression import CompressionType

ACKS_ALL: Final = -1
_SEQUENCES: Final = 1 << 31
_RECORD_OVERHEAD: Final = 32
_CREATION_S: Final = 3.0
_NO_PRODUCER: Final = (-1, -1)

Result = TypeVar("Result")
Headers = tuple[tuple[str, bytes | None], ...]


class Written(NamedTuple):
    """Where a batch has landed; offsets are -1 when acks=0 leaves them unknown."""

    partition: int
    first_offset: int
    records: int


class Within(NamedTuple):
    """The transaction that records belong to: whose it is, by name and by identity."""

    transactional_id: str
    producer: tuple[int, int]


class _Waiting:
    """Records on their way to one partition."""

    def __init__(self) -> None:
        self.records: list[NewRecord] = []
        self.size = 0
        self.next_sequence = 0


class Producer:
    """Collects records and sends them; call `flush` to be sure."""

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        acks: int = ACKS_ALL,
        codec: CompressionType = CompressionType.NONE,
        batch_bytes: int = 262_144,
        within: Within | None = None,
        replicated_within_s: float | None = None,
        after_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """`replicated_within_s` is how long a leader waits for followers before it gives an attempt
        up; `after_failure` may know why attempts go on failing, and raise that."""
        self._client, self._topic = client, topic
        self._acks, self._codec, self._batch_bytes = acks, codec, batch_bytes
        self._partitions: list[int] = []
        self._waiting: dict[int, _Waiting] = {}
        self._sticky = 0
        self._replicated_within_s = replicated_within_s or client.request_timeout_s
        self._after_failure = after_failure
        self._producer: tuple[int, int] | None = None if acks == ACKS_ALL else _NO_PRODUCER
        self._transactional_id: str | None = None
        if within is not None:
            self._transactional_id = within.transactional_id
            self._producer = within.producer

    def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Take one record; sends whatever has filled a batch."""
        if not self._partitions:
            self._learn_partitions()
        stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
        size += sum(len(name) + len(content or b"") + 8 for name, content in headers)
        waiting = self._waiting_for(key, partition)
        if waiting.records and waiting.size + size > self._batch_bytes:
            self.flush()
            waiting = self._waiting_for(key, partition)
        waiting.records.append(NewRecord(key, value, stamp, headers))
        waiting.size += size

    def flush(self) -> list[Written]:
        """Send everything taken so far and wait for the answers; where it landed."""
        batches = {
            partition: self._build(waiting)
            for partition, waiting in sorted(self._waiting.items())
            if waiting.records
        }
        landed: list[Written] = []
        if batches:
            self._retrying(partial(self._send_all, batches, landed))
            for waiting in self._waiting.values():
                waiting.next_sequence = (waiting.next_sequence + len(waiting.records)) % _SEQUENCES
                waiting.records, waiting.size = [], 0
            # Records without a key stay together until their batch is full, then move on.
            self._sticky += 1
        return landed

    def _retrying(self, attempt: Callable[[], Result], *, timeout_s: float | None = None) -> Result:
        return self._client.retrying(
            attempt, timeout_s=timeout_s, after_failure=self._after_failure
        )

    def _build(self, waiting: _Waiting) -> bytearray:
        if self._producer is None:
            self._producer = self._retrying(self._take_producer_id)
        producer_id, producer_epoch = self._producer
        return build_batch(
            waiting.records,
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=-1 if self._producer == _NO_PRODUCER else waiting.next_sequence,
            transactional=self._transactional_id is not None,
        )

    def _send_all(self, batches: dict[int, bytearray], landed: list[Written]) -> None:
        """Send what is left in `batches`, taking out what was accepted."""
        refusal: RequestRefused | None = None
        view = self._client.view
        for leader, partitions in self._client.leaders(self._topic, list(batches)).items():
            topic_id = view.topic(self._topic).topic_id
            payload = [(index, batches[index]) for index in partitions]
            response = self._request(leader, topic_id, payload)
            if response is None:
                answers = [ProducedPartition(index, 0, -1) for index in partitions]
            else:
                answers = [each for topic in response.topics for each in topic.partitions]
            for answer in answers:
                code = ErrorCode(answer.error)
                if code is ErrorCode.none or code is ErrorCode.duplicate_sequence_number:
                    del batches[answer.index]
                    count = len(self._waiting[answer.index].records)
                    landed.append(Written(answer.index, answer.base_offset, count))
                else:
                    refusal = _refusal(self._topic, answer)
        if refusal is not None:
            raise refusal

    def _request(
        self, leader: int, topic_id: UUID, payload: list[tuple[int, bytearray]]
    ) -> ProduceResponse | None:
        timeout_ms = int(self._replicated_within_s * 1000)

        def encode(version: int) -> bytes:
            topics = [(self._topic, topic_id, payload)]
            return encode_produce(version, self._transactional_id, self._acks, timeout_ms, topics)

        def decode(version: int, frame: memoryview) -> tuple[int, ProduceResponse]:
            response = decode_produce_response(frame, version)
            return response.correlation_id, response

        connection = self._client.broker(leader)
        expected = None if self._acks == 0 else decode
        answer: ProduceResponse | None = connection.call_with(ApiKey.PRODUCE, encode, expected)
        return answer

    def _take_producer_id(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = self._client.call(request)
        require_accepted(answer, "producer id")
        return answer.producer_id, answer.producer_epoch

    def _learn_partitions(self) -> None:
        def ask() -> list[int]:
            view = self._client.refresh([self._topic], create=True)
            return [each.partition for each in view.topic(self._topic).partitions]

        # A topic that is being created is unknown for a moment; one that is not, stays so.
        self._partitions = self._retrying(ask, timeout_s=_CREATION_S)

    def _waiting_for(self, key: bytes | None, partition: int | None) -> _Waiting:
        if partition is None:
            chosen = self._sticky if key is None else partition_for_key(key, len(self._partitions))
            partition = self._partitions[chosen % len(self._partitions)]
        return self._waiting.setdefault(partition, _Waiting())


def _refusal(topic: str, answer: ProducedPartition) -> RequestRefused:
    why = answer.error_message
    if answer.record_errors:
        index, message = answer.record_errors[0]
        why = f"record {index} of the batch: {message or why or 'not accepted'}"
    return RequestRefused(ErrorCode(answer.error), f"{topic}-{answer.index}", why)
