"""Positions, gaps, markers and aborted transactions: what a consumer yields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pytest

from tidelog.client.blocking import Client
from tidelog.client.consumer import Consumer
from tidelog.client.errors import RequestRefused
from tidelog.client.offsets import EARLIEST, LATEST, Isolation, find_offsets
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import FetchedPartition, decode_fetch, encode_fetch_response
from tidelog.protocol.parts import joined
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control_batch import end_txn_marker

Scripted = Callable[[Callable[[Any, Any, Any], Any]], Any]


def batch(base_offset: int, *values: bytes, producer_id: int = -1) -> bytes:
    transactional = producer_id >= 0
    return bytes(
        build_batch(
            [NewRecord(None, value, 5) for value in values],
            base_offset=base_offset,
            leader_epoch=3,
            producer_id=producer_id,
            producer_epoch=0 if transactional else -1,
            base_sequence=0 if transactional else -1,
            transactional=transactional,
        )
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    return bytes(
        end_txn_marker(
            producer_id=producer_id,
            producer_epoch=0,
            committed=committed,
            coordinator_epoch=0,
            timestamp=5,
            base_offset=offset,
        )
    )


class Log:
    """A script with one partition: batches, and where they end."""

    def __init__(
        self,
        batches: Sequence[bytes],
        end: int,
        *,
        aborted: Sequence[tuple[int, int]] = (),
        errors: Sequence[ErrorCode] = (),
    ) -> None:
        self._data = b"".join(batches)
        self._end = end
        self._aborted = list(aborted)
        self._errors = list(errors)
        self.fetched_from: list[int] = []

    def __call__(self, peer: Any, header: Any, body: memoryview) -> Any:
        if header.api_key is ApiKey.METADATA:
            return peer.metadata(orders=1)
        if header.api_key is ApiKey.LIST_OFFSETS:
            return self._list_offsets(header, body)
        request = decode_fetch(body, header.api_version)
        topic = request.topics[0]
        self.fetched_from.append(topic.partitions[0].fetch_offset)
        error = self._errors.pop(0) if self._errors else ErrorCode.none
        fetched = FetchedPartition(
            0,
            int(error),
            self._end,
            self._end,
            0,
            self._aborted or None,
            records=None if error is not ErrorCode.none else self._data,
        )
        return joined(
            encode_fetch_response(
                header.api_version,
                header.correlation_id,
                0,
                0,
                [(topic.name, topic.topic_id, [fetched])],
            )
        )

    def _list_offsets(self, header: Any, body: memoryview) -> Any:
        from tests.protocol.kio_messages.entity_messages import decode_request

        request = decode_request(header.api_key, header.api_version, body)
        timestamp = int(request.topics[0].partitions[0].timestamp)
        offset = {EARLIEST: 0, LATEST: self._end}.get(timestamp, -1)
        answer = {"partition_index": 0, "error_code": 0, "offset": offset}
        return {"topics": [{"name": "orders", "partitions": [answer]}]}


def read(
    scripted: Scripted,
    log: Log,
    start: int = 0,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> list[tuple[int, bytes | None]]:
    with Client(scripted(log).bootstrap) as client:
        consumer = Consumer(client, "orders", {0: start}, isolation=isolation)
        found = list(consumer.until_end())
    assert all(each.leader_epoch == 3 for each in found)
    return [(each.record.offset, each.record.value) for each in found]


def test_records_come_in_offset_order(scripted: Scripted) -> None:
    log = Log([batch(0, b"a", b"b"), batch(2, b"c")], 3)

    assert read(scripted, log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_records_before_the_start_are_left_out_though_their_batch_is_sent(
    scripted: Scripted,
) -> None:
    log = Log([batch(0, b"a", b"b"), batch(2, b"c")], 3)

    assert read(scripted, log, 1) == [(1, b"b"), (2, b"c")]


def test_a_batch_that_ends_before_the_start_does_not_move_the_position_back(
    scripted: Scripted,
) -> None:
    log = Log([batch(0, b"a", b"b"), batch(2, b"c"), batch(3, b"d")], 4)

    assert read(scripted, log, 3) == [(3, b"d")]


def test_a_batch_cut_at_the_end_of_the_answer_is_fetched_again(scripted: Scripted) -> None:
    whole = [batch(0, b"a"), batch(1, b"b")]
    log = Log([whole[0], whole[1][:-1]], 2)

    with Client(scripted(log).bootstrap) as client:
        consumer = Consumer(client, "orders", {0: 0})
        records = consumer.forever()
        assert next(records).record.value == b"a"
    assert consumer.positions == {0: 1}


def test_reading_ends_although_the_log_ends_in_a_marker(scripted: Scripted) -> None:
    log = Log([batch(0, b"a", producer_id=7), marker(1, 7, committed=True)], 2)

    assert read(scripted, log) == [(0, b"a")]


def test_records_written_after_the_start_are_left_for_later(scripted: Scripted) -> None:
    log = Log([batch(0, b"a"), batch(1, b"b")], 1)

    assert read(scripted, log) == [(0, b"a")]


class ShrinkingLog(Log):
    """After the first look it ends where its batches do: the rest was given up."""

    def _list_offsets(self, header: Any, body: memoryview) -> Any:
        answer = super()._list_offsets(header, body)
        if self.fetched_from:
            answer["topics"][0]["partitions"][0]["offset"] = min(
                1, answer["topics"][0]["partitions"][0]["offset"]
            )
        return answer


def test_reading_ends_although_the_log_gave_up_its_end_meanwhile(scripted: Scripted) -> None:
    log = ShrinkingLog([batch(0, b"a")], 3)

    assert read(scripted, log) == [(0, b"a")]


def test_an_empty_log_is_read_at_once(scripted: Scripted) -> None:
    log = Log([], 0)

    assert read(scripted, log) == []
    assert log.fetched_from == []


def test_aborted_records_are_hidden_until_their_marker_and_no_further(scripted: Scripted) -> None:
    batches = [
        batch(0, b"aborted", producer_id=7),
        batch(1, b"other", producer_id=8),
        batch(2, b"plain"),
        marker(3, 7, committed=False),
        batch(4, b"committed", producer_id=7),
        marker(5, 7, committed=True),
        marker(6, 8, committed=True),
    ]
    log = Log(batches, 7, aborted=[(7, 0)])

    assert read(scripted, log, isolation=Isolation.READ_COMMITTED) == [
        (1, b"other"),
        (2, b"plain"),
        (4, b"committed"),
    ]


def test_trouble_that_passes_is_waited_out(scripted: Scripted) -> None:
    log = Log([batch(0, b"a")], 1, errors=[ErrorCode.not_leader_or_follower])

    assert read(scripted, log) == [(0, b"a")]
    assert log.fetched_from == [0, 0]


def test_an_offset_outside_the_log_names_what_the_log_holds(scripted: Scripted) -> None:
    log = Log([batch(0, b"a")], 1, errors=[ErrorCode.offset_out_of_range])

    with Client(scripted(log).bootstrap) as client, pytest.raises(RequestRefused) as caught:
        list(islice(Consumer(client, "orders", {0: 9}).forever(), 1))

    assert caught.value.code is ErrorCode.offset_out_of_range
    assert "[0, 1)" in str(caught.value)


def test_a_moment_younger_than_every_record_has_no_offset(scripted: Scripted) -> None:
    with Client(scripted(Log([], 4)).bootstrap) as client:
        assert find_offsets(client, "orders", {0: 1000}) == {0: -1}
        assert find_offsets(client, "orders", {0: LATEST}) == {0: 4}
