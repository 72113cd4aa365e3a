"""One task of an exactly-once batch: its rows in a transaction that it leaves open.

    claim    hold the ledger for this run
    take     a transactional id that nobody else can touch
    open     librdkafka becomes its producer
    write    rows, acknowledged by all in-sync replicas
    prepare  with two-phase commit: from here on no timeout can abort it

The driver decides later and ends the transaction by its producer id and epoch.

Invariant  The identity that is reported belongs to the rows that were written: it is read between
           `open` and the first row, and a producer that was fenced meanwhile cannot write a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from confluent_kafka import KafkaException

from tidelog.client.blocking import Client
from tidelog.client.coordinators import KeyType, coordinator
from tidelog.client.errors import RequestRefused
from tidelog.client.transactions import ProducerIdentity, Transactions
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.spark.client_settings import producer_settings
from tidelog.spark.errors import OptionError, SinkError
from tidelog.spark.options import WriteOptions
from tidelog.spark.sink.ledger import Ledger
from tidelog.spark.sink.ledger_records import Prepared
from tidelog.spark.sink.row_writing import RowWriting
from tidelog.spark.sink.rows import Rows

_NOBODY: Final = ProducerIdentity(-1, -1)
_OPEN_S: Final = 60.0
_CLOSE_S: Final = 10.0
_TIMEOUT_MS: Final = 900_000
_KEEPS_PREPARED_SINCE: Final = 6


class TaskIdentity(NamedTuple):
    """Which attempt at which part of which batch this is."""

    sink: str
    """The query, whose identity outlives restarts."""
    run: str
    batch: int
    partition: int
    attempt: int
    """Unique among all attempts of the run."""


class Written(NamedTuple):
    """What a task reports; `prepared` is None when the batch was decided before."""

    task: TaskIdentity
    prepared: Prepared | None
    rows: int


class TaskTransaction:
    """The steps, one method each, in the order of `run`."""

    def __init__(self, options: WriteOptions, task: TaskIdentity, client: Client) -> None:
        self._options, self._task, self._client = options, task, client
        self._transactions = Transactions(client)

    def run(self, rows: Iterator[Rows]) -> Written:
        """Write the rows and leave them prepared; a decided batch is left alone."""
        task = self._task
        ledger = self.claim()
        if ledger.state.batch >= task.batch:
            return Written(task, None, 0)
        transactional_id = self.take(ledger)
        first = next(rows, None)
        if first is None:
            return Written(task, Prepared(task.partition, transactional_id, *_NOBODY), 0)
        writing = self.open(transactional_id)
        try:
            identity = self._transactions.describe(transactional_id).producer
            self.write(writing, chain([first], rows))
        except BaseException:
            self._give_up(writing)
            raise
        prepared = self.prepare(transactional_id, identity)
        return Written(task, Prepared(task.partition, transactional_id, *prepared), writing.count)

    def claim(self) -> Ledger:
        ledger = Ledger(self._client, self._options.ledger_topic, self._task.sink)
        ledger.claim(self._task.run, self._task.attempt)
        return ledger

    def take(self, ledger: Ledger) -> str:
        """An id that an ended task has left behind, or one that never was."""
        task = self._task
        left = ledger.state.left_behind(task.partition)
        if left is not None and ledger.take(left, task.batch, task.attempt):
            return left
        prefix = id_prefix(self._options, task.sink)
        return f"{prefix}{ledger.state.generation}-{task.batch}-{task.partition}-{task.attempt}"

    def open(self, transactional_id: str) -> RowWriting:
        settings = {"transaction.timeout.ms": _TIMEOUT_MS, **producer_settings(self._options)}
        writing = RowWriting(
            {**settings, "transactional.id": transactional_id}, self._options.max_block_ms
        )
        try:
            writing.producer.init_transactions(_OPEN_S)
            writing.producer.begin_transaction()
        except KafkaException as error:
            raise SinkError(f"{transactional_id} cannot begin: {error.args[0].str()}") from error
        return writing

    def write(self, writing: RowWriting, rows: Iterator[Rows]) -> None:
        writing.write(rows)
        writing.finish()

    def prepare(self, transactional_id: str, identity: ProducerIdentity) -> ProducerIdentity:
        """Take the transaction over for the driver, so that it never times out."""
        if self._options.two_phase is False or not self._keeps_prepared(transactional_id):
            return identity
        try:
            found = self._transactions.initialise(
                transactional_id, two_phase=True, keep_prepared=True
            )
        except RequestRefused as error:
            disabled = error.code is ErrorCode.transactional_id_authorization_failed
            if not disabled or self._options.two_phase:
                raise
            return identity
        if found.ongoing != identity:
            raise SinkError(f"{transactional_id} was aborted before it could be prepared")
        return found.producer

    def _keeps_prepared(self, transactional_id: str) -> bool:
        def ask() -> int:
            found = coordinator(self._client, transactional_id, KeyType.TRANSACTION)
            return found.connection.session.version_of(ApiKey.INIT_PRODUCER_ID)

        offered = self._client.retrying(ask) >= _KEEPS_PREPARED_SINCE
        if not offered and self._options.two_phase:
            raise OptionError(
                "twoPhaseCommit=true, but the brokers know no two-phase commit: leave the option "
                "out, and a transaction must be decided within its timeout"
            )
        return offered

    def _give_up(self, writing: RowWriting) -> None:
        """Abort at once if that can be done; otherwise the driver's clean-up or time will."""
        try:
            writing.producer.purge()
            writing.producer.abort_transaction(_CLOSE_S)
        except KafkaException:
            return


def id_prefix(options: WriteOptions, sink: str) -> str:
    """What the transactional ids of a query begin with."""
    return f"{options.transactional_id_prefix}-{sink}-"
