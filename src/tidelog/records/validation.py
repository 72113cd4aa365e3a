"""What a leader checks and rewrites in a batch that a client sent, before it may be appended.

The order of checks is Kafka's: shape of the field, codec, offset, size, checksum, header counts,
then every record. Offsets and leader epoch are assigned later, by the log.

Invariant  An accepted batch is writable, its checksum matches, its records have the offset deltas
           0 to n - 1 and fill it, and its greatest timestamp is that of its records, or the
           broker's time if the topic says so.
Invariant  No input raises anything: it is accepted, or refused with the code the client gets.
Invariant  Compressed records get at most `inflate_limit` bytes of room. A batch that needs more is
           answered MESSAGE_TOO_LARGE, which makes Java producers split it and try again.
Invariant  At most `MOST_ERRORS` bad records are named; the answer stays small whatever was sent.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER_SIZE,
    LENGTH_AT,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    PREFIX_SIZE,
    BatchHeader,
    CorruptBatch,
    crc_matches,
    read_header,
    restamp,
    write_header,
)
from tidelog.records.compression import (
    CompressionType,
    InflatesTooLarge,
    codec_of,
    compress,
    decompress,
)
from tidelog.records.fields import read_fields
from tidelog.records.record import INFLATE_LIMIT
from tidelog.records.walk import Walked, walk

ZSTD_SINCE_PRODUCE_VERSION: Final = 7
NO_BATCH: Final = Refusal(ErrorCode.invalid_record, "there is no batch")
MOST_ERRORS: Final = 1000
LEAST_TIMESTAMP: Final = -(1 << 63)
GREATEST_TIMESTAMP: Final = (1 << 63) - 1
_INFLATE_FACTOR: Final = 16
_INFLATE_AT_LEAST: Final = 16 * 1024 * 1024


class BatchRules(NamedTuple):
    """What the topic asks of a batch. `codec` None keeps the producer's."""

    max_message_bytes: int = 1_048_588
    compacted: bool = False
    log_append_time: bool = False
    before_max_ms: int = (1 << 63) - 1
    after_max_ms: int = 3_600_000
    codec: CompressionType | None = None
    level: int | None = None
    segment_bytes: int = 1 << 30

    @property
    def largest_batch(self) -> int:
        """Bytes of a batch that both the topic and its segments take."""
        return min(self.max_message_bytes, self.segment_bytes)


class AcceptedBatch(NamedTuple):
    """A batch ready to be given its offsets; `data` is the sent buffer unless it had to change."""

    header: BatchHeader
    data: memoryview


class RejectedBatch(NamedTuple):
    """Why nothing of a batch is appended, and which of its records are to blame."""

    refusal: Refusal
    record_errors: tuple[tuple[int, str], ...] = ()


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


def inflate_limit(max_message_bytes: int) -> int:
    """How much room the records of one produced batch may take when inflated.

    Sixteen times what a message may be, within 16 and 256 MiB, but never less than a message. That
    is beyond what producers put into a batch, and a bomb costs bounded time and memory even where
    the topic allows very large messages.
    """
    room = max(_INFLATE_AT_LEAST, _INFLATE_FACTOR * max_message_bytes)
    return max(max_message_bytes, min(INFLATE_LIMIT, room))


def validate_produced(
    records: memoryview | None, rules: BatchRules, wall_ms: int, produce_version: int
) -> AcceptedBatch | RejectedBatch:
    """Judge the records field of one partition in a produce request."""
    if records is None:
        return RejectedBatch(NO_BATCH)
    refusal = misshapen(records, produce_version)
    if refusal is not None:
        return RejectedBatch(refusal)
    header = read_header(records)
    refusal = _unfit(header, records, rules) or _inconsistent(header)
    if refusal is not None:
        return RejectedBatch(refusal)
    try:
        codec = codec_of(header.attributes)
        data = decompress(codec, records[HEADER_SIZE:], inflate_limit(rules.max_message_bytes))
        walked = walk(data, header.record_count)
    except InflatesTooLarge as problem:
        return _rejected(ErrorCode.message_too_large, str(problem))
    except CorruptBatch as problem:
        return _rejected(ErrorCode.invalid_record, str(problem))
    if (walked.has_keyless and rules.compacted) or not _timely(header, walked, rules, wall_ms):
        window = None
        if not rules.log_append_time:
            window = TimestampWindow.around(wall_ms, rules.before_max_ms, rules.after_max_ms)
        blamed = record_errors(data, header, window, keys_needed=rules.compacted)
        if blamed.errors:
            return RejectedBatch(Refusal(blamed.code, blamed.why), blamed.errors)
    return _rewritten(records, header, data, walked, rules, wall_ms)


def _rejected(code: ErrorCode, why: str) -> RejectedBatch:
    return RejectedBatch(Refusal(code, why))


def misshapen(records: memoryview, produce_version: int) -> Refusal | None:
    """Whether the field is anything but one batch of format version 2 in a codec of its time."""
    size = len(records)
    if size < PREFIX_SIZE:
        return NO_BATCH
    if size > MAGIC_AT and records[MAGIC_AT] != MAGIC:
        return Refusal(ErrorCode.invalid_record, f"batch format {records[MAGIC_AT]}, not {MAGIC}")
    length = int.from_bytes(records[LENGTH_AT:PREFIX_SIZE], "big", signed=True)
    if length < HEADER_SIZE - PREFIX_SIZE or PREFIX_SIZE + length > size:
        return Refusal(ErrorCode.corrupt_message, f"batch length {length} in {size} bytes")
    codec = records[ATTRIBUTES_AT] & CODEC_MASK
    if codec == CompressionType.ZSTD and produce_version < ZSTD_SINCE_PRODUCE_VERSION:
        return Refusal(
            ErrorCode.unsupported_compression_type,
            f"zstd needs produce version {ZSTD_SINCE_PRODUCE_VERSION}, not {produce_version}",
        )
    if PREFIX_SIZE + length < size:
        return Refusal(ErrorCode.invalid_record, "more than one batch")
    return None


def _unfit(header: BatchHeader, records: memoryview, rules: BatchRules) -> Refusal | None:
    """Codec, base offset, size and checksum."""
    codec = header.attributes & CODEC_MASK
    if codec > CompressionType.ZSTD:
        return Refusal(
            ErrorCode.unsupported_compression_type, f"there is no compression codec {codec}"
        )
    if header.base_offset != 0:
        return Refusal(
            ErrorCode.invalid_record, f"base offset {header.base_offset} set by the client"
        )
    refusal = _too_large(len(records), rules)
    if refusal is None and not crc_matches(records):
        return Refusal(ErrorCode.corrupt_message, "the checksum does not match")
    return refusal


def _too_large(size: int, rules: BatchRules) -> Refusal | None:
    if size > rules.max_message_bytes:
        return Refusal(
            ErrorCode.message_too_large,
            f"a batch of {size} bytes, more than max.message.bytes {rules.max_message_bytes}",
        )
    if size > rules.segment_bytes:
        return Refusal(
            ErrorCode.record_list_too_large,
            f"a batch of {size} bytes, more than segment.bytes {rules.segment_bytes}",
        )
    return None


def _inconsistent(header: BatchHeader) -> Refusal | None:
    """What the header alone shows to be wrong."""
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        return Refusal(
            ErrorCode.invalid_record,
            f"{header.record_count} records with last offset delta {header.last_offset_delta}",
        )
    if header.is_control:
        return Refusal(ErrorCode.invalid_record, "clients do not write control batches")
    if header.has_producer_id and header.base_sequence < 0:
        return Refusal(
            ErrorCode.invalid_record,
            f"producer {header.producer_id} with sequence {header.base_sequence}",
        )
    if header.is_log_append_time:
        return Refusal(
            ErrorCode.invalid_timestamp, "clients do not set the timestamp type LogAppendTime"
        )
    return None


def _timely(header: BatchHeader, walked: Walked, rules: BatchRules, wall_ms: int) -> bool:
    """Whether all records surely lie in the topic's window; if not, some of them may."""
    if rules.log_append_time:
        return True
    least = header.base_timestamp + walked.least_timestamp_delta
    greatest = header.base_timestamp + walked.greatest_timestamp_delta
    return (
        wall_ms - least <= rules.before_max_ms
        and greatest - wall_ms <= rules.after_max_ms
        and greatest <= GREATEST_TIMESTAMP
    )


def _rewritten(
    records: memoryview,
    header: BatchHeader,
    data: bytes,
    walked: Walked,
    rules: BatchRules,
    wall_ms: int,
) -> AcceptedBatch | RejectedBatch:
    attributes = header.attributes
    if rules.log_append_time:
        attributes |= LOG_APPEND_TIME
        max_timestamp = wall_ms
    else:
        max_timestamp = max(NO_TIMESTAMP, header.base_timestamp + walked.greatest_timestamp_delta)
    if rules.codec is not None and rules.codec != attributes & CODEC_MASK:
        attributes = (attributes & ~CODEC_MASK) | rules.codec
        header = header._replace(attributes=attributes, max_timestamp=max_timestamp)
        return _recompressed(header, data, rules.codec, rules)
    if records.readonly:
        records = memoryview(bytearray(records))
    if max_timestamp != header.max_timestamp or attributes != header.attributes:
        header = restamp(records, header, attributes, max_timestamp)
    return AcceptedBatch(header, records)


def _recompressed(
    header: BatchHeader, data: bytes, codec: CompressionType, rules: BatchRules
) -> AcceptedBatch | RejectedBatch:
    batch = bytearray(HEADER_SIZE)
    batch += compress(codec, data, rules.level)
    refusal = _too_large(len(batch), rules)
    if refusal is not None:
        return RejectedBatch(refusal)
    header = write_header(batch, header)
    return AcceptedBatch(header, memoryview(batch))


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
