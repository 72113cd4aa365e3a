"""Batches, partitions, sequences: what a producer puts on the wire."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.client.blocking import Client
from tidelog.client.errors import RequestRefused
from tidelog.client.partitioner import partition_for_key
from tidelog.client.producer import Producer
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.produce import ProducedPartition, decode_produce, encode_produce_response
from tidelog.records.batch import BatchHeader, read_header
from tidelog.records.compression import CompressionType
from tidelog.records.record import Record, records_of

Scripted = Callable[[Callable[[Any, Any, Any], Any]], Any]


class Broker:
    """A script that keeps what is produced; `refusals` are given out before anything is kept."""

    def __init__(self, partitions: int = 1, refusals: tuple[ErrorCode, ...] = ()) -> None:
        self._partitions = partitions
        self._refusals = list(refusals)
        self.acks: list[int] = []
        self.batches: dict[int, list[bytes]] = defaultdict(list)
        self.requests = 0

    def __call__(self, peer: Any, header: Any, body: memoryview) -> Any:
        if header.api_key is ApiKey.METADATA:
            return peer.metadata(orders=self._partitions)
        if header.api_key is ApiKey.INIT_PRODUCER_ID:
            return {"error_code": 0, "producer_id": 41, "producer_epoch": 2}
        request = decode_produce(body, header.api_version)
        self.requests += 1
        self.acks.append(request.acks)
        code = self._refusals.pop(0) if self._refusals else ErrorCode.none
        answers = []
        for index, records in request.topics[0].partitions:
            if code is ErrorCode.none and records is not None:
                self.batches[index].append(bytes(records))
            answers.append(ProducedPartition(index, int(code), 7))
        topic = request.topics[0]
        return encode_produce_response(
            header.api_version, header.correlation_id, [(topic.name, topic.topic_id, answers)]
        )

    def headers(self, index: int = 0) -> list[BatchHeader]:
        return [read_header(batch) for batch in self.batches[index]]

    def records(self, index: int = 0) -> list[Record]:
        return [record for batch in self.batches[index] for record in records_of(batch)]


def test_records_wait_for_flush_and_leave_in_one_batch(scripted: Scripted) -> None:
    broker = Broker()
    with Client(scripted(broker).bootstrap) as client:
        producer = Producer(client, "orders", codec=CompressionType.LZ4)
        for n in range(5):
            producer.send(b"%d" % n, key=b"k", headers=(("h", None),), timestamp_ms=1000 + n)
        assert broker.requests == 0
        (landed,) = producer.flush()

    assert landed == (0, 7, 5)
    assert [(each.value, each.key, each.timestamp) for each in broker.records()] == [
        (b"%d" % n, b"k", 1000 + n) for n in range(5)
    ]
    assert broker.records()[0].headers == (("h", None),)
    assert broker.headers()[0].codec is CompressionType.LZ4


def test_sequences_continue_from_batch_to_batch(scripted: Scripted) -> None:
    broker = Broker()
    with Client(scripted(broker).bootstrap) as client:
        producer = Producer(client, "orders")
        for count in (3, 1, 2):
            for _ in range(count):
                producer.send(b"x")
            producer.flush()

    assert [(each.producer_id, each.producer_epoch) for each in broker.headers()] == [(41, 2)] * 3
    assert [each.base_sequence for each in broker.headers()] == [0, 3, 4]


def test_a_batch_is_sent_again_unchanged_after_a_retriable_refusal(scripted: Scripted) -> None:
    broker = Broker(refusals=(ErrorCode.not_leader_or_follower, ErrorCode.request_timed_out))
    with Client(scripted(broker).bootstrap) as client:
        producer = Producer(client, "orders")
        producer.send(b"x")
        producer.flush()
        producer.send(b"y")
        producer.flush()

    assert broker.requests == 4
    assert [each.base_sequence for each in broker.headers()] == [0, 1]


def test_a_duplicate_counts_as_written(scripted: Scripted) -> None:
    broker = Broker(refusals=(ErrorCode.duplicate_sequence_number,))
    with Client(scripted(broker).bootstrap) as client:
        producer = Producer(client, "orders")
        producer.send(b"x")

        assert len(producer.flush()) == 1


def test_a_final_refusal_is_raised(scripted: Scripted) -> None:
    broker = Broker(refusals=(ErrorCode.message_too_large,))
    with Client(scripted(broker).bootstrap) as client:
        producer = Producer(client, "orders")
        producer.send(b"x")

        with pytest.raises(RequestRefused) as caught:
            producer.flush()
    assert caught.value.code is ErrorCode.message_too_large


def test_a_full_batch_leaves_by_itself_and_the_next_goes_to_another_partition(
    scripted: Scripted,
) -> None:
    broker = Broker(partitions=2)
    with Client(scripted(broker).bootstrap) as client:
        producer = Producer(client, "orders", batch_bytes=1000)
        for _ in range(40):
            producer.send(b"x" * 68)
        producer.flush()

    counts = {index: [each.record_count for each in broker.headers(index)] for index in (0, 1)}
    assert counts == {0: [10, 10], 1: [10, 10]}


def test_a_key_decides_the_partition_and_the_caller_may_overrule_it(scripted: Scripted) -> None:
    broker = Broker(partitions=8)
    with Client(scripted(broker).bootstrap) as client:
        producer = Producer(client, "orders")
        for key in (b"a", b"b", b"c"):
            producer.send(key, key=key)
        producer.send(b"chosen", key=b"a", partition=5)
        producer.flush()

    for key in (b"a", b"b", b"c"):
        found = broker.records(partition_for_key(key, 8))
        assert key in [each.value for each in found]
    assert b"chosen" in [each.value for each in broker.records(5)]


@pytest.mark.parametrize("acks", [0, 1])
def test_weaker_acks_need_no_producer_id(scripted: Scripted, acks: int) -> None:
    class Silent(Broker):
        """acks=0 is never answered; what follows on the connection is."""

        def __call__(self, peer: Any, header: Any, body: memoryview) -> Any:
            answer = super().__call__(peer, header, body)
            return None if self.acks == [0] else answer

    broker = Silent()
    peer = scripted(broker)
    with Client(peer.bootstrap) as client:
        producer = Producer(client, "orders", acks=acks)
        producer.send(b"x")
        (landed,) = producer.flush()

    assert landed.first_offset == (-1 if acks == 0 else 7)
    assert ApiKey.INIT_PRODUCER_ID not in peer.asked
    if acks == 1:
        assert broker.headers()[0].producer_id == -1
