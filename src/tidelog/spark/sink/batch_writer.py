"""`df.write.format("tidelog")`: rows to topics, at least once."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from tidelog.spark.client_settings import producer_settings
from tidelog.spark.options import WriteOptions
from tidelog.spark.shipping import Shipped
from tidelog.spark.sink.row_writing import RowWriting
from tidelog.spark.sink.rows import rows_of


class RowsWritten(WriterCommitMessage):
    """What a task reports: how many rows it wrote."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class BatchWriter(Shipped, DataSourceArrowWriter):
    """Every task writes its rows and waits until they are acknowledged."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_at_least_once(self._options, iterator)


def write_at_least_once(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> RowsWritten:
    """A task that is run again writes its rows again."""
    writing = RowWriting(producer_settings(options), options.max_block_ms)
    writing.write(rows_of(batches, options.topic))
    writing.finish()
    return RowsWritten(writing.count)
