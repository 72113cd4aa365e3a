"""Batches that must not get into a log, in every version of Produce; each is refused by its code
and leaves no trace."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable
from typing import NamedTuple

import cramjam
import pytest
from tests.integration.raw import (
    PRODUCE_VERSIONS,
    Peer,
    Topic,
    batch_of,
    create_topic,
    end_offset,
    fetch,
    forget_peak,
    peak_bytes,
    produce,
    produce_to,
    resident_bytes,
)

from tidelog.model.errors import ErrorCode
from tidelog.protocol.produce import decode_produce_response
from tidelog.records.batch import (
    CONTROL,
    HEADER_SIZE,
    LENGTH_AT,
    MAGIC_AT,
    BatchHeader,
    read_header,
    whole_batches,
    write_header,
)
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.compression import CompressionType
from tidelog.records.record import records_of
from tidelog.records.varint import append_varint
from tidelog.testing.cluster import Cluster

MIB = 1 << 20
COMPRESSED = [
    CompressionType.GZIP,
    CompressionType.SNAPPY,
    CompressionType.LZ4,
    CompressionType.ZSTD,
]

pytestmark = pytest.mark.usefixtures("others_are_served")


@pytest.fixture(scope="module")
def plain(bootstrap: str) -> Topic:
    """A topic that must stay empty."""
    with Peer(bootstrap) as connected:
        return create_topic(connected, "plain")


@pytest.fixture(scope="module")
def compacted(bootstrap: str) -> Topic:
    with Peer(bootstrap) as connected:
        return create_topic(connected, "compacted", cleanup_policy="compact")


@pytest.fixture(scope="module")
def punctual(bootstrap: str) -> Topic:
    with Peer(bootstrap) as connected:
        return create_topic(
            connected,
            "punctual",
            message_timestamp_before_max_ms="60000",
            message_timestamp_after_max_ms="60000",
        )


def resealed(batch: bytearray, **changed: int) -> bytearray:
    """The batch with another header and a checksum that fits it."""
    header: BatchHeader = read_header(batch)
    write_header(batch, header._replace(**changed))
    return batch


def patched(batch: bytearray, position: int, data: bytes) -> bytearray:
    batch[position : position + len(data)] = data
    return batch


def with_records(
    data: bytes, count: int, codec: CompressionType = CompressionType.NONE
) -> bytearray:
    """A batch around record bytes that are whatever they are."""
    batch = batch_of(b"x")
    batch[HEADER_SIZE:] = data
    return resealed(batch, record_count=count, last_offset_delta=count - 1, attributes=int(codec))


def record(offset_delta: int, *, claimed: int | None = None) -> bytes:
    body = bytearray(b"\x00")
    for number in (0, offset_delta, -1, 1):
        append_varint(body, number)
    body += b"v\x00"
    framed = bytearray()
    append_varint(framed, len(body) if claimed is None else claimed)
    return bytes(framed + body)


def long_ago(batch_time_ms: int) -> bytearray:
    return build_batch([NewRecord(b"key", b"x", batch_time_ms)])


class Bad(NamedTuple):
    """A records field, the topic it is sent to and the code it must be refused with."""

    code: ErrorCode
    records: Callable[[], bytes | bytearray | None]
    topic: str = "plain"


INVALID, CORRUPT = ErrorCode.invalid_record, ErrorCode.corrupt_message
NO_CODEC = ErrorCode.unsupported_compression_type

BAD: dict[str, Bad] = {
    "null": Bad(INVALID, lambda: None),
    "nothing": Bad(INVALID, lambda: b""),
    "eleven bytes": Bad(INVALID, lambda: batch_of(b"x")[:11]),
    "two batches": Bad(INVALID, lambda: batch_of(b"x") + batch_of(b"y")),
    "bytes behind the batch": Bad(INVALID, lambda: batch_of(b"x") + b"\x00"),
    "magic 0": Bad(INVALID, lambda: patched(batch_of(b"x"), MAGIC_AT, b"\x00")),
    "magic 1": Bad(INVALID, lambda: patched(batch_of(b"x"), MAGIC_AT, b"\x01")),
    "magic 3": Bad(INVALID, lambda: patched(batch_of(b"x"), MAGIC_AT, b"\x03")),
    "checksum": Bad(CORRUPT, lambda: patched(batch_of(b"x"), 17, b"\x00\x00\x00\x00")),
    "flipped value": Bad(CORRUPT, lambda: patched(batch_of(b"xx"), HEADER_SIZE + 9, b"\xff")),
    "cut short": Bad(CORRUPT, lambda: batch_of(b"x" * 100)[:-1]),
    "header alone": Bad(CORRUPT, lambda: batch_of(b"x" * 100)[:HEADER_SIZE]),
    "length below header": Bad(
        CORRUPT, lambda: patched(batch_of(b"x"), LENGTH_AT, struct.pack(">i", 48))
    ),
    "length negative": Bad(
        CORRUPT, lambda: patched(batch_of(b"x"), LENGTH_AT, struct.pack(">i", -1))
    ),
    "length beyond field": Bad(
        CORRUPT, lambda: patched(batch_of(b"x"), LENGTH_AT, struct.pack(">i", 2**31 - 1))
    ),
    "count 0": Bad(INVALID, lambda: resealed(batch_of(b"x"), record_count=0)),
    "count negative": Bad(INVALID, lambda: resealed(batch_of(b"x"), record_count=-1)),
    "count too great": Bad(INVALID, lambda: resealed(batch_of(b"x"), record_count=2)),
    "count huge": Bad(
        INVALID,
        lambda: resealed(batch_of(b"x"), record_count=2**31 - 1, last_offset_delta=2**31 - 2),
    ),
    "delta too great": Bad(INVALID, lambda: resealed(batch_of(b"x"), last_offset_delta=1)),
    "delta negative": Bad(INVALID, lambda: resealed(batch_of(b"x"), last_offset_delta=-1)),
    "fewer records than counted": Bad(INVALID, lambda: with_records(record(0), 2)),
    "more records than counted": Bad(INVALID, lambda: with_records(record(0) + record(1), 1)),
    "record longer than the batch": Bad(INVALID, lambda: with_records(record(0, claimed=90), 1)),
    "record shorter than its fields": Bad(INVALID, lambda: with_records(record(0, claimed=3), 1)),
    "record length negative": Bad(INVALID, lambda: with_records(record(0, claimed=-5), 1)),
    "record varint without end": Bad(INVALID, lambda: with_records(b"\xff" * 30, 1)),
    "no record bytes": Bad(INVALID, lambda: with_records(b"", 1)),
    "control batch": Bad(INVALID, lambda: resealed(batch_of(b"x"), attributes=CONTROL)),
    "producer without sequence": Bad(INVALID, lambda: batch_of(b"x", producer_id=5)),
    "offset deltas from 1": Bad(INVALID, lambda: with_records(record(1), 1)),
    "offset deltas backwards": Bad(INVALID, lambda: with_records(record(1) + record(0), 2)),
    "offset deltas with a gap": Bad(INVALID, lambda: with_records(record(0) + record(2), 2)),
    "base offset": Bad(INVALID, lambda: batch_of(b"x", base_offset=5)),
    "codec 5": Bad(NO_CODEC, lambda: resealed(batch_of(b"x"), attributes=5)),
    "codec 7": Bad(NO_CODEC, lambda: resealed(batch_of(b"x"), attributes=7)),
    "gzip that is none": Bad(
        INVALID, lambda: with_records(b"garbage" * 9, 1, CompressionType.GZIP)
    ),
    "snappy that is none": Bad(
        INVALID, lambda: with_records(b"garbage" * 9, 1, CompressionType.SNAPPY)
    ),
    "lz4 that is none": Bad(INVALID, lambda: with_records(b"garbage" * 9, 1, CompressionType.LZ4)),
    "no key in a compacted topic": Bad(INVALID, lambda: batch_of(b"x", key=None), "compacted"),
    "too old": Bad(ErrorCode.invalid_timestamp, lambda: long_ago(1_000_000), "punctual"),
    "from the future": Bad(
        ErrorCode.invalid_timestamp, lambda: long_ago(time.time_ns() // 10**6 * 2), "punctual"
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_batch_is_refused_by_its_code_in_every_version(
    peer: Peer, plain: Topic, compacted: Topic, punctual: Topic, case: str
) -> None:
    code, records, name = BAD[case]
    topic = {"plain": plain, "compacted": compacted, "punctual": punctual}[name]
    for version in PRODUCE_VERSIONS:
        answer = produce(peer, topic, records(), version=version)
        assert (answer.error, answer.base_offset) == (code, -1), f"version {version}"
        if version >= 8:
            assert answer.error_message
    assert end_offset(peer, topic) == 0


@pytest.mark.parametrize("case", BAD)
def test_a_bad_batch_without_acknowledgement_closes_the_connection(
    bootstrap: str, peer: Peer, plain: Topic, compacted: Topic, punctual: Topic, case: str
) -> None:
    _, records, name = BAD[case]
    topic = {"plain": plain, "compacted": compacted, "punctual": punctual}[name]
    for version in (3, 8, 9, 13):
        with Peer(bootstrap) as each:
            each.send_frame(produce_to(version, topic, [(0, records())], acks=0))
            assert each.hangs_up()
    assert end_offset(peer, topic) == 0


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_acks_other_than_the_three_are_refused(peer: Peer, plain: Topic, version: int) -> None:
    for acks in (-2, 2, 3, 32767, -32768):
        answer = produce(peer, plain, batch_of(b"x"), version=version, acks=acks)
        assert answer.error == ErrorCode.invalid_required_acks
    assert end_offset(peer, plain) == 0


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_zstd_is_known_since_version_7(peer: Peer, topic: str, version: int) -> None:
    made = create_topic(peer, topic)
    answer = produce(peer, made, batch_of(b"x" * 100, codec=CompressionType.ZSTD), version=version)
    if version < 7:
        assert answer.error == ErrorCode.unsupported_compression_type
    else:
        assert (answer.error, answer.base_offset) == (ErrorCode.none, 0)


def test_a_batch_above_the_limit_of_its_topic_is_refused(peer: Peer, topic: str) -> None:
    small = create_topic(peer, topic, max_message_bytes="1000")
    segmented = create_topic(
        peer, topic + ".segment", segment_bytes=str(MIB), max_message_bytes=str(3 * MIB)
    )
    for version in PRODUCE_VERSIONS:
        too_large = produce(peer, small, batch_of(b"x" * 1000), version=version)
        assert too_large.error == ErrorCode.message_too_large
        no_room = produce(peer, segmented, batch_of(b"x" * 2 * MIB), version=version)
        assert no_room.error == ErrorCode.record_list_too_large
    assert produce(peer, small, batch_of(b"x" * 900)).base_offset == 0


def test_the_leader_epoch_a_client_writes_is_replaced(peer: Peer, topic: str) -> None:
    made = create_topic(peer, topic)
    assert produce(peer, made, batch_of(b"x", leader_epoch=1234)).error == ErrorCode.none
    stored = fetch(peer, made, 0).records
    assert isinstance(stored, memoryview)
    ((header, batch),) = whole_batches(stored)
    assert (header.base_offset, header.leader_epoch) == (0, 0)
    assert [each.value for each in records_of(batch)] == [b"x"]


def test_one_bad_partition_does_not_harm_the_others_of_a_request(peer: Peer, topic: str) -> None:
    made = create_topic(peer, topic)
    for version in PRODUCE_VERSIONS:
        batches: list[tuple[int, bytes | bytearray | None]]
        batches = [(0, batch_of(b"x")), (1, batch_of(b"x")), (0, b"no batch"), (0, batch_of(b"y"))]
        answer = peer.ask(produce_to(version, made, batches))
        (answered,) = decode_produce_response(answer, version).topics
        assert [partition.error for partition in answered.partitions] == [
            ErrorCode.none,
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.invalid_record,
            ErrorCode.none,
        ]
    assert end_offset(peer, made) == 2 * len(PRODUCE_VERSIONS)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_sequences_have_no_gap_no_old_epoch_and_no_duplicate(
    peer: Peer, topic: str, version: int
) -> None:
    made = create_topic(peer, topic)

    def send(sequence: int, epoch: int = 1) -> tuple[int, int]:
        batch = batch_of(b"a", b"b", producer_id=77, producer_epoch=epoch, base_sequence=sequence)
        answer = produce(peer, made, batch, version=version)
        return answer.error, answer.base_offset

    assert [send(0), send(2), send(4)] == [(0, 0), (0, 2), (0, 4)]
    assert [send(2), send(0), send(4)] == [(0, 2), (0, 0), (0, 4)]
    assert send(8) == (ErrorCode.out_of_order_sequence_number, -1)
    assert send(3) == (ErrorCode.out_of_order_sequence_number, -1)
    assert send(6, epoch=0) == (ErrorCode.invalid_producer_epoch, -1)
    assert send(4, epoch=2) == (ErrorCode.out_of_order_sequence_number, -1)
    assert send(0, epoch=2) == (0, 6)
    assert end_offset(peer, made) == 8


def bomb(codec: CompressionType) -> bytes:
    """As many zeros as the codec gets into a batch of a default topic."""
    match codec:
        case CompressionType.GZIP:
            packer = zlib.compressobj(9, zlib.DEFLATED, 31)
            first, *_, last = [
                packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(3)
            ]
            return first + last * 900
        case CompressionType.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(bytes(20 * MIB)))
        case CompressionType.LZ4:
            lz4 = cramjam.lz4.Compressor(level=9, content_checksum=False, block_linked=False)
            for _ in range(200):
                lz4.compress(bytes(MIB))
            return bytes(lz4.finish())
        case _:
            return bytes(cramjam.zstd.compress(bytes(64 * MIB), level=3)) * 128


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name.lower())
def test_a_bomb_is_refused_within_bounds_of_time_and_memory(
    cluster: Cluster, peer: Peer, plain: Topic, codec: CompressionType
) -> None:
    batch = with_records(bomb(codec), 1, codec)
    assert len(batch) < MIB
    pid = cluster.node().pid or 0
    produce(peer, plain, batch)
    before = resident_bytes(pid)
    forget_peak(pid)
    began = time.monotonic()
    for _ in range(4):
        answer = produce(peer, plain, batch)
        assert answer.error in (ErrorCode.invalid_record, ErrorCode.message_too_large)
    assert time.monotonic() - began < 4.0
    assert peak_bytes(pid) - before < 48 * MIB
    assert end_offset(peer, plain) == 0


def test_a_snappy_block_that_claims_more_than_it_can_hold_takes_no_memory(
    cluster: Cluster, peer: Peer, plain: Topic
) -> None:
    raw = b"\xff\xff\xff\xff\x0f" + bytes(20)
    xerial = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
    pid = cluster.node().pid or 0
    before = resident_bytes(pid)
    forget_peak(pid)
    for data in (raw, xerial + struct.pack(">i", 2**31 - 1), xerial + struct.pack(">i", 25) + raw):
        answer = produce(peer, plain, with_records(data, 1, CompressionType.SNAPPY))
        assert answer.error in (ErrorCode.invalid_record, ErrorCode.message_too_large)
    assert peak_bytes(pid) - before < 8 * MIB


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name.lower())
def test_damaged_compressed_records_are_refused_or_stored_as_they_read(
    peer: Peer, topic: str, codec: CompressionType
) -> None:
    made = create_topic(peer, topic)
    whole = bytes(batch_of(*(b"%d " % number * 20 for number in range(50)), codec=codec))
    for position in range(HEADER_SIZE, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        answer = produce(peer, made, resealed(damaged))
        assert answer.error in (ErrorCode.none, ErrorCode.invalid_record), position
    for length in range(HEADER_SIZE, len(whole), 11):
        answer = produce(peer, made, resealed(bytearray(whole[:length])))
        assert answer.error == ErrorCode.invalid_record, length
    end = end_offset(peer, made)
    offset = 0
    while offset < end:
        stored = fetch(peer, made, offset).records
        assert isinstance(stored, memoryview)
        for header, batch in whole_batches(stored):
            assert [each.offset for each in records_of(batch)] == list(range(offset, offset + 50))
            offset = header.next_offset
