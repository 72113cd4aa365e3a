"""`spark.readStream.format("tidelog")`: a topic as it grows, one micro-batch after the other.

Invariant  Positions live in Spark's checkpoint, never here; what this object remembers (the target
           of AvailableNow, the time of the last batch, the last ends seen) is for the run only.
Invariant  Offsets never go back. A log that is shorter than what was read, or whose leader knows
           an earlier end of an epoch, has lost records, and that is said.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidelog.model.ids import TopicPartition
from tidelog.spark.admission import admit, waiting
from tidelog.spark.errors import DataLoss, SourceError
from tidelog.spark.offsets import Positions, from_json, to_json
from tidelog.spark.options import ReadOptions
from tidelog.spark.planning import find_positions
from tidelog.spark.positions import LATEST, End
from tidelog.spark.range_reading import record_batches
from tidelog.spark.ranges import OffsetRange, ranges_between, split_ranges
from tidelog.spark.shipping import Shipped
from tidelog.spark.topics import Topics

logger = logging.getLogger(__name__)


class StreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver and reads their ranges on executors."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._known_topics: Topics | None = None
        self._target: Positions | None = None
        self._latest: Positions = {}
        self._shown: Positions = {}
        self._last_batch_s = time.monotonic()

    @property
    def _topics(self) -> Topics:
        # Made on first use: this object is also made where nothing but `read` is called.
        if self._known_topics is None:
            self._known_topics = Topics(self._options)
        return self._known_topics

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known_topics": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return to_json(
            find_positions(
                self._topics,
                self._options.start or End(LATEST),
                self._partitions(),
                name="startingOffsets",
                latest_if_too_young=self._options.latest_if_no_record_is_that_young,
            )
        )

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if (most := self._options.max_offsets_per_trigger) is not None:
            return ReadMaxRows(most)
        if (least := self._options.min_offsets_per_trigger) is not None:
            return ReadMinRows(least)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._topics.latest(self._partitions())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        starts = from_json(start)
        self._show_progress(starts)
        ends = self._ends(starts)
        starts = {**self._topics.earliest(each for each in ends if each not in starts), **starts}
        if not isinstance(limit, ReadAllAvailable) and self._too_little(starts, ends):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = admit(starts, ends, limit.max_rows)
        if waiting(starts, ends) > 0:
            self._last_batch_s = time.monotonic()
        return to_json(ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return to_json(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        starts, ends = from_json(start), from_json(end)
        missing = [each for each in ends if each not in starts]
        earliest = self._topics.earliest(ends)
        for each in missing:
            if earliest[each].offset > 0:
                self._lose(f"{each} is new to the query and begins at {earliest[each].offset}")
        starts |= {each: earliest[each] for each in missing}
        for each, position in starts.items():
            if each in ends and position.offset < min(earliest[each].offset, ends[each].offset):
                self._lose(
                    f"{each} begins at {earliest[each].offset} now, the query stands at "
                    f"{position.offset}"
                )
        return split_ranges(
            ranges_between(starts, ends),
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return record_batches(self._options, partition, self._schema)

    def _partitions(self) -> list[TopicPartition]:
        return self._options.subscription.choose(self._topics.partition_counts())

    def _ends(self, starts: Positions) -> Positions:
        """Where every partition ends for this batch; a shorter log than before is a loss."""
        chosen = self._partitions()
        for each in sorted(set(starts) - set(chosen)):
            self._lose(f"{each} is no longer there, the query had read up to {starts[each].offset}")
        self._latest = self._topics.latest(chosen)
        ends = self._latest
        if self._target is not None:
            ends = {
                each: min(ends[each], self._target[each]) for each in chosen if each in self._target
            }
        for each, end in ends.items():
            if each in starts and end.offset < starts[each].offset:
                self._lose(
                    f"{each} ends at {end.offset} now, the query had read up to "
                    f"{starts[each].offset}"
                )
                ends = {**ends, each: starts[each]}
        return ends

    def _show_progress(self, done: Positions) -> None:
        """Everything below the start of the next batch is processed; say so to the group.

        Spark's own `commit` comes a batch late, and after the last batch never.
        """
        group = self._options.commit_group
        if group is None or done == self._shown:
            return
        try:
            self._topics.commit(group, done)
            self._shown = done
        except SourceError as error:
            logger.warning("progress is not shown in group %s: %s", group, error)

    def _too_little(self, starts: Positions, ends: Positions) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None or waiting(starts, ends) >= least:
            return False
        waited_ms = (time.monotonic() - self._last_batch_s) * 1000
        return waited_ms < self._options.max_trigger_delay_ms

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(what)
        logger.warning("%s; going on, as failOnDataLoss is false", what)
