"""The rules on what clients were told, D8, D11, D12 and H1 to H9.

Answers are judged as they come; what can only be said of a whole history is judged at the end.
"""

from __future__ import annotations

from tidelog.model.ids import TopicPartition
from tidelog.records.record import records_of
from tidelog.simulator.clients.history import ACKS_ALL, Acked, History, Read, Send, ToldEnd
from tidelog.simulator.rules.ghost import Ghost, PartitionGhost
from tidelog.simulator.rules.held_log import HeldBatch
from tidelog.simulator.rules.violation import Violation


class PromiseRules:
    """Compares the history of the clients with what was committed."""

    def __init__(self, ghost: Ghost, history: History) -> None:
        self._ghost = ghost
        self._history = history

    def judge_fresh(self) -> None:
        """Judge what clients heard since the last look."""
        fresh = self._history.fresh
        while fresh:
            heard = fresh.popleft()
            match heard:
                case Acked(send=send):
                    self._judge_ack(send)
                case ToldEnd():
                    self._judge_end(heard)
                case Read():
                    self._judge_read(heard)

    def _judge_ack(self, send: Send) -> None:
        if send.acks != ACKS_ALL:
            return
        ghost = self._ghost.by_name(send.partition)
        if ghost is None or ghost.is_murky or ghost.is_unclean:
            return
        found = values_at(ghost, send.base_offset)
        if found != send.values:
            raise Violation(
                "D12",
                f"{send.producer} was told that {_text(send.values)} is at {send.base_offset} of "
                f"{send.partition}, where {_text(found)} is committed "
                f"(below {ghost.true_high_watermark} all is)",
            )
        if send.base_offset < send.known_end:
            raise Violation(
                "H9",
                f"{send.producer} began after {send.known_end - 1} of {send.partition} was known, "
                f"and was given {send.base_offset}",
            )

    def _judge_end(self, told: ToldEnd) -> None:
        """D8: the leader of the newest epoch never tells of less than others were shown before."""
        ghost = self._ghost.by_name(told.partition)
        if ghost is None or ghost.is_murky or ghost.is_unclean or ghost.control is None:
            return
        if ghost.control.leader_epoch == told.epoch and told.offset < told.known_end:
            why = f"ends at {told.offset}, and {told.known_end - 1} had been seen before"
            raise Violation("D8", f"{told.client} was told that {told.partition} {why}")

    def _judge_read(self, read: Read) -> None:
        known = self._history.of(read.partition).reads
        before = known.setdefault(read.offset, read.value)
        ghost = self._ghost.by_name(read.partition)
        if ghost is None or ghost.is_murky or ghost.is_unclean:
            known[read.offset] = read.value
            return
        if before != read.value:
            what = f"{before.decode()} and {read.value.decode()}"
            raise Violation("H1", f"{read.partition} had {what} at {read.offset}")
        committed = _value_at(ghost, read.offset)
        if committed != read.value:
            raise Violation(
                "D11",
                f"{read.consumer} read {read.value.decode()} at {read.offset} of {read.partition}, "
                f"where {_text(committed)} is committed",
            )

    # At the end.

    def judge_history(self) -> None:
        """All is still, everybody has read everything."""
        for name, known in self._history.partitions.items():
            ghost = self._ghost.by_name(name)
            if ghost is not None and not ghost.is_murky:
                self._judge_partition(name, ghost, known.deleted_to, known.sends)

    def _judge_partition(
        self, name: TopicPartition, ghost: PartitionGhost, deleted_to: int, sends: list[Send]
    ) -> None:
        reads = self._history.of(name).reads
        places: dict[bytes, list[int]] = {}
        for batch in ghost.committed:
            for record in records_of(memoryview(batch.data)):
                places.setdefault(record.value or b"", []).append(record.offset)
        last: dict[str, int] = {}
        for send in sends:
            if _is_forgiven(ghost, send.values):
                continue
            at = [place for value in send.values for place in places.get(value, ())]
            if at or not ghost.is_unclean:
                _judge_send(send, at)
            if at:
                if at[0] < last.get(send.producer, -1):
                    why = f"{_text(send.values)} at {at[0]} stands before an earlier batch"
                    raise Violation("H5", f"{name} of {send.producer}: {why}")
                last[send.producer] = at[-1]
            for value, offset in zip(send.values, at, strict=False):
                if offset >= deleted_to and reads.get(offset) != value:
                    why = f"{value.decode()} at {offset} of {name} was never read"
                    raise Violation("H8", why)


def _judge_send(send: Send, at: list[int]) -> None:
    what = f"{_text(send.values)} of {send.producer} in {send.partition}"
    if send.is_ok and send.acks == ACKS_ALL and not at:
        raise Violation("H2", f"{what} was acknowledged at {send.base_offset} and is lost")
    if send.has_failed and at:
        raise Violation("H3", f"{what} was refused and stands at {at[0]}")
    if len(at) > len(send.values):
        raise Violation("H4", f"{what} stands at {at}")
    if at and at != list(range(at[0], at[0] + len(at))):
        raise Violation("H5", f"{what} stands at {at}")


def values_at(ghost: PartitionGhost, base_offset: int) -> tuple[bytes, ...] | None:
    """What the committed batch with this base offset holds."""
    slot = ghost.place.get(base_offset)
    if slot is None:
        return None
    return tuple(
        record.value or b"" for record in records_of(memoryview(ghost.committed[slot].data))
    )


def _value_at(ghost: PartitionGhost, offset: int) -> bytes | None:
    low, high = 0, len(ghost.committed)
    while low < high:
        middle = (low + high) // 2
        if ghost.committed[middle].next_offset <= offset:
            low = middle + 1
        else:
            high = middle
    if low == len(ghost.committed) or ghost.committed[low].base_offset > offset:
        return None
    return _record_in(ghost.committed[low], offset)


def _record_in(batch: HeldBatch, offset: int) -> bytes | None:
    for record in records_of(memoryview(batch.data)):
        if record.offset == offset:
            return record.value
    return None


def _is_forgiven(ghost: PartitionGhost, values: tuple[bytes, ...]) -> bool:
    """Whether one of the values went in an unclean election."""
    return any(
        record.value in values
        for batch in ghost.forgiven
        for record in records_of(memoryview(batch.data))
    )


def _text(values: tuple[bytes, ...] | bytes | None) -> str:
    if values is None:
        return "nothing"
    if isinstance(values, bytes):
        return values.decode()
    return ", ".join(value.decode() for value in values)
