"""`spark.readStream.format("tidelog")`: a topic as it grows, one micro-batch after the other.

Invariant  Positions live in Spark's checkpoint, never here; what this object remembers (the target
           of AvailableNow, the time of the last batch, the last ends seen) is for the run only.
Invariant  A batch that is repeated after a crash reads what was planned: its end carries its
           starts, and they win over whatever `initialOffset` finds by then.
Invariant  Nothing behind an end that the options give is read; the query then waits, or ends with
           AvailableNow.
Invariant  Offsets never go back. A log that is shorter than what was read, or whose leader knows
           an earlier end of an epoch, has lost records, and that is said.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

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
from tidelog.spark.errors import DataLoss, OptionError, OtherPartitions, SourceError
from tidelog.spark.options import ReadOptions
from tidelog.spark.shipping import Shipped
from tidelog.spark.source.admission import admit, waiting
from tidelog.spark.source.offsets import Position, Positions, from_json, starts_in, to_json
from tidelog.spark.source.planning import find_positions
from tidelog.spark.source.range_limits import LATEST, End
from tidelog.spark.source.range_reading import record_batches
from tidelog.spark.source.ranges import OffsetRange, ranges_between, split_ranges
from tidelog.spark.source.topics import Topics

_REFUSED: Final = "@refused"
_REFUSALS: Final = {each.__name__: each for each in (OptionError, OtherPartitions)}

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
        """Where a new query starts, or why it cannot.

        Spark asks again before it repeats the first batch, and what is refused by then (a partition
        that was added, a time that no record has) must not keep the query from what it planned. So
        a refusal is handed on, and said as soon as the start is needed.
        """
        try:
            starts = find_positions(
                self._topics,
                self._options.start or End(LATEST),
                self._partitions(),
                name="startingOffsets",
                latest_if_too_young=self._options.latest_if_no_record_is_that_young,
            )
        except OptionError as refusal:
            return {_REFUSED: [type(refusal).__name__, str(refusal)]}
        return to_json(starts, starts)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if (most := self._options.max_offsets_per_trigger) is not None:
            return ReadMaxRows(most)
        if (least := self._options.min_offsets_per_trigger) is not None:
            return ReadMinRows(least)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._topics.latest(self._partitions())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        before = _positions(start)
        self._show_progress(before)
        ends = self._ends(before)
        starts = {**self._new(each for each in ends if each not in before), **before}
        if not isinstance(limit, ReadAllAvailable) and self._too_little(starts, ends):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = admit(starts, ends, limit.max_rows)
        if ends == before:
            # Spark makes a batch wherever the text of an offset is another one.
            return start
        if waiting(starts, ends) > 0:
            self._last_batch_s = time.monotonic()
        return to_json(ends, starts)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return to_json(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        ends, planned = from_json(end), starts_in(end)
        starts = planned or _positions(start)
        starts |= self._new(each for each in ends if each not in starts)
        earliest = self._topics.earliest(
            each for each, position in ends.items() if starts[each].offset < position.offset
        )
        for each, position in sorted(ends.items()):
            first = starts[each].offset
            if first > position.offset:
                self._lose(
                    f"{each}: this batch ends at {position.offset} and would start at {first}; "
                    "where it was to start when it was planned is not known"
                )
            elif each in earliest and first < min(earliest[each].offset, position.offset):
                self._lose(
                    f"{each} begins at {earliest[each].offset} now, the query stands at {first}"
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

    def _new(self, partitions: Iterable[TopicPartition]) -> Positions:
        """Partitions the query has not read yet start at their first record."""
        found = self._topics.earliest(partitions)
        for each, position in sorted(found.items()):
            if position.offset > 0:
                self._lose(f"{each} is new to the query and begins at {position.offset}")
        return found

    def _ends(self, starts: Positions) -> Positions:
        """Where every partition ends for this batch; a shorter log than before is a loss.

        What is not to be seen at the moment keeps its position: forgotten, it would be read again
        from its beginning as soon as it is back.
        """
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
        return {**starts, **self._bounded(starts, ends)}

    def _bounded(self, starts: Positions, ends: Positions) -> Positions:
        """The ends, but none behind the one that the options give."""
        if self._options.end == End(LATEST):
            return ends
        last = find_positions(
            self._topics, self._options.end, ends, name="endingOffsets", latest_if_too_young=True
        )
        return {
            each: max(min(end, last[each]), starts.get(each, Position(0)))
            for each, end in ends.items()
        }

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


def _positions(start: dict[str, Any]) -> Positions:
    """Where a batch starts; a start that was refused is said here."""
    if _REFUSED in start:
        kind, why = start[_REFUSED]
        raise _REFUSALS[kind](why)
    return from_json(start)
