from __future__ import annotations

import dataclasses
import json
import types
from base64 import b64encode
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.controller.records import (
    RECORD_VERSIONS,
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnappliableRecord,
    decode_record,
    encode_record,
)
from tidelog.model.ids import uuid_text
from tidelog.protocol.schema import NotInVersion

DATA = Path(__file__).parent / "data"
TOPIC_ID = UUID(int=7)


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def as_json(value: Any) -> Any:
    """A record the way Kafka's own JSON converters show it."""
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    if isinstance(value, UUID):
        return uuid_text(value)
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if dataclasses.is_dataclass(value):
        return {camel_case(f.name): as_json(getattr(value, f.name)) for f in fields_of(value)}
    return value


def fields_of(value: Any) -> list[dataclasses.Field[Any]]:
    return [f for f in dataclasses.fields(value) if not is_absent(value, f)]


def is_absent(value: Any, field: dataclasses.Field[Any]) -> bool:
    rules = field.metadata.get("wire")
    optional = rules is not None and (rules.tag is not None or rules.since > 0)
    return optional and bool(getattr(value, field.name) == field.default)


def without_defaults(data: dict[str, Any], record: Any) -> dict[str, Any]:
    """Drop what the fixture spells out although it is the default of a versioned field."""
    absent = {camel_case(f.name) for f in dataclasses.fields(record) if is_absent(record, f)}
    return {key: value for key, value in data.items() if key not in absent}


def test_every_record_of_apache_kafka_reads_and_writes_the_same_bytes() -> None:
    seen = set()
    lines = (DATA / "metadata_records.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines:
        golden = json.loads(line)
        encoded = bytes.fromhex(golden["hex"])
        record = decode_record(encoded)

        assert type(record).__name__ == golden["record"]
        assert as_json(record) == without_defaults(golden["data"], record)
        assert encode_record(record, golden["version"]) == encoded
        seen.add((type(record), golden["version"]))

    assert seen == {
        (record, version)
        for record, (oldest, newest) in RECORD_VERSIONS.items()
        for version in range(oldest, newest + 1)
    }


def strategy_for(annotation: Any) -> st.SearchStrategy[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        (inner,) = (part for part in get_args(annotation) if part is not types.NoneType)
        return st.none() | strategy_for(inner)
    if get_origin(annotation) is tuple:
        return st.lists(strategy_for(get_args(annotation)[0]), max_size=3).map(tuple)
    if get_origin(annotation) is Annotated:
        layout = get_args(annotation)[1]
        bits = 8 * layout.size
        if layout.format == ">H":
            return st.integers(0, 2**bits - 1)
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(max_size=8),
        bytes: st.binary(max_size=8),
        bool: st.booleans(),
        float: st.floats(allow_nan=False),
        UUID: st.uuids(),
    }
    return simple[annotation] if annotation in simple else instances(annotation, 1 << 15)


@st.composite
def instances(draw: st.DrawFn, message: Any, version: int) -> Any:
    """Any value of a record class that a version can carry."""
    hints = get_type_hints(message, include_extras=True)
    values = {}
    for field in dataclasses.fields(message):
        rules = field.metadata.get("wire")
        if rules is None or rules.since <= version:
            values[field.name] = draw(strategy_for(hints[field.name]))
    return message(**values)


@st.composite
def versioned_records(draw: st.DrawFn) -> tuple[Any, int]:
    record = draw(st.sampled_from(sorted(RECORD_VERSIONS, key=lambda kind: kind.__name__)))
    version = draw(st.integers(*RECORD_VERSIONS[record]))
    return draw(instances(record, version)), version


@settings(max_examples=examples(300), deadline=None)
@given(versioned_records())
def test_a_record_survives_writing_and_reading(case: tuple[Any, int]) -> None:
    record, version = case
    assert decode_record(encode_record(record, version)) == record


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_a_record_or_refused(noise: bytes) -> None:
    try:
        record = decode_record(noise)
    except UnappliableRecord:
        return
    assert type(record) in RECORD_VERSIONS


@settings(max_examples=examples(100), deadline=None)
@given(versioned_records(), st.data())
def test_no_record_reads_from_a_part_of_its_bytes(
    case: tuple[Any, int], data: st.DataObject
) -> None:
    encoded = encode_record(*case)
    length = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(UnappliableRecord):
        decode_record(encoded[:length])


def test_trailing_bytes_stop_the_node() -> None:
    with pytest.raises(UnappliableRecord, match="1 bytes too many"):
        decode_record(encode_record(NoOpRecord()) + b"\0")


def test_an_unknown_kind_version_or_frame_stops_the_node() -> None:
    no_op = bytearray(encode_record(NoOpRecord()))
    for position, value in ((0, 0), (0, 2), (1, 99), (1, 6), (2, 1)):
        other = bytearray(no_op)
        other[position] = value
        with pytest.raises(UnappliableRecord):
            decode_record(other)


def test_unknown_tagged_fields_are_skipped() -> None:
    encoded = encode_record(TopicRecord(name="orders", topic_id=TOPIC_ID))
    assert encoded.endswith(b"\0")
    with_tag = encoded[:-1] + bytes((1, 42, 3)) + b"new"
    assert decode_record(with_tag) == TopicRecord(name="orders", topic_id=TOPIC_ID)


def test_records_are_written_in_the_version_that_metadata_version_30_prescribes() -> None:
    broker = RegisterBrokerRecord(broker_id=1, incarnation_id=TOPIC_ID, broker_epoch=1)
    partition = PartitionRecord(partition_id=0, topic_id=TOPIC_ID)
    assert encode_record(broker)[2] == 4
    assert encode_record(partition)[2] == 2


def test_a_registration_change_takes_the_oldest_version_that_carries_it() -> None:
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1)
    cases = (
        (change, 0),
        (dataclasses.replace(change, in_controlled_shutdown=1), 1),
        (dataclasses.replace(change, log_dirs=(TOPIC_ID,)), 2),
        (dataclasses.replace(change, cordoned_log_dirs=()), 3),
    )
    for record, version in cases:
        assert encode_record(record)[2] == version


def test_an_old_version_refuses_what_it_cannot_say() -> None:
    record = PartitionRecord(partition_id=0, topic_id=TOPIC_ID, directories=(TOPIC_ID,))
    with pytest.raises(NotInVersion):
        encode_record(record, 0)
