"""Simulated readers of committed transactions: they drop what the leader names as aborted.

Invariant  A leader gives such a reader nothing beyond the last stable offset that it tells (T6).
Invariant  All that a reader knows of the end of a transaction is in the answers to its fetches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.protocol.fetch import FetchedPartition
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.records.batch import BatchHeader, whole_batches
from tidelog.records.control_batch import read_transaction_marker
from tidelog.records.record import records_of
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.consumer import LIST_OFFSETS_VERSION, NOTHING, Consumer
from tidelog.simulator.clients.history import History
from tidelog.simulator.rules.violation import Violation

READ_COMMITTED: Final = 1
LATEST: Final = -1
INTERVAL_MS: Final = 700

_ASK_END: Final = "ask end"


class Visible(NamedTuple):
    """A record that the application got."""

    partition: TopicPartition
    offset: int
    value: bytes


class ToldStable(NamedTuple):
    """A leader said that every transaction below this offset has ended."""

    partition: TopicPartition
    offset: int


class AbortedTransactions:
    """The aborted transactions that an answer names: each hides its producer's records."""

    def __init__(self, named: Sequence[tuple[int, int]]) -> None:
        self._ahead = sorted(named, key=lambda transaction: transaction[1], reverse=True)
        self._hidden: set[int] = set()

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the application must not see the next batch."""
        while self._ahead and self._ahead[-1][1] <= header.last_offset:
            self._hidden.add(self._ahead.pop()[0])
        if header.is_control:
            marker = read_transaction_marker(batch)
            if marker is not None and not marker.committed:
                self._hidden.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._hidden


class CommittedReader(Consumer):
    """Reads its partitions with isolation level read_committed, and asks where they are stable."""

    isolation_level = READ_COMMITTED

    def __init__(
        self, name: str, nodes: Sequence[int], partitions: Sequence[TopicPartition]
    ) -> None:
        super().__init__(name, nodes, partitions, History())
        self.seen: dict[TopicPartition, Counter[bytes]] = {each: Counter() for each in partitions}
        self.fresh: list[Visible | ToldStable] = []
        """What nobody has judged yet."""
        self._aborted = AbortedTransactions(())

    def on_started(self) -> None:
        super().on_started()
        self.set_timer(INTERVAL_MS, _ASK_END)

    def on_token(self, token: object) -> None:
        if token != _ASK_END:
            super().on_token(token)
            return
        self.set_timer(1 + int(self.dice.expovariate(1 / INTERVAL_MS)), _ASK_END)
        self._ask_end(self.dice.choice(tuple(self.positions)))

    def _take(self, node: int, name: TopicPartition, fetched: FetchedPartition) -> bool:
        stable = fetched.last_stable_offset
        self.fresh.append(ToldStable(name, stable))
        records = fetched.records if isinstance(fetched.records, memoryview) else NOTHING
        for header, _ in whole_batches(records):
            if header.next_offset > stable:
                why = f"{header.last_offset} of {name}, which is stable up to {stable}"
                raise Violation("T6", f"{node} gave {self.name} offset {why}")
        self._aborted = AbortedTransactions(fetched.aborted or ())
        return super()._take(node, name, fetched)

    def _read(self, name: TopicPartition, header: BatchHeader, batch: memoryview) -> None:
        if self._aborted.hides(header, batch):
            return
        for record in records_of(batch):
            if record.offset >= self.positions[name]:
                value = record.value or b""
                self.seen[name][value] += 1
                self.fresh.append(Visible(name, record.offset, value))

    def _ask_end(self, name: TopicPartition) -> None:
        leader = self.leaders.get(name)
        connection = None
        if leader is not None and leader.node != NO_LEADER:
            connection = self.line(leader.node)
        if leader is None or connection is None:
            self.refresh()
            return
        partition = ListOffsetsPartition(
            partition_index=name.partition, current_leader_epoch=leader.epoch, timestamp=LATEST
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=READ_COMMITTED,
            topics=[ListOffsetsTopic(name=name.topic, partitions=[partition])],
        )
        then = partial(self._told_end, name)
        self.ask(connection, request, LIST_OFFSETS_VERSION, then)
        self.expects_answer(connection)

    def _told_end(self, name: TopicPartition, answer: Any) -> None:
        if isinstance(answer, Lost):
            return
        result = answer.topics[0].partitions[0]
        if result.error_code:
            self.refresh()
        else:
            self.fresh.append(ToldStable(name, int(result.offset)))
