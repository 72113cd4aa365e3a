"""Asking the coordinator whether a transaction is really under way before a partition joins it.

A write that was delayed for long may arrive when its transaction is over and would then begin one
that nobody ends. So the first transactional write of a producer waits until the coordinator has
confirmed it, and is let in only with the verification that was begun for it.

Invariant  A verification serves once: the append that uses it, or the end of the transaction
           that it is about, does away with it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Verification:
    """One question to the coordinator; the object itself is what proves that it was asked."""

    epoch: int
    lowest_sequence: int
    """Of the writes that wait for the answer; a higher one must not overtake it."""
    epoch_per_transaction: bool
    """The producer takes a new epoch for every transaction, so each begins with sequence 0."""
    begun_ms: int


class Verifications:
    """The questions under way in one partition, one per producer."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def begin(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        wall_ms: int,
        *,
        epoch_per_transaction: bool,
    ) -> Verification:
        """Begin to ask, or join the question that is under way for this producer."""
        verification = self._by_producer.get(producer_id)
        if verification is None:
            verification = Verification(epoch, sequence, epoch_per_transaction, wall_ms)
            self._by_producer[producer_id] = verification
        elif epoch > verification.epoch:
            verification.epoch = epoch
            verification.lowest_sequence = sequence
        elif epoch == verification.epoch:
            verification.lowest_sequence = min(verification.lowest_sequence, sequence)
        return verification

    def of(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id) if self._by_producer else None

    def end(self, producer_id: int) -> None:
        self._by_producer.pop(producer_id, None)

    def transaction_ended(self, producer_id: int, marker_epoch: int) -> None:
        """A marker was written: whoever asked about the transaction it ends asked in vain.

        A producer that takes an epoch for every transaction may be in the next one by now, in the
        very epoch of the marker; that question stays.
        """
        asked = self._by_producer.get(producer_id)
        if asked is None or asked.epoch > marker_epoch:
            return
        if asked.epoch < marker_epoch or not asked.epoch_per_transaction:
            del self._by_producer[producer_id]

    def expire(self, before_ms: int) -> None:
        """Forget the questions begun at `before_ms` or earlier: nobody waits for them any more."""
        self._by_producer = {
            producer_id: verification
            for producer_id, verification in self._by_producer.items()
            if verification.begun_ms > before_ms
        }
