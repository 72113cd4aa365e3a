"""From limits in options to positions in partitions, with the cluster's help."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from tidelog.model.ids import TopicPartition
from tidelog.spark.errors import OptionError, OtherPartitions
from tidelog.spark.source import range_limits
from tidelog.spark.source.offsets import Position, Positions
from tidelog.spark.source.range_limits import Ago, At, Before, End, OffsetRangeLimit, Offsets
from tidelog.spark.source.topic_offsets import TopicOffsets
from tidelog.spark.source.topics import NO_RECORD


def find_positions(
    topics: TopicOffsets,
    wanted: OffsetRangeLimit,
    partitions: Iterable[TopicPartition],
    *,
    name: str,
    latest_if_too_young: bool,
) -> Positions:
    """The position of every partition; `name` is the option that a refusal talks about."""
    chosen = list(partitions)
    match wanted:
        case End(offset=range_limits.EARLIEST):
            return topics.earliest(chosen)
        case End():
            return topics.latest(chosen)
        case Before(records=records):
            return _before_end(topics, chosen, records)
        case Ago(duration_ms=duration):
            moment = int(time.time() * 1000) - duration
            return _at(topics, dict.fromkeys(chosen, moment), name, latest_if_too_young=True)
        case At(timestamp_ms=None, by_partition=moments):
            _require_all(name, chosen, moments)
            return _at(topics, {each: moments[each] for each in chosen}, name, latest_if_too_young)
        case At(timestamp_ms=moment):
            return _at(topics, dict.fromkeys(chosen, int(moment)), name, latest_if_too_young)
        case Offsets(by_partition=offsets):
            _require_all(name, chosen, offsets)
            return _exact(topics, {each: offsets[each] for each in chosen})


def _before_end(topics: TopicOffsets, partitions: list[TopicPartition], records: int) -> Positions:
    earliest, latest = topics.earliest(partitions), topics.latest(partitions)
    return {
        each: Position(max(earliest[each].offset, latest[each].offset - records))
        for each in partitions
    }


def _at(
    topics: TopicOffsets, moments: dict[TopicPartition, int], name: str, latest_if_too_young: bool
) -> Positions:
    found = topics.at(moments)
    missing = [each for each, position in found.items() if position.offset == NO_RECORD]
    if missing and not latest_if_too_young:
        listed = ", ".join(map(str, sorted(missing)))
        raise OptionError(
            f"{name}: {listed} has no record at or after that time. Choose an earlier time, or "
            "set startingOffsetsByTimestampStrategy to latest"
        )
    return {**found, **topics.latest(missing)}


def _exact(topics: TopicOffsets, offsets: dict[TopicPartition, int]) -> Positions:
    earliest = topics.earliest(each for each, at in offsets.items() if at == range_limits.EARLIEST)
    latest = topics.latest(each for each, at in offsets.items() if at == range_limits.LATEST)
    exact = {each: Position(at) for each, at in offsets.items() if at >= 0}
    return {**exact, **earliest, **latest}


def _require_all(
    name: str, partitions: list[TopicPartition], given: Mapping[TopicPartition, int]
) -> None:
    named = set(given)
    missing, unknown = set(partitions) - named, named - set(partitions)
    if missing:
        listed = ", ".join(map(str, sorted(missing)))
        raise OtherPartitions(
            f"{name} does not mention {listed}; name every partition that is read"
        )
    if unknown:
        listed = ", ".join(map(str, sorted(unknown)))
        raise OtherPartitions(f"{name} mentions {listed}, which this query does not read")
