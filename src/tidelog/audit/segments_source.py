"""The data source `tidelog-segments`: the batches in a cluster's log directories, as rows.

    spark.read.format("tidelog-segments")
        .option("dirs", "/data/node-100/data,/data/node-101/data")
        .option("topic", "orders")
        .load()

One task per segment, where small ones share a task; nothing is asked of a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.audit.replica_files import LogDirectories, SegmentFile
from tidelog.audit.segment_scan import ScannedBatch, scan_segment
from tidelog.spark import option_names
from tidelog.spark.errors import OptionError
from tidelog.spark.shipping import Shipped

_OPTIONS: Final = ("dirs", "topic")
_ROWS: Final = 10_000
_TASK_BYTES: Final = 8 << 20
_COLUMNS: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "broker": IntegerType(),
    "directory": StringType(),
    "file": StringType(),
    "position": LongType(),
    "size": LongType(),
    "baseOffset": LongType(),
    "lastOffset": LongType(),
    "leaderEpoch": IntegerType(),
    "state": StringType(),
    "hash": LongType(),
    "records": IntegerType(),
    "codec": StringType(),
    "producerId": LongType(),
    "transactional": BooleanType(),
    "control": BooleanType(),
    "maxTimestamp": TimestampType(),
}
SEGMENTS_SCHEMA: Final = StructType([StructField(*each) for each in _COLUMNS.items()])


class SegmentPartition(InputPartition):
    """One large segment, or several small ones: starting a task costs more than reading them."""

    def __init__(self, segments: tuple[SegmentFile, ...]) -> None:
        self.segments = segments


class SegmentsReader(Shipped, DataSourceReader):
    """Lists segments on the driver, scans them on executors that see the same files."""

    def __init__(self, directories: Sequence[str], topics: Sequence[str]) -> None:
        self._directories, self._topics = directories, topics

    def partitions(self) -> Sequence[InputPartition]:
        found = LogDirectories(self._directories).segments(self._topics)
        # The largest first: a long task that starts last would be waited for.
        return _tasks(sorted(found, key=lambda each: -each.size))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SegmentPartition):  # Spark's own, of a plan without any
            return
        schema = to_arrow_schema(SEGMENTS_SCHEMA, timezone="UTC")
        for segment in partition.segments:
            directory = segment.path.rpartition("/")[0]
            batches = scan_segment(segment.path)
            while rows := list(islice(batches, _ROWS)):
                yield _record_batch(rows, segment, directory, schema)


def _tasks(segments: Sequence[SegmentFile]) -> list[SegmentPartition]:
    tasks, together, size = [], list[SegmentFile](), 0
    for segment in segments:
        together.append(segment)
        size += segment.size
        if size >= _TASK_BYTES:
            tasks.append(SegmentPartition(tuple(together)))
            together, size = [], 0
    return [*tasks, SegmentPartition(tuple(together))] if together else tasks


class SegmentsSource(Shipped, DataSource):
    """Segments as a table; executors must see the directories."""

    @classmethod
    def name(cls) -> str:
        return "tidelog-segments"

    def schema(self) -> StructType:
        self._options()
        return SEGMENTS_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        given = self._options()
        topics = [each.strip() for each in given.get("topic", "").split(",") if each.strip()]
        return SegmentsReader([each.strip() for each in given["dirs"].split(",")], topics)

    def _options(self) -> Mapping[str, str]:
        given = option_names.checked(self.options, _OPTIONS)
        if not given.get("dirs"):
            raise OptionError("set dirs to the log directories of all brokers, with commas")
        return given


def _record_batch(
    rows: list[ScannedBatch], segment: SegmentFile, directory: str, schema: pa.Schema
) -> pa.RecordBatch:
    fixed = [segment.partition.topic, segment.partition.partition, segment.broker, directory]
    columns = [
        pa.repeat(pa.scalar(value, schema.field(index).type), len(rows))
        for index, value in enumerate(fixed)
    ]
    scanned = list(zip(*rows, strict=True))
    for index, values in enumerate(scanned[:-1], start=len(fixed)):
        columns.append(pa.array(values, schema.field(index).type))
    stamps = [None if moment < 0 else moment * 1000 for moment in scanned[-1]]
    columns.append(
        pa.array(stamps, pa.int64()).cast(schema.field(len(fixed) + len(scanned) - 1).type)
    )
    return pa.RecordBatch.from_arrays(columns, schema=schema)
