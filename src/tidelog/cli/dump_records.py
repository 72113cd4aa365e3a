"""Records of a log as rows: data as text or base64, control and metadata records decoded."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

from tidelog.cli.record_text import text_or_base64
from tidelog.controller.records import decode_record
from tidelog.model.errors import TidelogError
from tidelog.model.ids import uuid_text
from tidelog.protocol.message import Struct
from tidelog.quorum.control_records import read_control_record
from tidelog.records.batch import CorruptBatch
from tidelog.records.control_batch import ControlKind, control_kind, coordinator_epoch_of
from tidelog.records.record import Record

Row = dict[str, Any]


def data_row(record: Record) -> Row:
    """A record somebody produced."""
    return {
        "type": "record",
        "offset": record.offset,
        "timestamp": record.timestamp,
        **text_or_base64("key", record.key),
        **text_or_base64("value", record.value),
        "headers": [
            {"key": name, **text_or_base64("value", value)} for name, value in record.headers
        ]
        or None,
    }


def metadata_row(record: Record) -> Row:
    """A record of the metadata log or of a snapshot of it."""
    if record.value is None:
        raise CorruptBatch(f"the metadata record at offset {record.offset} has no value")
    try:
        decoded = decode_record(record.value)
    except TidelogError as error:
        raise CorruptBatch(f"metadata record at offset {record.offset}: {error}") from error
    return {
        "type": "metadata",
        "offset": record.offset,
        "timestamp": record.timestamp,
        "record": type(decoded).__name__,
        **plain_fields(decoded),
    }


def control_row(record: Record) -> Row:
    """A marker for brokers: the end of a transaction, or a fact about the metadata quorum."""
    kind = control_kind(record.key)
    row: Row = {
        "type": "control",
        "offset": record.offset,
        "timestamp": record.timestamp,
        "record": "unknown" if kind is None else kind.name.lower(),
    }
    try:
        if kind in (ControlKind.ABORT, ControlKind.COMMIT):
            row["coordinator_epoch"] = coordinator_epoch_of(record.value)
        elif kind is not None:
            row |= plain_fields(read_control_record(record))
    except TidelogError as error:
        raise CorruptBatch(f"control record at offset {record.offset}: {error}") from error
    return row


def plain_fields(value: Any) -> Row:
    """The fields of a decoded record as JSON can carry them."""
    each_field = value.FIELDS if isinstance(value, Struct) else fields(value)
    return {each.name: plain(getattr(value, each.name)) for each in each_field}


def plain(value: Any) -> Any:
    if isinstance(value, Struct) or is_dataclass(value):
        return plain_fields(value)
    if isinstance(value, UUID):
        return uuid_text(value)
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    return value
