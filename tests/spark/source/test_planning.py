"""Ranges, admission and stored offsets: the arithmetic between a topic and its tasks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.ids import TopicPartition
from tidelog.spark.source.admission import admit, waiting
from tidelog.spark.source.offsets import Position, Positions, from_json, to_json
from tidelog.spark.source.ranges import OffsetRange, ranges_between, split_ranges

PARTITIONS = st.builds(
    TopicPartition, st.sampled_from(["orders", "prices"]), st.integers(min_value=0, max_value=5)
)
SPANS = st.dictionaries(
    PARTITIONS,
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)).map(sorted).map(tuple),
    max_size=8,
)


def positions(spans: dict[TopicPartition, tuple[int, int]], side: int) -> Positions:
    return {each: Position(span[side]) for each, span in spans.items()}


@given(SPANS, st.integers(1, 40), st.none() | st.integers(1, 10**5))
@settings(max_examples=examples(100), deadline=None)
def test_ranges_cover_every_offset_once(
    spans: dict[TopicPartition, tuple[int, int]], parts: int, most: int | None
) -> None:
    planned = split_ranges(
        ranges_between(positions(spans, 0), positions(spans, 1)),
        min_partitions=parts,
        max_records=None if most is None else max(most, 10**4),
    )
    for partition, (start, end) in spans.items():
        edges = [(each.start, each.end) for each in planned if each.partition == partition]
        assert all(low < high for low, high in edges)
        assert [high for _, high in edges[:-1]] == [low for low, _ in edges[1:]]
        assert (edges[0][0], edges[-1][1]) == (start, end) if edges else start == end


def test_one_large_partition_is_split_and_small_ones_are_left_alone() -> None:
    large, small = TopicPartition("orders", 0), TopicPartition("orders", 1)
    ranges = [OffsetRange(large, 0, 900), OffsetRange(small, 0, 100)]
    planned = split_ranges(ranges, min_partitions=10, max_records=None)
    assert [len(each) for each in planned] == [100] * 10


def test_only_the_first_part_of_a_range_knows_its_epoch() -> None:
    parts = OffsetRange(TopicPartition("orders", 0), 10, 30, epoch=4).split(2)
    assert [(each.start, each.epoch) for each in parts] == [(10, 4), (20, -1)]


@given(SPANS, st.integers(1, 10**6))
@settings(max_examples=examples(100), deadline=None)
def test_admission_keeps_to_the_limit_and_starves_nobody(
    spans: dict[TopicPartition, tuple[int, int]], limit: int
) -> None:
    starts, ends = positions(spans, 0), positions(spans, 1)
    admitted = admit(starts, ends, limit)
    assert waiting(starts, admitted) <= limit + len(spans)
    for each, (start, end) in spans.items():
        assert start <= admitted[each].offset <= end
        assert admitted[each].offset > start or start == end


def test_stored_offsets_carry_the_leader_epoch() -> None:
    stored = to_json({TopicPartition("orders", 0): Position(42, 3)})
    assert stored == {"orders": {"0": 42}, "@epochs": {"orders": {"0": 3}}}
    assert from_json(stored) == {TopicPartition("orders", 0): Position(42, 3)}


def test_offsets_of_the_connector_are_understood() -> None:
    assert from_json({"orders": {"0": 7}}) == {TopicPartition("orders", 0): Position(7, -1)}
