"""The ledger of a query: a compacted topic, read to its end before anything is concluded from it.

Invariant  Nothing is believed to be in the ledger because it was sent; it was read back.
"""

from __future__ import annotations

from typing import Final

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client
from tidelog.client.consumer import Consumer
from tidelog.client.errors import RequestRefused
from tidelog.client.offsets import EARLIEST, find_offsets
from tidelog.client.partitioner import partition_for_key
from tidelog.client.producer import Producer
from tidelog.model.errors import ErrorCode
from tidelog.spark.errors import Fenced
from tidelog.spark.sink.ledger_records import (
    Claim,
    Decision,
    LedgerRecord,
    LedgerState,
    Prepared,
    Take,
    decode,
    encode,
    key_of,
    sink_of,
)
from tidelog.spark.sink.ledger_topic import create_ledger_topic, require_compacted

_BEFORE_LAST: Final = 2
_ONE_RUN: Final = (
    "A query may run once at a time: stop one of the two; if none but this one is left, start it "
    "again, and it takes over"
)


class Ledger:
    """The records of one sink, and the state they make."""

    def __init__(self, client: Client, topic: str, sink: str) -> None:
        self.sink = sink
        self.state = LedgerState()
        self._client, self._topic = client, topic
        self._partition = partition_for_key(sink.encode(), self._partition_count())
        starts = find_offsets(client, topic, {self._partition: EARLIEST})
        self._consumer = Consumer(client, topic, starts)
        self._producer = Producer(client, topic)
        self.refresh()

    def refresh(self) -> None:
        """Read what has been written since."""
        for found in self._consumer.until_end():
            key, value = found.record.key, found.record.value
            if key is not None and value is not None and sink_of(key) == self.sink:
                self.state.replay(decode(value))

    def claim(self, run: str, attempt: int) -> None:
        """Hold the ledger for a run; refused once another one has superseded it."""
        if self.state.run != run and run not in self.state.former_runs:
            # Only here, once in a run; whoever was asked last may not know a new topic yet.
            self._client.retrying(lambda: require_compacted(Admin(self._client), self._topic))
            self._append(Claim(run, self.state.generation + 1, attempt))
        if self.state.run != run:
            raise Fenced(
                f"another run of this query ({self.state.run}) writes now; run {run} must not. "
                f"{_ONE_RUN}"
            )

    def take(self, transactional_id: str, batch: int, attempt: int) -> bool:
        """Whether a transactional id is ours for a batch."""
        wanted = Take(transactional_id, batch, attempt)
        self._append(wanted)
        return self.state.taken[transactional_id] == wanted

    def decide(self, run: str, batch: int, transactions: tuple[Prepared, ...]) -> Decision:
        """Write the decision about a batch; refused when another run holds the ledger."""
        decision = Decision(run, self.state.generation, batch, transactions)
        outdated = decision._replace(batch=batch - _BEFORE_LAST)
        self._append(decision, forget=outdated)
        if self.state.decided != decision:
            raise Fenced(
                f"batch {batch} of run {run} is not decided: run {self.state.run} has taken over, "
                f"and writes it. {_ONE_RUN}"
            )
        return decision

    def _append(self, record: LedgerRecord, forget: LedgerRecord | None = None) -> None:
        key, partition = key_of(self.sink, record), self._partition
        self._producer.send(encode(record), key=key, partition=partition)
        if forget is not None:
            self._producer.send(None, key=key_of(self.sink, forget), partition=partition)
        self._producer.flush()
        self.refresh()

    def _partition_count(self) -> int:
        """How many partitions the ledger's topic has; it is created when it is missing."""

        def look() -> int:
            return len(self._client.refresh([self._topic]).topic(self._topic).partitions)

        missing = ErrorCode.unknown_topic_or_partition
        try:
            return self._client.retrying(look, hopeless=[missing])
        except RequestRefused as error:
            if error.code is not missing:
                raise
        create_ledger_topic(Admin(self._client), self._topic)
        return self._client.retrying(look)
