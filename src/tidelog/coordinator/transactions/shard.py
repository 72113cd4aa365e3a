"""The transaction coordinator of one partition of `__transaction_state`.

Invariant  Markers are sent only for an end that is stored for good, and again after every change
           of coordinator, until all of them are written; only then is the end complete.
Invariant  A transaction past its timeout is aborted and its producer fenced, unless it takes part
           in a two-phase commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from tidelog.coordinator.batch_limit import BatchBytes, first_batch, fits_alone
from tidelog.coordinator.result import Answer, CoordinatorResult, LateReply, ProducerIdAndEpoch
from tidelog.coordinator.shard import CoordinatorTimer, Marker
from tidelog.coordinator.transactions.add_partitions import (
    AddPartitionsToTxn,
    WaitingProducers,
    add_partitions,
    verify,
)
from tidelog.coordinator.transactions.ending import EndedTransaction, EndTxn, MarkerWriter, end
from tidelog.coordinator.transactions.initialisation import (
    InitProducerId,
    InitProducerIdReply,
    initialise,
)
from tidelog.coordinator.transactions.records import TransactionRecord, decode_record, encode_record
from tidelog.coordinator.transactions.transaction import (
    EPOCH_PER_TRANSACTION,
    NO_PRODUCER_ID,
    Transaction,
    completed,
    fenced,
    is_exhausted,
)
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now

_TIMEOUTS: Final = "timeouts"
_EXPIRY: Final = "expiry"
_WAITING: Final = "waiting"
_NEXT_PIECE_MS: Final = 10
"""Between two batches of the coordinator's own: others get their turn."""
NO_PRODUCER_ID_AT_HAND: Final = Refusal(
    ErrorCode.coordinator_load_in_progress, "no producer id is at hand"
)

Outcome: TypeAlias = CoordinatorResult[TransactionRecord, None]


class ReplyDeferred(Enum):
    """A reply that says that there is none yet."""

    DEFERRED = "deferred"


class TransactionRules(NamedTuple):
    """How long things last, by their settings."""

    max_timeout_ms: int
    timeout_check_ms: int
    expiration_ms: int
    expiration_check_ms: int
    join_wait_ms: int
    """How long a producer waits for its last transaction before it has to come again."""
    two_phase_enabled: bool


class TransactionShard:
    """Transactional ids and their transactions."""

    def __init__(
        self,
        timers: CoordinatorTimer[TransactionRecord],
        rules: TransactionRules,
        coordinator_epoch: int,
        markers: MarkerWriter,
        version: Callable[[], int],
        take_producer_id: Callable[[], int | None],
        batch_bytes: BatchBytes,
    ) -> None:
        """`version` is the transaction version of the cluster; a command that needs a producer id
        is refused with `NO_PRODUCER_ID_AT_HAND` when there is none to take."""
        self._timers = timers
        self._rules = rules
        self._coordinator_epoch = coordinator_epoch
        self._markers = markers
        self._version = version
        self._take_producer_id = take_producer_id
        self._batch_bytes = batch_bytes
        self._known: dict[str, Transaction] = {}
        self._being_marked: set[str] = set()
        self._waiting = WaitingProducers()

    # -- the log -------------------------------------------------------------------------------

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        return encode_record(record, self._version())

    def decode(self, key: bytes, value: bytes | None) -> TransactionRecord | None:
        return decode_record(key, value)

    def replay(self, record: TransactionRecord, producer: ProducerIdAndEpoch | None) -> None:
        if record.transaction is None:
            self._known.pop(record.transactional_id, None)
        else:
            self._known[record.transactional_id] = record.transaction

    def replay_marker(self, marker: Marker) -> None:
        """Nobody's transaction spans this topic."""

    def loaded(self, now: Now) -> Outcome:
        self._set_timeouts(now, self._rules.timeout_check_ms)
        self._set_expiry(now, self._rules.expiration_check_ms)
        return CoordinatorResult((), None, self._late(self._unmarked()))

    def unloaded(self, refusal: Refusal) -> None:
        self._markers.forget(self._being_marked)
        self._being_marked.clear()
        for answer in self._waiting.all():
            answer(refusal)

    # -- commands ------------------------------------------------------------------------------

    def initialise(
        self, asked: InitProducerId, now: Now
    ) -> CoordinatorResult[TransactionRecord, InitProducerIdReply | Refusal] | Refusal:
        """Give a producer its identity."""
        refusal = self._refuse(asked)
        if refusal is not None:
            return refusal
        known = self._known.get(asked.transactional_id)
        fresh = self._fresh_producer_id(known)
        if fresh is None:
            return NO_PRODUCER_ID_AT_HAND
        decided = initialise(asked, known, fresh, self._version(), now.wall_ms)
        if isinstance(decided, Refusal):
            return decided
        return CoordinatorResult(
            _stored(decided.transaction), decided.reply, self._late_end(decided[0])
        )

    def _refuse(self, asked: InitProducerId) -> Refusal | None:
        if asked.keep_prepared and not asked.two_phase:
            why = "only a producer of two phases can have a prepared transaction"
            return Refusal(ErrorCode.invalid_request, why)
        if asked.two_phase and self._version() < EPOCH_PER_TRANSACTION:
            return Refusal(
                ErrorCode.unsupported_version,
                f"two phases need transaction.version {EPOCH_PER_TRANSACTION}",
            )
        if asked.two_phase and not self._rules.two_phase_enabled:
            return Refusal(
                ErrorCode.transactional_id_authorization_failed,
                "transaction.two.phase.commit.enable is off",
            )
        if not asked.two_phase and not 0 < asked.timeout_ms <= self._rules.max_timeout_ms:
            return Refusal(
                ErrorCode.invalid_transaction_timeout,
                f"a timeout of {asked.timeout_ms} ms is not within {self._rules.max_timeout_ms}",
            )
        return None

    def add_partitions(
        self, asked: AddPartitionsToTxn, answer: Answer[None], now: Now
    ) -> CoordinatorResult[TransactionRecord, ReplyDeferred | None] | Refusal:
        """Let partitions take part in a producer's transaction.

        While the one before it is ending the reply is `ReplyDeferred`; `answer` is called later.
        """
        known = self._known.get(asked.transactional_id)
        after = add_partitions(asked, known, now.wall_ms)
        if isinstance(after, Refusal):
            if after.code is not ErrorCode.concurrent_transactions:
                return after
            if self._waiting.add(asked, answer):
                name = asked.transactional_id
                due_ms = now.monotonic_ms + self._rules.join_wait_ms
                self._timers.set((_WAITING, name), due_ms, partial(self._stop_waiting, name))
            return CoordinatorResult((), ReplyDeferred.DEFERRED)
        return CoordinatorResult(() if after is known else _stored(after), None)

    def _stop_waiting(self, transactional_id: str, now: Now) -> Outcome:
        return CoordinatorResult((), None, self._waiting.give_up(transactional_id))

    def verify(
        self, asked: AddPartitionsToTxn
    ) -> CoordinatorResult[TransactionRecord, Mapping[TopicPartition, ErrorCode]] | Refusal:
        """Tell whether partitions take part in a producer's transaction."""
        found = verify(asked, self._known.get(asked.transactional_id))
        return found if isinstance(found, Refusal) else CoordinatorResult((), found)

    def end(
        self, asked: EndTxn, now: Now
    ) -> CoordinatorResult[TransactionRecord, ProducerIdAndEpoch] | Refusal:
        """Commit or abort a producer's transaction."""
        known = self._known.get(asked.transactional_id)
        if known is None:
            return Refusal(
                ErrorCode.invalid_producer_id_mapping, f"{asked.transactional_id} is not known"
            )
        fresh = self._fresh_producer_id(known)
        if fresh is None:
            return NO_PRODUCER_ID_AT_HAND
        decided = end(asked, known, fresh, now.wall_ms)
        if isinstance(decided, Refusal):
            return decided
        if decided.transaction is None:
            return CoordinatorResult((), decided.reply)
        return CoordinatorResult(
            _stored(decided.transaction), decided.reply, self._late_end(decided.transaction)
        )

    def complete(self, ended: EndedTransaction, now: Now) -> Outcome:
        """All markers of a transaction are written; nothing if it is not the one that is ending."""
        known = self._known.get(ended.transactional_id)
        if known is None or not known.is_ending or self._ended(known) != ended:
            return CoordinatorResult((), None)
        self._being_marked.discard(ended.transactional_id)
        self._timers.cancel((_WAITING, ended.transactional_id))
        after = completed(known, now.wall_ms)
        following, replies = self._waiting.admit(after, now.wall_ms)
        records = tuple(
            TransactionRecord(step.transactional_id, step) for step in (after, *following)
        )
        return CoordinatorResult(records, None, replies)

    def _fresh_producer_id(self, known: Transaction | None) -> int | None:
        """An id that nobody has had, if one may be needed; None when there is none at hand."""
        if known is not None and not is_exhausted(known.heir.producer_epoch):
            return NO_PRODUCER_ID
        return self._take_producer_id()

    # -- reading -------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Transaction | None:
        """What is known of a transactional id."""
        return self._known.get(transactional_id)

    def transactions(self) -> Iterator[Transaction]:
        """All of them, by their ids."""
        for _, known in sorted(self._known.items()):
            yield known

    # -- markers -------------------------------------------------------------------------------

    def _late_end(self, transaction: Transaction) -> tuple[LateReply, ...]:
        """Have the markers sent once the end, if it is one, is stored for good."""
        return self._late([transaction]) if transaction.is_ending else ()

    def _late(self, ending: Collection[Transaction]) -> tuple[LateReply, ...]:
        replies = []
        for transaction in ending:
            transactional_id = transaction.transactional_id
            self._being_marked.add(transactional_id)
            replies.append(LateReply(partial(self._decided, transactional_id), transaction))
        return tuple(replies)

    def _decided(self, transactional_id: str, transaction: Transaction | Refusal) -> None:
        """An end is stored; or it is not known whether it is, and `_look_for_overdue` asks."""
        if isinstance(transaction, Refusal):
            self._being_marked.discard(transactional_id)
            return
        self._markers.write(self._ended(transaction))

    def _ended(self, transaction: Transaction) -> EndedTransaction:
        return EndedTransaction(
            transactional_id=transaction.transactional_id,
            producer=transaction.producer,
            commit=transaction.commits,
            partitions=transaction.partitions,
            decided_ms=transaction.updated_ms,
            coordinator_epoch=self._coordinator_epoch,
            version=transaction.client_version,
        )

    def _unmarked(self) -> list[Transaction]:
        return [
            known
            for known in self._known.values()
            if known.is_ending and known.transactional_id not in self._being_marked
        ]

    # -- by the clock --------------------------------------------------------------------------

    def _set_timeouts(self, now: Now, after_ms: int) -> None:
        self._timers.set(_TIMEOUTS, now.monotonic_ms + after_ms, self._look_for_overdue)

    def _look_for_overdue(self, now: Now) -> Outcome:
        version, unmarked, batch_bytes = self._version(), self._unmarked(), self._batch_bytes()
        overdue = (
            TransactionRecord(known.transactional_id, fenced(known, version, now.wall_ms))
            for known in self._known.values()
            if known.is_overdue(now.wall_ms)
        )
        storable = (each for each in overdue if fits_alone(*self.encode(each), batch_bytes))
        piece = first_batch(storable, self.encode, batch_bytes)
        self._set_timeouts(now, self._rules.timeout_check_ms if piece.is_all else _NEXT_PIECE_MS)
        ended = [record.transaction for record in piece.records if record.transaction is not None]
        return CoordinatorResult(piece.records, None, self._late([*unmarked, *ended]))

    def _set_expiry(self, now: Now, after_ms: int) -> None:
        self._timers.set(_EXPIRY, now.monotonic_ms + after_ms, self._expire)

    def _expire(self, now: Now) -> Outcome:
        limit_ms = now.wall_ms - self._rules.expiration_ms
        expired = (
            TransactionRecord(known.transactional_id, None)
            for known in self._known.values()
            if known.is_idle and known.updated_ms <= limit_ms
        )
        piece = first_batch(expired, self.encode, self._batch_bytes())
        self._set_expiry(now, self._rules.expiration_check_ms if piece.is_all else _NEXT_PIECE_MS)
        return CoordinatorResult(piece.records, None)


def _stored(transaction: Transaction) -> tuple[TransactionRecord, ...]:
    return (TransactionRecord(transaction.transactional_id, transaction),)
