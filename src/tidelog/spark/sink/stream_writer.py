"""`df.writeStream.format("tidelog")`: micro-batches to topics, exactly once or at least once.

Invariant  Making a writer does nothing: Spark makes one before each micro-batch and another one in
           every process that commits. What one must tell the other travels in commit messages.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from tidelog.client.blocking import Client
from tidelog.client.security import ClientSecurity
from tidelog.spark.errors import SinkError
from tidelog.spark.options import WriteOptions
from tidelog.spark.shipping import Shipped
from tidelog.spark.sink.batch_decision import BatchDecision
from tidelog.spark.sink.batch_writer import write_at_least_once
from tidelog.spark.sink.rows import rows_of
from tidelog.spark.sink.task_transaction import TaskIdentity, TaskTransaction, Written

_CLIENT_ID = "tidelog-spark"


class TransactionPrepared(WriterCommitMessage):
    """What a task of an exactly-once batch reports."""

    def __init__(self, written: Written) -> None:
        self.written = written


class AtLeastOnceWriter(Shipped, DataSourceStreamArrowWriter):
    """A micro-batch that is run again is written again."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_at_least_once(self._options, iterator)


class ExactlyOnceWriter(Shipped, DataSourceStreamArrowWriter):
    """Tasks prepare transactions, the driver decides and ends them."""

    transaction_type = TaskTransaction
    decision_type = BatchDecision

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        rows = rows_of(iterator, self._options.topic)
        with self._client() as client:
            transaction = self.transaction_type(self._options, task_identity(), client)
            return TransactionPrepared(transaction.run(rows))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if written := _written(messages):
            with self._client() as client:
                self.decision_type.asking(client, self._options, batchId, written).commit()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if written := _written(messages):
            with self._client() as client:
                self.decision_type.asking(client, self._options, batchId, written).abort()

    def _client(self) -> Client:
        return Client(
            self._options.bootstrap,
            client_id=_CLIENT_ID,
            timeout_s=60.0,
            security=ClientSecurity.of_librdkafka(self._options.client),
        )


def task_identity() -> TaskIdentity:
    """Which part of which micro-batch runs here; Spark tells it in local properties."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    run = None if context is None else context.getLocalProperty("spark.jobGroup.id")
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if context is None or query is None or run is None or batch is None:
        raise SinkError(
            "Spark does not say which query and micro-batch this task belongs to; "
            "set delivery to at-least-once"
        )
    return TaskIdentity(query, run, int(batch), context.partitionId(), context.taskAttemptId())


def _written(messages: list[WriterCommitMessage | None]) -> list[Written]:
    return [each.written for each in messages if isinstance(each, TransactionPrepared)]
