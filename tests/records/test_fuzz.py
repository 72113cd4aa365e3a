"""Whatever a client sends is accepted or refused with a code; nothing else can happen."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.records.batch import HEADER_SIZE, crc_matches, read_header, write_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.compression import CompressionType, compress
from tidelog.records.record import records_of
from tidelog.records.validation import (
    AcceptedBatch,
    BatchRules,
    RejectedBatch,
    validate_produced,
)

NOW = 1_700_000_000_000
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.bin"))
RULES = st.builds(
    BatchRules,
    max_message_bytes=st.sampled_from([90, 1_048_588, (1 << 31) - 1]),
    compacted=st.booleans(),
    log_append_time=st.booleans(),
    before_max_ms=st.sampled_from([0, 1000, (1 << 63) - 1]),
    after_max_ms=st.sampled_from([0, 1000, 3_600_000, (1 << 63) - 1]),
    codec=st.none() | st.sampled_from(CompressionType),
    level=st.none(),
    segment_bytes=st.sampled_from([100, 1 << 30]),
)
RECORDS = st.lists(
    st.builds(
        NewRecord,
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=20),
        st.integers(NOW - 2000, NOW + 2000),
        st.sampled_from([(), (("h", b"v"),)]),
    ),
    min_size=1,
    max_size=12,
)
FIELD_BITS = {
    "base_offset": 64,
    "leader_epoch": 32,
    "attributes": 16,
    "last_offset_delta": 32,
    "base_timestamp": 64,
    "max_timestamp": 64,
    "producer_id": 64,
    "producer_epoch": 16,
    "base_sequence": 32,
    "record_count": 32,
}


def check(field: bytes | bytearray, rules: BatchRules, version: int = 9) -> int:
    """The code a field gets; an accepted batch must keep every promise of its verdict."""
    verdict = validate_produced(memoryview(field), rules, NOW, version)
    if isinstance(verdict, RejectedBatch):
        assert verdict.refusal.code > 0
        return int(verdict.refusal.code)
    assert isinstance(verdict, AcceptedBatch)
    header = read_header(verdict.data)
    assert header == verdict.header
    assert header.size == len(verdict.data)
    assert crc_matches(verdict.data)
    records = list(records_of(verdict.data))
    assert [record.offset for record in records] == list(range(header.record_count))
    assert header.max_timestamp == (
        NOW if rules.log_append_time else max(-1, *(record.timestamp for record in records))
    )
    return 0


@st.composite
def one_header_field_changed(draw: st.DrawFn) -> bytearray:
    batch = build_batch(draw(RECORDS), codec=draw(st.sampled_from(CompressionType)))
    name, bits = draw(st.sampled_from(sorted(FIELD_BITS.items())))
    half = 1 << (bits - 1)
    edges = st.sampled_from([-half, -2, -1, 0, 1, 2, 7, half - 1])
    header = read_header(batch)._replace(**{name: draw(edges | st.integers(-half, half - 1))})
    write_header(batch, header)
    return batch


@st.composite
def damaged(draw: st.DrawFn) -> bytearray:
    """Damage in the records before or after compression, under a checksum that is right."""
    codec = draw(st.sampled_from(CompressionType))
    batch = build_batch(draw(RECORDS), codec=CompressionType.NONE)
    header = read_header(batch)._replace(attributes=codec)
    block = batch[HEADER_SIZE:]
    before = draw(st.booleans())
    if not before:
        block = bytearray(compress(codec, block))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(block) - 1))
        block[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
        if not block:
            break
    batch[HEADER_SIZE:] = compress(codec, block) if before else block
    write_header(batch, header)
    return batch


@settings(max_examples=examples(250), deadline=None)
@given(one_header_field_changed(), RULES, st.sampled_from([3, 6, 7, 13]))
def test_a_changed_header_field_is_judged(
    batch: bytearray, rules: BatchRules, version: int
) -> None:
    check(batch, rules, version)


@settings(max_examples=examples(250), deadline=None)
@given(damaged(), RULES)
def test_damaged_records_are_judged(batch: bytearray, rules: BatchRules) -> None:
    check(batch, rules)


@settings(max_examples=examples(100), deadline=None)
@given(st.binary(max_size=200), RULES)
def test_any_bytes_are_judged(field: bytes, rules: BatchRules) -> None:
    assert check(field, rules) > 0


@settings(max_examples=examples(100), deadline=None)
@given(RECORDS, st.data())
def test_a_batch_changed_without_its_checksum_is_never_accepted(
    records: list[NewRecord], data: st.DataObject
) -> None:
    batch = build_batch(records)
    at = data.draw(st.integers(16, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))

    assert check(batch, BatchRules()) in (2, 76, 87)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_stored_finding_gets_its_code(path: Path) -> None:
    expected = int(path.stem.split("-")[0])

    assert check(path.read_bytes(), BatchRules()) == expected


def test_the_corpus_is_there() -> None:
    assert len(CORPUS) >= 20
