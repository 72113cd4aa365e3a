from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.samples import random_messages
from tests.tiers import examples

from tidelog.controller.records import (
    RECORD_CLASSES,
    UnappliableRecord,
    decode_record,
    encode_record,
)
from tidelog.model.ids import uuid_text
from tidelog.protocol.message import Field, Struct, replace
from tidelog.protocol.stored.metadata import (
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tidelog.protocol.struct_writer import Unwritable

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
    if isinstance(value, Struct):
        return {
            camel_case(field.name): as_json(getattr(value, field.name))
            for field in value.FIELDS
            if not is_absent(value, field)
        }
    return value


def is_absent(value: Struct, field: Field) -> bool:
    optional = field.tag is not None or field.since > 0
    return optional and bool(getattr(value, field.name) == getattr(type(value)(), field.name))


def without_defaults(data: dict[str, Any], record: Struct) -> dict[str, Any]:
    """Drop what the fixture spells out although it is the default of a versioned field."""
    absent = {camel_case(field.name) for field in record.FIELDS if is_absent(record, field)}
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
        for record in RECORD_CLASSES
        for version in range(record.VERSIONS[0], record.VERSIONS[1] + 1)
    }


@st.composite
def versioned_records(draw: st.DrawFn) -> tuple[Any, int]:
    record = draw(st.sampled_from(RECORD_CLASSES))
    version = draw(st.integers(*record.VERSIONS))
    return draw(random_messages(record, version)), version


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
    assert type(record) in RECORD_CLASSES


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
        (replace(change, in_controlled_shutdown=1), 1),
        (replace(change, log_dirs=(TOPIC_ID,)), 2),
        (replace(change, cordoned_log_dirs=()), 3),
    )
    for record, version in cases:
        assert encode_record(record)[2] == version


def test_an_old_version_refuses_what_it_cannot_say() -> None:
    record = PartitionRecord(partition_id=0, topic_id=TOPIC_ID, directories=(TOPIC_ID,))
    with pytest.raises(Unwritable, match="directories"):
        encode_record(record, 0)
