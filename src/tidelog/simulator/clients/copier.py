"""Simulated copiers: each reads as a member of a group, writes what it read, and commits both the
copies and how far it has read in one transaction.

Invariant  A copier reads on from where the group has committed whenever it got something else to
           read, or a transaction of its own did not end as it wished.
Invariant  It asks to commit only what the group let it have: what the coordinator of the group
           refuses is aborted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.protocol.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.records.batch import whole_batches
from tidelog.records.record import records_of
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.committed import READ_COMMITTED, AbortedTransactions
from tidelog.simulator.clients.consumer import FETCH_VERSION as FETCH_RECORDS_VERSION
from tidelog.simulator.clients.consumer import FETCH_WAIT_MS, NOTHING
from tidelog.simulator.clients.copier_member import COPIERS, CopierMember
from tidelog.simulator.clients.groups import FETCH_VERSION
from tidelog.simulator.clients.transaction import SimulatedTransaction
from tidelog.simulator.clients.transactions import COMMITS, HOPELESS, TransactionalProducer

TURN_BYTES: Final = 512
ADD_OFFSETS_VERSION: Final = 3
COMMIT_OFFSETS_VERSION: Final = 3
ADDING_COMMIT_OFFSETS_VERSION: Final = 5
SEPARATOR: Final = b"|"
"""Between what was read and who copied it."""

_NOT_A_MEMBER: Final = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.stale_member_epoch,
        ErrorCode.group_id_not_found,
    }
)


class Copier(TransactionalProducer):
    """Copies each partition of one topic into the partition of the same number of another."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        member: CopierMember,
        outputs: Sequence[TopicPartition],
        *,
        transactional_id: str,
        adds: bool,
        interval_ms: int,
        start_ms: int,
        stop_ms: int,
    ) -> None:
        self.places = [(TopicPartition(member.topic, each.partition), each) for each in outputs]
        """The inputs, each with its output."""
        super().__init__(
            name,
            nodes,
            [name for place in self.places for name in place],
            transactional_id=transactional_id,
            adds=adds,
            interval_ms=interval_ms,
            start_ms=start_ms,
            stop_ms=stop_ms,
        )
        self.member = member
        self._output = outputs[0].topic
        self._turn = -1
        self._positions: dict[TopicPartition, int] = {}
        self._read: dict[TopicPartition, list[bytes]] = {}
        self._has_offsets = False
        self._has_added_offsets = False

    @property
    def is_idle(self) -> bool:
        """It goes on as long as there is something to copy."""
        return self.now_ms >= self._stop_ms and self._current is None

    # Reading.

    def _go_on(self) -> None:
        if self.member.lets_sleep:
            self._again()
        else:
            super()._go_on()

    @property
    def _is_over(self) -> bool:
        return False

    def next_transaction(self) -> SimulatedTransaction | None:
        """Copies of what was read since the last one; where that is nothing, read on."""
        member = self.member
        member.settle()
        if member.turn != self._turn:
            self._turn = member.turn
            self._positions, self._read = {}, {}
        if self._read:
            return self._copies()
        inputs = [TopicPartition(member.topic, index) for index in member.reads]
        unknown = [name for name in inputs if name not in self._positions]
        if not inputs or member.coordinator is None:
            self._again()
        elif unknown:
            self._ask_positions(member.coordinator, unknown)
        else:
            self._fetch(inputs)
        return None

    def _copies(self) -> SimulatedTransaction:
        who = f"{self.name}/{len(self.transactions)}".encode()
        values = {
            TopicPartition(self._output, name.partition): [
                value + SEPARATOR + who for value in read
            ]
            for name, read in self._read.items()
        }
        offsets = {name: self._positions[name] for name in self._read}
        self._read = {}
        self._has_offsets = self._has_added_offsets = False
        self.member.is_busy = True
        return SimulatedTransaction(values, self.dice.random() < COMMITS, offsets=offsets)

    def _ask_positions(self, coordinator: int, inputs: Sequence[TopicPartition]) -> None:
        indexes = [name.partition for name in inputs]
        request = OffsetFetchRequest(
            group_id=COPIERS,
            topics=[OffsetFetchRequestTopic(name=self.member.topic, partition_indexes=indexes)],
            require_stable=True,
        )
        then = partial(self._told_positions, self._turn)
        self._ask_somebody(coordinator, request, FETCH_VERSION, then)

    def _told_positions(self, turn: int, answer: Any) -> None:
        self._again()
        if isinstance(answer, Lost) or turn != self.member.turn:
            return
        self.member.refused(ErrorCode(answer.error_code))
        if answer.error_code:
            return
        for topic in answer.topics:
            for told in topic.partitions:
                if not told.error_code:
                    name = TopicPartition(topic.name, told.partition_index)
                    self._positions[name] = max(0, int(told.committed_offset))

    def _fetch(self, inputs: Sequence[TopicPartition]) -> None:
        name = self.dice.choice(inputs)
        leader = self.leaders.get(name)
        connection = None
        if leader is not None and leader.node != NO_LEADER:
            connection = self.line(leader.node)
        if leader is None or connection is None:
            self.refresh()
            self._again()
            return
        wanted = FetchPartition(
            name.partition, leader.epoch, self._positions[name], -1, -1, TURN_BYTES
        )
        request = FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(name.topic, None, [wanted])],
            forgotten=[],
            rack_id="",
            cluster_id=None,
        )
        self._asking += 1
        then = partial(self._answered, partial(self._fetched, self._turn, name))
        self.ask_fetch(connection, FETCH_RECORDS_VERSION, request, then)
        self.expects_answer(connection)

    def _fetched(self, turn: int, name: TopicPartition, answer: Any) -> None:
        self._again()
        if isinstance(answer, Lost) or turn != self.member.turn:
            return
        fetched = answer.topics[0].partitions[0] if answer.topics else None
        if answer.error or fetched is None or fetched.error:
            self.refresh()
            return
        self._take(name, fetched)

    def _take(self, name: TopicPartition, fetched: FetchedPartition) -> None:
        aborted = AbortedTransactions(fetched.aborted or ())
        records = fetched.records if isinstance(fetched.records, memoryview) else NOTHING
        for header, batch in whole_batches(records):
            if not aborted.hides(header, batch):
                self._read.setdefault(name, []).extend(
                    record.value or b""
                    for record in records_of(batch)
                    if record.offset >= self._positions[name]
                )
            self._positions[name] = max(self._positions[name], header.next_offset)

    # How far it has read.

    def finish(self, current: SimulatedTransaction) -> None:
        if not current.has_asked_to_commit and self.member.turn != self._turn:
            current.commits = False
        if not current.commits or self._has_offsets:
            self._end(current)
        elif self.member.coordinator is None:
            self._again()
        elif self._adds or self._has_added_offsets:
            self._commit_offsets(current, self.member.coordinator)
        else:
            producer_id, epoch = self._identity or (-1, -1)
            request = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                group_id=COPIERS,
            )
            then = partial(self._added_offsets, current)
            self._ask_coordinator(request, ADD_OFFSETS_VERSION, then)

    def _added_offsets(self, current: SimulatedTransaction, answer: Any) -> None:
        code = None if isinstance(answer, Lost) else ErrorCode(answer.error_code)
        if current is not self._current:
            return
        if code in HOPELESS:
            self._give_up()
            return
        self._has_added_offsets = code is ErrorCode.none
        if not self._has_added_offsets and code is not ErrorCode.concurrent_transactions:
            self._coordinator = None
        self._again()

    def _commit_offsets(self, current: SimulatedTransaction, coordinator: int) -> None:
        partitions = [
            TxnOffsetCommitRequestPartition(
                partition_index=name.partition, committed_offset=offset, committed_metadata=""
            )
            for name, offset in current.offsets.items()
        ]
        producer_id, epoch = self._identity or (-1, -1)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=COPIERS,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id_or_member_epoch=self.member.epoch,
            member_id=self.member.name,
            topics=[TxnOffsetCommitRequestTopic(name=self.member.topic, partitions=partitions)],
        )
        version = ADDING_COMMIT_OFFSETS_VERSION if self._adds else COMMIT_OFFSETS_VERSION
        then = partial(self._committed_offsets, current)
        self._ask_somebody(coordinator, request, version, then)

    def _committed_offsets(self, current: SimulatedTransaction, answer: Any) -> None:
        if current is not self._current:
            return
        self._again()
        if isinstance(answer, Lost):
            return
        codes = {
            ErrorCode(partition.error_code)
            for topic in answer.topics
            for partition in topic.partitions
        }
        self._has_offsets = codes == {ErrorCode.none}
        if codes & HOPELESS:
            self._give_up()
        elif codes & _NOT_A_MEMBER:
            current.commits = False
        else:
            for code in codes:
                self.member.refused(code)

    def on_ended(self, current: SimulatedTransaction) -> None:
        if not (current.is_promised and current.commits):
            self._positions, self._read = {}, {}
        self.member.settle()
