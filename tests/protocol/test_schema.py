from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.ids import ZERO_UUID
from tidelog.protocol.encoding import read_uvarint, write_uvarint
from tidelog.protocol.schema import (
    Int8,
    Int16,
    Int32,
    Int64,
    MalformedMessage,
    NotInVersion,
    Schema,
    UInt16,
    UnknownVersion,
    wire,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    offset: Int64
    leader_epoch: Int32 = field(default=-1, metadata=wire(since=3))
    metadata: str
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(default=-1, metadata=wire(since=1, until=1))
    topic_id: UUID = field(default=ZERO_UUID, metadata=wire(since=4, tag=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: str
    group_instance_id: str | None = field(default=None, metadata=wire(since=3))
    client_id: str
    client_host: str
    rebalance_timeout: Int32 = field(default=-1, metadata=wire(since=1))
    session_timeout: Int32
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    protocol_type: str
    generation: Int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: Int64 = field(default=-1, metadata=wire(since=2))
    members: tuple[Member, ...]


OFFSETS = Schema(OffsetCommitValue, versions=(0, 4), flexible_since=4)
GROUPS = Schema(GroupMetadataValue, versions=(0, 4), flexible_since=4)
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=3,
    protocol=None,
    leader="l",
    current_state_timestamp=7,
    members=(
        Member(
            member_id="a",
            client_id="c",
            client_host="h",
            rebalance_timeout=1,
            session_timeout=2,
            subscription=b"\x01\x02",
            assignment=b"",
        ),
    ),
)
COMMIT = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9)


@pytest.mark.parametrize(
    ("version", "value", "encoded"),
    [
        (0, COMMIT, "000000000000000500016d0000000000000009"),
        (
            1,
            replace(COMMIT, expire_timestamp=11),
            "000000000000000500016d0000000000000009000000000000000b",
        ),
        (3, replace(COMMIT, leader_epoch=2), "00000000000000050000000200016d0000000000000009"),
        (
            4,
            replace(COMMIT, leader_epoch=2, topic_id=UUID("00abcdef-0000-0000-0000-000000000002")),
            "000000000000000500000002026d000000000000000901001000abcdef000000000000000000000002",
        ),
    ],
)
def test_offset_commits_have_the_bytes_of_apache_kafka(
    version: int, value: OffsetCommitValue, encoded: str
) -> None:
    assert OFFSETS.encode(value, version).hex() == encoded
    assert OFFSETS.decode(bytes.fromhex(encoded), version) == value


@pytest.mark.parametrize(
    ("version", "encoded"),
    [
        (
            2,
            "0008636f6e73756d657200000003ffff00016c0000000000000007000000010001610001630001680000"
            "00010000000200000002010200000000",
        ),
        (
            3,
            "0008636f6e73756d657200000003ffff00016c000000000000000700000001000161ffff000163000168"
            "000000010000000200000002010200000000",
        ),
        (
            4,
            "09636f6e73756d65720000000300026c0000000000000007020261000263026800000001000000020301"
            "02010000",
        ),
    ],
)
def test_nested_messages_have_the_bytes_of_apache_kafka(version: int, encoded: str) -> None:
    assert GROUPS.encode(GROUP, version).hex() == encoded
    assert GROUPS.decode(bytes.fromhex(encoded), version) == GROUP


def test_a_version_the_schema_does_not_have_is_refused() -> None:
    for version in (-1, 5):
        with pytest.raises(UnknownVersion):
            OFFSETS.encode(COMMIT, version)
        with pytest.raises(UnknownVersion):
            OFFSETS.decode(b"", version)


def test_nothing_is_dropped_for_lack_of_a_field_in_the_version() -> None:
    for version, value in (
        (2, replace(COMMIT, leader_epoch=2)),
        (2, replace(COMMIT, expire_timestamp=1)),
        (3, replace(COMMIT, topic_id=UUID(int=1))),
    ):
        with pytest.raises(NotInVersion):
            OFFSETS.encode(value, version)


def test_a_value_its_type_cannot_hold_is_refused() -> None:
    for value in (
        replace(COMMIT, offset=1 << 63),
        replace(COMMIT, metadata=None),  # type: ignore[arg-type]  # what a careless caller does
        replace(COMMIT, metadata="x" * 32_768),
    ):
        with pytest.raises(MalformedMessage):
            OFFSETS.encode(value, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    name: str
    late: Int16 = field(default=7, metadata=wire(since=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    flag: bool
    small: Int8
    port: UInt16
    ratio: float
    text: str
    maybe_text: str | None
    data: bytes
    maybe_data: bytes | None
    identity: UUID
    numbers: tuple[Int32, ...]
    maybe_numbers: tuple[Int64, ...] | None = field(
        default=None, metadata=wire(since=1, nullable_since=2)
    )
    inner: Inner
    inners: tuple[Inner, ...] | None
    high_tag: str | None = field(default=None, metadata=wire(since=2, tag=300))
    low_tag: tuple[Inner, ...] = field(default=(), metadata=wire(since=2, tag=0))


EVERYTHING = Schema(Everything, versions=(0, 2), flexible_since=2)
TEXT = st.text(max_size=5)


@st.composite
def everything(draw: st.DrawFn, version: int) -> Everything:
    late = st.just(7) if version == 0 else st.integers(-5, 5)
    inner = st.builds(Inner, name=TEXT, late=late)
    inners = st.lists(inner, max_size=2).map(tuple)
    numbers = st.lists(st.integers(-9, 9), max_size=3).map(tuple)
    maybe = {0: st.none(), 1: numbers, 2: st.none() | numbers}[version]
    return draw(
        st.builds(
            Everything,
            flag=st.booleans(),
            small=st.integers(-128, 127),
            port=st.integers(0, 65_535),
            ratio=st.floats(allow_nan=False),
            text=TEXT,
            maybe_text=st.none() | TEXT,
            data=st.binary(max_size=5),
            maybe_data=st.none() | st.binary(max_size=5),
            identity=st.uuids(),
            numbers=numbers,
            maybe_numbers=maybe,
            inner=inner,
            inners=st.none() | inners,
            high_tag=st.just(None) if version < 2 else st.none() | TEXT,
            low_tag=st.just(()) if version < 2 else inners,
        )
    )


VERSIONED = st.integers(0, 2).flatmap(lambda v: st.tuples(everything(v), st.just(v)))


@settings(max_examples=examples(150), deadline=None)
@given(VERSIONED)
def test_every_type_survives_writing_and_reading(case: tuple[Everything, int]) -> None:
    value, version = case
    assert EVERYTHING.decode(EVERYTHING.encode(value, version), version) == value


@settings(max_examples=examples(100), deadline=None)
@given(VERSIONED, st.data())
def test_a_message_cut_anywhere_is_refused(
    case: tuple[Everything, int], data: st.DataObject
) -> None:
    encoded = EVERYTHING.encode(*case)
    length = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(MalformedMessage):
        EVERYTHING.decode(encoded[:length], case[1])


@settings(max_examples=examples(100), deadline=None)
@given(VERSIONED)
def test_bytes_behind_a_message_are_refused(case: tuple[Everything, int]) -> None:
    value, version = case
    with pytest.raises(MalformedMessage):
        EVERYTHING.decode(EVERYTHING.encode(value, version) + b"\0", version)


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=60), st.integers(0, 2))
def test_noise_is_a_message_or_refused(noise: bytes, version: int) -> None:
    try:
        value = EVERYTHING.decode(noise, version)
    except MalformedMessage:
        return
    assert isinstance(value, Everything)


def test_null_where_it_is_not_allowed_yet_is_refused() -> None:
    value = Everything(
        flag=True,
        small=0,
        port=0,
        ratio=0.0,
        text="",
        maybe_text=None,
        data=b"",
        maybe_data=None,
        identity=ZERO_UUID,
        numbers=(),
        inner=Inner(name=""),
        inners=None,
    )
    assert EVERYTHING.decode(EVERYTHING.encode(value, 2), 2) == value
    with pytest.raises(MalformedMessage):
        EVERYTHING.encode(value, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    one: Int8 = field(default=0, metadata=wire(tag=1))


TAGGED = Schema(Tagged, versions=(0, 0), flexible_since=0)


@pytest.mark.parametrize(
    "encoded",
    [
        "0201010501010106",  # the same tag twice
        "0202000101 05",  # tags that fall
        "0101020500",  # a tagged field shorter than its size says
        "010100",  # a tagged field longer than its size says
        "01",  # a tag announced but missing
        "ffffffffff01",  # a count of more than five bytes
        "ffffffff7f",  # a count of more than 32 bits
    ],
)
def test_malformed_tagged_fields_are_refused(encoded: str) -> None:
    with pytest.raises(MalformedMessage):
        TAGGED.decode(bytes.fromhex(encoded), 0)


def test_tagged_fields_nobody_knows_are_skipped() -> None:
    encoded = bytes.fromhex("03 000161 010105 070162")
    assert TAGGED.decode(encoded, 0) == Tagged(one=5)


def test_a_tagged_field_at_its_default_takes_no_room() -> None:
    assert TAGGED.encode(Tagged(), 0) == b"\0"


def test_a_length_beyond_the_buffer_allocates_nothing() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Numbers:
        numbers: tuple[Int64, ...]

    for flexible_since, encoded in ((0, "ffffffff0f"), (1, "7fffffff")):
        schema = Schema(Numbers, versions=(0, 0), flexible_since=flexible_since)
        with pytest.raises(MalformedMessage):
            schema.decode(bytes.fromhex(encoded), 0)


def test_an_annotation_without_encoding_is_refused_at_first_use() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Wrong:
        number: int

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Null:
        number: Int32 | None

    for message, value in ((Wrong, Wrong(number=1)), (Null, Null(number=1))):
        with pytest.raises(TypeError):
            Schema(message, versions=(0, 0), flexible_since=0).encode(value, 0)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 0xFFFFFFFF))
def test_variable_length_numbers_survive_writing_and_reading(value: int) -> None:
    out = bytearray()
    write_uvarint(out, value)
    assert read_uvarint(memoryview(out), 0) == (value, len(out))
