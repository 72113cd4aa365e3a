"""T10: no transaction stays open, and no end of one stays unfinished, once faults have stopped.

What a transaction has come to is read from the files of whoever leads: its records and markers in
the partitions it wrote to, and the last thing said of it in `__transaction_state`. What the
coordinator or the leader believes does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.coordinator.internal_topics import TRANSACTIONS_TOPIC
from tidelog.coordinator.transactions.records import decode_record
from tidelog.coordinator.transactions.transaction import IDLE, TransactionState
from tidelog.records.batch import read_header
from tidelog.records.record import records_of
from tidelog.simulator.rules.ghost import Ghost, PartitionGhost
from tidelog.simulator.rules.held_log import HeldBatch, HeldLog
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.world import World

ENDS_WITHIN_MS: Final = 40_000
"""So long a transaction may take to end in the calm: a session, an election, its own timeout."""


class Unfinished(NamedTuple):
    """A transaction that has not ended, as one log tells it."""

    log: str
    what: str


class _Read(NamedTuple):
    """What a log told, and what it ended with then."""

    held: HeldLog
    last: HeldBatch | None
    batches: int
    unfinished: tuple[Unfinished, ...]


class TransactionProgress:
    """Reads the logs of leaders while all is calm."""

    def __init__(self, world: World, ghost: Ghost) -> None:
        self._world = world
        self._ghost = ghost
        self._read: dict[tuple[UUID, int], _Read] = {}
        self._since_ms: dict[Unfinished, int] = {}

    def watch(self) -> None:
        """Judge from now on."""
        self._world.expect("T10", self._look)

    def _look(self) -> str | None:
        now_ms = self._world.now_ms
        unfinished = [each for ghost in self._partitions() for each in self._told_by(ghost)]
        self._since_ms = {each: self._since_ms.get(each, now_ms) for each in unfinished}
        for each, since_ms in self._since_ms.items():
            if now_ms - since_ms > ENDS_WITHIN_MS:
                why = f"has not ended within {ENDS_WITHIN_MS} ms of calm"
                raise Violation("T10", f"{each.what} of {each.log} {why}")
        return f"{unfinished[0].what} of {unfinished[0].log} has not ended" if unfinished else None

    def _partitions(self) -> Iterator[PartitionGhost]:
        """All that exist and whose leader has a disk that can be believed."""
        image = self._ghost.image
        for ghost in self._ghost.partitions.values():
            if image is not None and ghost.topic_id in image.topics_by_id and not ghost.is_murky:
                yield ghost

    def _told_by(self, ghost: PartitionGhost) -> tuple[Unfinished, ...]:
        held = None if ghost.control is None else ghost.held.get(ghost.control.leader)
        if held is None or held.unreadable:
            return ()
        key = (ghost.topic_id, ghost.name.partition)
        last = held.batches[-1] if held.batches else None
        known = self._read.get(key)
        if known is None or known[:3] != (held, last, len(held.batches)):
            is_state = ghost.name.topic == TRANSACTIONS_TOPIC
            told = _prepared(held) if is_state else _open(held)
            known = self._read[key] = _Read(held, last, len(held.batches), tuple(told))
        return known.unfinished


def _open(held: HeldLog) -> Iterator[Unfinished]:
    """Transactions with records and without a marker behind them."""
    first: dict[int, int] = {}
    for batch in held.batches:
        header = read_header(batch.data)
        if header.is_control:
            first.pop(header.producer_id, None)
        elif header.is_transactional:
            first.setdefault(header.producer_id, batch.base_offset)
    for producer_id, offset in first.items():
        yield Unfinished(str(held.name), f"the transaction of producer {producer_id} at {offset}")


def _prepared(held: HeldLog) -> Iterator[Unfinished]:
    """Transactional ids whose last record does not say that they are at rest."""
    states: dict[str, tuple[TransactionState, int]] = {}
    for batch in held.batches:
        if read_header(batch.data).is_control:
            continue
        for record in records_of(memoryview(batch.data)):
            told = decode_record(record.key or b"", record.value)
            if told is None:
                continue
            if told.transaction is None:
                states.pop(told.transactional_id, None)
            else:
                transaction = told.transaction
                states[told.transactional_id] = (transaction.state, record.offset)
    for transactional_id, (state, offset) in states.items():
        if state not in (*IDLE, TransactionState.DEAD):
            what = f"{transactional_id}, {state.title} at {offset},"
            yield Unfinished(str(held.name), what)
