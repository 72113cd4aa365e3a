"""The limits of a range of offsets, as options say them, before any broker was asked.

With the cluster's help each becomes a `Position` per partition (`planning.py`).

earliest, latest           the ends of each partition
{"orders": {"0": 42}}      an offset per partition; -2 is earliest, -1 is latest
-100                       so many records before the end of each partition
-10 minutes                the first record that is not older than that
a timestamp                in milliseconds, for all partitions or for each one
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.model.ids import TopicPartition
from tidelog.spark.errors import OptionError

EARLIEST: Final = -2
LATEST: Final = -1

_UNITS_MS: Final = {
    "millisecond": 1,
    "ms": 1,
    "second": 1_000,
    "s": 1_000,
    "minute": 60_000,
    "min": 60_000,
    "m": 60_000,
    "hour": 3_600_000,
    "h": 3_600_000,
    "day": 86_400_000,
    "d": 86_400_000,
    "week": 604_800_000,
    "w": 604_800_000,
}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?")
_SHORT_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")


class End(NamedTuple):
    """The same end of every partition: `EARLIEST` or `LATEST`."""

    offset: int


class Offsets(NamedTuple):
    """An offset for every partition."""

    by_partition: Mapping[TopicPartition, int]


class Before(NamedTuple):
    """So many records before the end of every partition."""

    records: int


class Ago(NamedTuple):
    """So long before the moment of planning."""

    duration_ms: int


class At(NamedTuple):
    """A moment: of every partition, or of each its own."""

    timestamp_ms: int | None
    by_partition: Mapping[TopicPartition, int]


OffsetRangeLimit = End | Offsets | Before | Ago | At


def parse_start(name: str, text: str) -> OffsetRangeLimit:
    """`startingOffsets`, with the relative forms."""
    stripped = text.strip()
    if re.fullmatch(r"-\d+", stripped):
        return Before(-int(stripped))
    if stripped.startswith("-"):
        return Ago(duration_ms(name, stripped[1:]))
    return parse_end(name, stripped)


def parse_end(name: str, text: str) -> OffsetRangeLimit:
    """`endingOffsets`."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return End(EARLIEST if word == "earliest" else LATEST)
    offsets = _per_partition(name, text, 'earliest, latest or {"topic": {"0": 42}}')
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise OptionError(
                f"{name}: {offset} for {partition} is not an offset; "
                "-2 means earliest and -1 means latest"
            )
    return Offsets(offsets)


def parse_timestamp(name: str, text: str) -> At:
    """`startingTimestamp` and `endingTimestamp`: one moment for all."""
    if not text.strip().isdigit():
        raise OptionError(f"{name}: {text!r} is not a time in milliseconds since 1970")
    return At(int(text), {})


def parse_timestamps(name: str, text: str) -> At:
    """`startingOffsetsByTimestamp` and its counterpart: a moment per partition."""
    return At(None, _per_partition(name, text, '{"topic": {"0": 1700000000000}}'))


def duration_ms(name: str, text: str) -> int:
    """`10 minutes`, `1h`, `30s` in milliseconds."""
    word = text.strip().lower()
    found = _SHORT_DURATION.fullmatch(word) or _DURATION.fullmatch(word)
    if found is None or found[2] not in _UNITS_MS:
        raise OptionError(f"{name}: {text!r} is not a duration such as 10 minutes, 1h or 30s")
    return int(float(found[1]) * _UNITS_MS[found[2]])


def _per_partition(name: str, text: str, example: str) -> dict[TopicPartition, int]:
    wrong = OptionError(f"{name}: {text!r} is not {example}")
    try:
        parsed = json.loads(text)
    except ValueError:
        raise wrong from None
    if not isinstance(parsed, dict) or not parsed:
        raise wrong
    found = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            raise wrong
        for index, number in partitions.items():
            if not str(index).isdigit() or not isinstance(number, int):
                raise wrong
            found[TopicPartition(topic, int(index))] = number
    return found
