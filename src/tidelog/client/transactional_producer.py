"""A producer whose records become visible together, in any number of topics.

    producer = TransactionalProducer(client, "orders-to-payments")
    producer.send("payments", b"...", key=b"...")
    producer.commit()

A sink that commits elsewhere first makes it a two-phase one: it notes what `prepare` returns
beside its own commit, and after a crash says with `resolve` which transaction is to stay.

Invariant  A transaction has a producer epoch of its own (KIP-890): whatever is sent between two
           ends carries the same one, with sequences from 0 on.
"""

from __future__ import annotations

from tidelog.client.blocking import Client
from tidelog.client.producer import Producer, Within
from tidelog.client.transactions import ProducerIdentity, Transactions
from tidelog.records.compression import CompressionType


class TransactionalProducer:
    """Takes over a transactional id when it is made, and fences whoever had it.

    With `two_phase` its transactions never time out, and one that is open is left as it is until
    `resolve` is called.
    """

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        *,
        timeout_ms: int = 60_000,
        two_phase: bool = False,
        codec: CompressionType = CompressionType.NONE,
    ) -> None:
        self._client = client
        self._transactions = Transactions(client)
        self._transactional_id = transactional_id
        self._codec = codec
        self._topics: dict[str, Producer] = {}
        taken = self._transactions.initialise(
            transactional_id, timeout_ms=timeout_ms, two_phase=two_phase, keep_prepared=two_phase
        )
        self._producer = taken.producer
        self.prepared: ProducerIdentity | None = taken.ongoing
        """A transaction of an earlier process that waits for `resolve`."""

    def resolve(self, noted: ProducerIdentity | None) -> bool:
        """Commit the open transaction of an earlier process if it is the one that was noted.

        Otherwise it is aborted, because the commit elsewhere did not happen. Whether it was
        committed.
        """
        if self.prepared is None:
            return False
        commits = self.prepared == noted
        self.prepared = None
        self._end(commit=commits)
        return commits

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Take one record into the transaction, which begins with the first."""
        producer = self._topics.get(topic)
        if producer is None:
            within = Within(self._transactional_id, self._producer)
            producer = Producer(self._client, topic, codec=self._codec, within=within)
            self._topics[topic] = producer
        producer.send(value, key=key, partition=partition, timestamp_ms=timestamp_ms)

    def prepare(self) -> ProducerIdentity:
        """Have everything written; what to note beside a commit elsewhere."""
        for producer in self._topics.values():
            producer.flush()
        return self._producer

    def commit(self) -> None:
        """Make everything sent since the last end visible."""
        self.prepare()
        if self._topics:
            self._end(commit=True)

    def abort(self) -> None:
        """Let nobody see what was sent since the last end."""
        if self._topics:
            self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        self._producer = self._transactions.end(
            self._transactional_id, self._producer, commit=commit
        )
        self._topics = {}
