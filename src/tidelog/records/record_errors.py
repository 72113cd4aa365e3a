"""Which records of a batch break the topic's rules, told one by one.

Read only after the walk over the batch has found that some record must.

Invariant  At most `MOST_ERRORS` records are named; the answer stays small whatever was sent.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.records.batch import NO_TIMESTAMP, BatchHeader
from tidelog.records.fields import read_fields

MOST_ERRORS: Final = 1000
LEAST_TIMESTAMP: Final = -(1 << 63)
GREATEST_TIMESTAMP: Final = (1 << 63) - 1


class TimestampWindow(NamedTuple):
    """The times a record may carry, both ends included."""

    earliest_ms: int
    latest_ms: int

    @classmethod
    def around(cls, wall_ms: int, before_max_ms: int, after_max_ms: int) -> TimestampWindow:
        """The window around the broker's time; never wider than 64-bit timestamps are."""
        return cls(
            max(LEAST_TIMESTAMP, wall_ms - before_max_ms),
            min(GREATEST_TIMESTAMP, wall_ms + after_max_ms),
        )


class BlamedRecords(NamedTuple):
    """The code for the whole batch and, per bad record, its index and what is wrong with it."""

    code: ErrorCode
    why: str
    errors: tuple[tuple[int, str], ...]


def record_errors(
    data: bytes, header: BatchHeader, window: TimestampWindow | None, *, keys_needed: bool
) -> BlamedRecords:
    """Go through records that were walked before. Without a window any timestamp will do.

    A record that says it has no timestamp needs none. If both rules are broken, the code is that
    of the timestamp, as in Kafka.
    """
    errors: list[tuple[int, str]] = []
    code = ErrorCode.invalid_record
    position = 0
    for index in range(header.record_count):
        fields = read_fields(data, position)
        position = fields.end
        timestamp = header.base_timestamp + fields.timestamp_delta
        if keys_needed and fields.key_length < 0:
            errors.append((index, "a compacted topic needs a key in every record"))
        elif (
            window is not None
            and timestamp != NO_TIMESTAMP
            and not window.earliest_ms <= timestamp <= window.latest_ms
        ):
            code = ErrorCode.invalid_timestamp
            errors.append(
                (
                    index,
                    f"timestamp {timestamp} lies outside "
                    f"[{window.earliest_ms}, {window.latest_ms}]",
                )
            )
        if len(errors) == MOST_ERRORS:
            break
    return BlamedRecords(code, _summary(code, errors), tuple(errors))


def _summary(code: ErrorCode, errors: list[tuple[int, str]]) -> str:
    if not errors:
        return "no record is to blame"
    index, message = errors[0]
    rule = "timestamp" if code is ErrorCode.invalid_timestamp else "key"
    return f"{len(errors)} records refused for their {rule}, the first at index {index}: {message}"
