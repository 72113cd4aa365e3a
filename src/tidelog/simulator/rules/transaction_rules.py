"""The rules on transactions: T6 to T9 are judged all the time, the others when all is still.

    T1  a transaction is in all of its partitions or in none
    T2  what was promised as committed is there
    T3  what nobody asked to commit, or was promised as aborted, is not there
    T4  nothing is there twice
    T5  no transaction stays open: everything committed is stable
    T6  no leader calls stable what belongs to an open transaction, nor gives it to a reader of
        committed records
    T7  a reader of committed records gets all of them, each once, and nothing else
    T8  no coordinator ends a transaction of a producer after a later coordinator has
    T9  a marker ends the transaction that it was written for: nobody reads as committed what
        nobody has asked to commit by then

What may be seen follows from the committed batches and the markers among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NoReturn

from tidelog.model.ids import TopicPartition
from tidelog.simulator.clients.committed import CommittedReader, ToldStable, Visible
from tidelog.simulator.clients.transaction import SimulatedTransaction
from tidelog.simulator.clients.transactions import TransactionalProducer
from tidelog.simulator.rules.ghost import Ghost
from tidelog.simulator.rules.transaction_verdicts import TransactionVerdicts
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import ClientActed, Happening
from tidelog.simulator.world.world import World


class TransactionRules:
    """Compares what transactional producers and their reader were told with the logs."""

    def __init__(
        self,
        world: World,
        ghost: Ghost,
        producers: Sequence[TransactionalProducer],
        reader: CommittedReader,
    ) -> None:
        self._world = world
        self._ghost = ghost
        self._producers = producers
        self._reader = reader
        self._partitions = tuple(reader.positions)
        self._verdicts = {name: TransactionVerdicts(name) for name in self._partitions}

    def watch(self) -> None:
        """Judge from now on."""
        self._world.observers.append(self._look)
        self._world.expect("T5", self._stability)
        self._world.expect("T7", self._reading)
        self._world.expect("T", self._transactions)

    def _look(self, _world: World, happening: Happening) -> None:
        if not isinstance(happening, ClientActed):
            return
        while self._reader.fresh:
            told = self._reader.fresh.pop()
            verdicts = self._current(told.partition)
            if verdicts is not None and isinstance(told, Visible):
                self._has_been_asked_for(told)
            if verdicts is None or _is_true(told, verdicts):
                continue
            ghost = self._ghost.by_name(told.partition)
            if ghost is not None and not _is_true(told, verdicts.foresee(ghost)):
                _refute(told, verdicts)

    def _has_been_asked_for(self, told: Visible) -> None:
        for producer in self._producers:
            for transaction in reversed(producer.transactions):
                if told.value in transaction.values.get(told.partition, ()):
                    if not transaction.has_asked_to_commit:
                        what = f"{told.value.decode()} at {told.offset} of {told.partition}"
                        raise Violation("T9", f"{what} was read before {producer.name} ended it")
                    return

    def _current(self, name: TopicPartition) -> TransactionVerdicts | None:
        """What is known of a partition; None when too many disks went for that."""
        ghost = self._ghost.by_name(name)
        if ghost is None or ghost.is_murky or ghost.forgiven:
            return None
        verdicts = self._verdicts[name]
        verdicts.follow(ghost)
        return verdicts

    def _reading(self) -> str | None:
        waiting = self._stability()
        if waiting is not None:
            return waiting
        for name in self._partitions:
            ghost = self._ghost.by_name(name)
            end = 0 if ghost is None else ghost.true_high_watermark
            if self._reader.positions[name] < end:
                return f"{self._reader.name} is at {self._reader.positions[name]} of {name}"
            verdicts = self._current(name)
            if verdicts is not None and (missing := verdicts.counts - self._reader.seen[name]):
                lacks = sorted(missing)[0].decode()
                raise Violation("T7", f"{self._reader.name} was not given {lacks} of {name}")
        return None

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
            hosted = None if node is None else node.replicas.get(name)
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
        seen: dict[TopicPartition, Counter[bytes]] = {}
        for name in self._partitions:
            verdicts = self._current(name)
            if verdicts is None:
                return None
            seen[name] = verdicts.counts
        for producer in self._producers:
            for transaction in producer.transactions:
                _judge(transaction, seen)
        return None


def _is_true(told: Visible | ToldStable, verdicts: TransactionVerdicts) -> bool:
    if isinstance(told, Visible):
        return verdicts.visible.get(told.offset) == told.value
    return verdicts.first_open is None or told.offset <= verdicts.first_open


def _refute(told: Visible | ToldStable, verdicts: TransactionVerdicts) -> NoReturn:
    if isinstance(told, Visible):
        what = f"{told.value.decode()} at {told.offset} of {told.partition}"
        raise Violation("T7", f"{what} was read, and is not committed")
    what = f"{told.partition} was called stable up to {told.offset}"
    raise Violation("T6", f"{what}, and a transaction is open at {verdicts.first_open}")


def _judge(
    transaction: SimulatedTransaction, seen: Mapping[TopicPartition, Counter[bytes]]
) -> None:
    written = [(name, value) for name, each in transaction.values.items() for value in each]
    counts = [seen[name][value] for name, value in written]
    text = ", ".join(f"{value.decode()} in {name}" for name, value in written)
    what = f"{text}: seen {counts} times"
    if max(counts) > 1:
        raise Violation("T4", what)
    if len(set(counts)) > 1:
        raise Violation("T1", what)
    if transaction.is_promised and transaction.commits and not counts[0]:
        raise Violation("T2", f"{what}, although it was committed")
    if not transaction.has_asked_to_commit and counts[0]:
        raise Violation("T3", f"{what}, although nobody committed it")
