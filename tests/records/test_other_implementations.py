"""Second opinions: batches written by others are accepted, ours are read by others."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.memory_records import MemoryRecords as AioRecords

from tidelog.records.batch import crc_matches, read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.compression import CompressionType
from tidelog.records.control_batch import end_txn_marker
from tidelog.records.record import records_of
from tidelog.records.validation import AcceptedBatch, BatchRules, validate_produced

with warnings.catch_warnings():  # importing kafka-python uses what Python 3.11 calls outdated
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords
    from kafka.record.memory_records import MemoryRecordsBuilder as KafkaPythonBuilder

DATA = Path(__file__).parent / "data"
START = 1_700_000_000_123
BY_JAVA = [
    NewRecord(
        None if i % 3 == 0 else b"key-%d" % i,
        None if i % 5 == 0 else (b"value-%d-" % i) * (i % 7 + 1),
        START + 37 * i - i % 2 * 1000,
        (("trace", b"t%d" % i), ("empty", None)) if i % 4 == 0 else (),
    )
    for i in range(70)
]
BLOCKS_BY_JAVA = [NewRecord(b"k%d" % i, bytes(1000), 1_700_000_000_000 + i) for i in range(300)]
MIXED = [
    NewRecord(
        None if i % 3 == 0 else b"k%d" % i,
        None if i % 5 == 0 else b"v" * (31 * i),
        START + i,
        (("header", b"x"), ("none", None)) if i % 4 == 0 else (),
    )
    for i in range(100)
]


def fixture(name: str) -> bytearray:
    return bytearray((DATA / f"{name}.bin").read_bytes())


def contents(batch: bytes | bytearray | memoryview) -> list[NewRecord]:
    return [NewRecord(r.key, r.value, r.timestamp, r.headers) for r in records_of(batch)]


def accepted(batch: bytearray) -> AcceptedBatch:
    verdict = validate_produced(memoryview(batch), BatchRules(), START, 9)
    assert isinstance(verdict, AcceptedBatch), verdict
    return verdict


@pytest.mark.parametrize("codec", CompressionType)
def test_batches_written_by_java_are_accepted_unchanged_and_read_back(
    codec: CompressionType,
) -> None:
    batch = fixture(f"java-{codec.name.lower()}")
    before = bytes(batch)

    verdict = accepted(batch)

    assert bytes(verdict.data) == before
    assert verdict.header.codec is codec
    assert verdict.header.is_transactional == (codec is CompressionType.ZSTD)
    assert verdict.header[9:] == (4711, 3, 7, 70)
    assert contents(batch) == BY_JAVA


@pytest.mark.parametrize(
    "codec", [CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD]
)
def test_blocks_and_frames_written_by_java_are_read(codec: CompressionType) -> None:
    batch = fixture(f"java-blocks-{codec.name.lower()}")

    accepted(batch)

    assert contents(batch) == BLOCKS_BY_JAVA


def test_an_uncompressed_batch_has_the_bytes_java_writes() -> None:
    ours = build_batch(BY_JAVA, producer_id=4711, producer_epoch=3, base_sequence=7)

    assert ours == fixture("java-none")


def test_a_commit_marker_has_the_bytes_java_writes() -> None:
    ours = end_txn_marker(
        producer_id=4711,
        producer_epoch=3,
        committed=True,
        coordinator_epoch=9,
        timestamp=1_700_000_000_500,
        base_offset=42,
        leader_epoch=5,
    )

    assert ours == fixture("java-commit-marker")


@pytest.mark.parametrize("codec", CompressionType)
def test_our_batches_are_read_by_aiokafka(codec: CompressionType) -> None:
    ours = build_batch(
        MIXED, codec=codec, base_offset=77, producer_id=9, producer_epoch=1, base_sequence=0
    )

    batch = AioRecords(bytes(ours)).next_batch()

    assert isinstance(batch, AioBatch)
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 1, 0)
    assert [
        (r.offset, NewRecord(r.key, r.value, r.timestamp, tuple(r.headers))) for r in batch
    ] == list(enumerate(MIXED, 77))


@pytest.mark.parametrize("codec", CompressionType)
def test_batches_of_aiokafka_are_accepted(codec: CompressionType) -> None:
    builder = AioBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset, record in enumerate(MIXED):
        builder.append(
            offset, record.timestamp, record.key, record.value, headers=list(record.headers)
        )
    batch = bytearray(builder.build())

    assert contents(accepted(batch).data) == MIXED


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_kafka_python_and_we_read_each_other(codec: CompressionType) -> None:
    builder = KafkaPythonBuilder(magic=2, compression_type=codec, batch_size=1 << 20)
    for record in MIXED:
        builder.append(
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
    builder.close()
    theirs = bytearray(builder.buffer())

    assert contents(accepted(theirs).data) == MIXED

    read = KafkaPythonRecords(bytes(build_batch(MIXED, codec=codec))).next_batch()
    assert [NewRecord(r.key, r.value, r.timestamp, tuple(r.headers)) for r in read] == MIXED


def test_the_checksum_of_a_java_batch_matches() -> None:
    for path in sorted(DATA.glob("*.bin")):
        batch = path.read_bytes()
        assert crc_matches(batch), path.name
        assert read_header(batch).size == len(batch)
