"""The rules on transactions, judged when all is still.

    T1  a transaction is in all of its partitions or in none
    T2  what was promised as committed is there
    T3  what nobody asked to commit, or was promised as aborted, is not there
    T4  nothing is there twice
    T5  no transaction stays open: everything committed is stable

A reader of committed records is the judge: what it would see follows from the committed batches
and the markers among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tidelog.model.ids import TopicPartition
from tidelog.records.batch import read_header
from tidelog.records.record import records_of
from tidelog.simulator.checkers.ghost import Ghost, PartitionGhost
from tidelog.simulator.violation import Violation
from tidelog.simulator.workload_transactions import SimulatedTransaction, TransactionalProducer
from tidelog.simulator.world import World
from tidelog.storage.transaction_marker import read_transaction_marker


class TransactionRules:
    """Compares what transactional producers were told with what is visible."""

    def __init__(
        self,
        world: World,
        ghost: Ghost,
        producers: Sequence[TransactionalProducer],
        partitions: Sequence[TopicPartition],
    ) -> None:
        self._world = world
        self._ghost = ghost
        self._producers = producers
        self._partitions = partitions

    def expect(self) -> None:
        """Tell the world."""
        self._world.expect("T5", self._stability)
        self._world.expect("T", self._transactions)

    def _stability(self) -> str | None:
        for producer in self._producers:
            if not producer.is_idle:
                return f"{producer.name} is not done"
        for name in self._partitions:
            ghost = self._ghost.by_name(name)
            if ghost is None or ghost.control is None:
                return f"{name} is not there"
            machine = self._world.machines.get(ghost.control.leader)
            node = None if machine is None else machine.node
            hosted = None if node is None else node.broker.replicas.get(name)
            if hosted is None:
                return f"nobody leads {name}"
            stable, end = hosted.last_stable_offset, hosted.log.end_offset
            if stable != end:
                return f"{name} is stable up to {stable} of {end}"
        return None

    def _transactions(self) -> str | None:
        waiting = self._stability()
        if waiting is not None:
            return waiting
        ghosts = [self._ghost.by_name(name) for name in self._partitions]
        seen = []
        for ghost in ghosts:
            if ghost is None or ghost.is_murky or ghost.forgiven:
                return None
            seen.append(_visible(ghost))
        for producer in self._producers:
            for transaction in producer.transactions:
                _judge(transaction, [values[transaction.value] for values in seen])
        return None


def _judge(transaction: SimulatedTransaction, counts: Sequence[int]) -> None:
    what = f"{transaction.value.decode()} is seen {counts} times in its partitions"
    if max(counts) > 1:
        raise Violation("T4", what)
    if len(set(counts)) > 1:
        raise Violation("T1", what)
    if transaction.is_promised and transaction.commits and not counts[0]:
        raise Violation("T2", f"{what}, although it was committed")
    if not transaction.has_asked_to_commit and counts[0]:
        raise Violation("T3", f"{what}, although nobody committed it")


def _visible(ghost: PartitionGhost) -> Counter[bytes]:
    """What a reader of committed records sees of a partition, and how often."""
    seen: Counter[bytes] = Counter()
    undecided: dict[int, list[bytes]] = {}
    for batch in ghost.committed:
        header = read_header(batch.data)
        if header.is_control:
            marker = read_transaction_marker(batch.data)
            values = undecided.pop(header.producer_id, [])
            if marker is not None and marker.committed:
                seen.update(values)
        elif header.is_transactional:
            values = [record.value or b"" for record in records_of(memoryview(batch.data))]
            undecided.setdefault(header.producer_id, []).extend(values)
    return seen
