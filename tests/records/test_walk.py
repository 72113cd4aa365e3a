"""The fast walk must give the verdict of reading every record with care, no more and no less."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.records.batch import HEADER_SIZE
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.corrupt import CorruptBatch
from tidelog.records.fields import read_fields
from tidelog.records.walk import Walked, walk

START = 1_700_000_000_000


def with_care(data: bytes, count: int) -> Walked | None:
    """The walk written as plainly as possible; None for corrupt data."""
    position = 0
    deltas = []
    has_keyless = False
    try:
        for index in range(count):
            fields = read_fields(data, position)
            if fields.offset_delta != index:
                return None
            deltas.append(fields.timestamp_delta)
            has_keyless |= fields.key_length < 0
            position = fields.end
    except CorruptBatch:
        return None
    if count <= 0 or position != len(data):
        return None
    return Walked(min(deltas), max(deltas), has_keyless)


def walked(data: bytes, count: int) -> Walked | None:
    try:
        return walk(data, count)
    except CorruptBatch:
        return None


def serialised(records: list[NewRecord]) -> bytes:
    return bytes(build_batch(records)[HEADER_SIZE:])


KEYS = st.none() | st.sampled_from([b"", b"key", b"k" * 64])
HEADERS = st.sampled_from([(), (), (("h", b"v"), ("n", None))])


@st.composite
def uniform(draw: st.DrawFn) -> list[NewRecord]:
    """Records of one shape, as most producers send them."""
    key = draw(KEYS)
    value = bytes(draw(st.sampled_from([0, 1, 55, 62, 64, 100])))
    headers = draw(HEADERS)
    step = draw(st.sampled_from([0, 1, -1, 3, 70, 9_000, 10**7]))
    count = draw(st.sampled_from([1, 2, 9, 40, 64, 65, 66, 75, 140]))
    return [NewRecord(key, value, START + i // 3 * step, headers) for i in range(count)]


@st.composite
def varied(draw: st.DrawFn) -> list[NewRecord]:
    times = st.integers(START - 9_000, START + 9_000)
    values = st.none() | st.integers(0, 140).map(bytes)
    record = st.builds(NewRecord, KEYS, values, times, HEADERS)
    return draw(st.lists(record, min_size=1, max_size=100))


@settings(max_examples=examples(150), deadline=None)
@given(uniform() | varied())
def test_well_formed_records_are_walked_to_their_end(records: list[NewRecord]) -> None:
    data = serialised(records)

    assert walk(data, len(records)) == with_care(data, len(records))


@settings(max_examples=examples(400), deadline=None)
@given(uniform() | varied(), st.data())
def test_a_change_anywhere_is_judged_as_with_care(
    records: list[NewRecord], choices: st.DataObject
) -> None:
    data = bytearray(serialised(records))
    for _ in range(choices.draw(st.integers(1, 2))):
        at = choices.draw(st.integers(0, len(data) - 1))
        byte = choices.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0x81, 0xFF, data[at] ^ 0x80]))
        match choices.draw(st.sampled_from(["change", "insert", "remove"])):
            case "change":
                data[at] = byte
            case "insert":
                data.insert(at, byte)
            case _ if len(data) > 1:
                del data[at]
    count = len(records) + choices.draw(st.sampled_from([0, 0, 0, 1, -1]))

    assert walked(bytes(data), count) == with_care(bytes(data), count)


@pytest.mark.parametrize("headers", [(), (("h", b"v"), ("n", None))])
def test_every_single_byte_of_equal_records_matters_as_much_as_with_care(
    headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    records = [NewRecord(b"key", b"value", START + i, headers) for i in range(80)]
    data = serialised(records)

    for at in range(len(data)):
        for flip in (0x01, 0x02, 0x80):
            changed = bytearray(data)
            changed[at] ^= flip
            assert walked(bytes(changed), 80) == with_care(bytes(changed), 80), at


@pytest.mark.parametrize("count", [1, 2, 5, 64, 66, 80])
@pytest.mark.parametrize("missing", [1, 2])
def test_a_last_header_that_ends_after_the_data_is_found(count: int, missing: int) -> None:
    header = (("h", b"last"),)
    for sizes in ((3,) * count, range(count)):
        data = serialised([NewRecord(b"k", bytes(n), START, header) for n in sizes])
        assert walk(data, count) == Walked(0, 0, False)
        assert walked(data[:-missing], count) is None


@pytest.mark.parametrize("size", [8_100, 8_190, 8_300, 16_500, 70_000])
@pytest.mark.parametrize("at", [0, 1, 2, 3, 5, 30, 63, 64, 79])
def test_a_large_record_among_small_ones_is_walked_whatever_its_bytes_look_like(
    size: int, at: int
) -> None:
    small = [NewRecord(b"k", bytes(i % 9), START + i) for i in range(80)]
    for filling in (b"\x00\x00", b"\x02\x01", b"\x01\x02", b"\xff\x00"):
        large = filling * (size // 2)
        for record in (
            NewRecord(b"k", large, START + at),
            NewRecord(large, b"v", START + at),
            NewRecord(b"k", b"v", START + at, (("h", large),)),
        ):
            data = serialised([*small[:at], record, *small[at + 1 :]])
            assert walk(data, 80) == with_care(data, 80)


@pytest.mark.parametrize("count", [8190, 8192, 8193, 16_390, 20_000])
def test_offset_deltas_of_three_bytes_are_walked(count: int) -> None:
    equal = serialised([NewRecord(None, b"value", START)] * count)
    mixed = serialised([NewRecord(None, bytes(i % 5), START) for i in range(count)])

    assert walk(equal, count) == walk(mixed, count) == Walked(0, 0, True)
    for data in (equal, mixed):
        assert walked(data, count - 1) is None
        assert walked(data, count + 1) is None


def test_a_wrong_offset_delta_far_into_a_large_batch_is_found() -> None:
    count = 9_000
    records = serialised([NewRecord(None, b"value", START)] * count)
    last = records.rindex(b"value") - 3  # the last byte of the last offset delta

    for at in (last, last - 1, last - 2):
        changed = bytearray(records)
        changed[at] ^= 0x02
        assert walked(bytes(changed), count) is None


def test_offset_deltas_that_start_over_in_a_later_zone_are_found() -> None:
    zone, count = 8192, 2 * 8192 + 100
    records = serialised([NewRecord(None, b"value", START)] * count)
    size = len(records) - len(serialised([NewRecord(None, b"value", START)] * (count - 1)))
    tail = 99 * size  # all of the last zone but its first record
    again = records[: -zone * size][-tail:]

    assert len(again) == tail
    assert walked(records[:-tail] + again, count) is None


@pytest.mark.parametrize("count", [0, -1, 1 << 30])
def test_a_count_that_cannot_fit_is_refused_before_any_work(count: int) -> None:
    with pytest.raises(CorruptBatch, match="cannot hold"):
        walk(serialised([NewRecord(None, b"v", START)]), count)


def test_the_extremes_of_time_are_seen_wherever_they_are() -> None:
    for lowest in (0, 1, 30, 63, 64, 100, 149):
        for highest in (0, 2, 31, 63, 65, 148):
            if lowest == highest:
                continue
            times = dict.fromkeys(range(150), START) | {lowest: START - 50, highest: START + 60}
            data = serialised([NewRecord(b"k", b"v", times[i]) for i in range(150)])
            seen = walk(data, 150)
            assert seen.greatest_timestamp_delta - seen.least_timestamp_delta == 110
