"""`spark.read.format("tidelog")`: everything between two positions, once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidelog.model.ids import TopicPartition
from tidelog.spark.errors import DataLoss
from tidelog.spark.options import ReadOptions
from tidelog.spark.shipping import Shipped
from tidelog.spark.source.offsets import Position, Positions
from tidelog.spark.source.planning import find_positions
from tidelog.spark.source.range_limits import EARLIEST, End
from tidelog.spark.source.range_reading import record_batches
from tidelog.spark.source.ranges import OffsetRange, ranges_between, split_ranges
from tidelog.spark.source.topic_offsets import TopicOffsets
from tidelog.spark.source.topics import Topics

logger = logging.getLogger(__name__)


class BatchReader(Shipped, DataSourceReader):
    """Plans ranges on the driver and reads them on executors."""

    def __init__(
        self,
        options: ReadOptions,
        schema: StructType,
        topics: Callable[[ReadOptions], TopicOffsets] = Topics,
    ) -> None:
        self._options, self._topics = options, topics
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        topics = self._topics(options)
        chosen = options.subscription.choose(topics.partition_counts())
        starts = find_positions(
            topics,
            options.start or End(EARLIEST),
            chosen,
            name="startingOffsets",
            latest_if_too_young=options.latest_if_no_record_is_that_young,
        )
        ends = find_positions(
            topics, options.end, chosen, name="endingOffsets", latest_if_too_young=True
        )
        starts, ends = self._within_log(topics, starts, ends)
        ranges = split_ranges(
            ranges_between(starts, ends),
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )
        # Spark would make up a partition of its own for a plan without any.
        return ranges or [OffsetRange(TopicPartition("", 0), 0, 0)]

    def _within_log(
        self, topics: TopicOffsets, starts: Positions, ends: Positions
    ) -> tuple[Positions, Positions]:
        """Offsets that name records which are gone, or not there yet, are lost records.

        So are those between a start and an end that lies before it: nothing would be read.
        """
        earliest, latest = topics.earliest(starts), topics.latest(starts)
        for each, start in starts.items():
            low, high = earliest[each].offset, latest[each].offset
            end = ends[each].offset
            if start.offset < min(low, end) or end > high or start.offset > end:
                backward = ": its start lies behind its end, choose an earlier start"
                self._lose(
                    f"{each} has offsets [{low}, {high}), the query asks for "
                    f"[{start.offset}, {end}){backward if start.offset > end else ''}"
                )
                starts = {**starts, each: Position(max(start.offset, low))}
                ends = {**ends, each: Position(min(end, high))}
        return starts, ends

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(f"Offsets out of range: {what}")
        logger.warning("%s; going on, as failOnDataLoss is false", what)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return record_batches(self._options, partition, self._schema)
