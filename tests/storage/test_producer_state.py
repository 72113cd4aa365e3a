from __future__ import annotations

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.records.batch import TRANSACTIONAL, BatchHeader
from tidelog.records.control_batch import TransactionMarker
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.producer import Duplicate, Origin
from tidelog.storage.producer_state import ActiveProducer, ProducerState
from tidelog.storage.transaction_index import AbortedTransaction

LAST_SEQUENCE = 2**31 - 1
COMMIT = TransactionMarker(True, 0)
ABORT = TransactionMarker(False, 0)


def batch(
    sequence: int,
    count: int = 1,
    *,
    producer: int = 7,
    epoch: int = 0,
    timestamp: int = 1000,
    transactional: bool = False,
) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=TRANSACTIONAL if transactional else 0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


class Log:
    """Just enough of a log: it gives offsets and keeps what it accepted."""

    def __init__(self) -> None:
        files = MemoryFileSystem()
        files.make_directory("/log")
        self.state = ProducerState(files, "/log", 60_000)
        self.end = 0

    def send(
        self, header: BatchHeader, origin: Origin = Origin.CLIENT
    ) -> Duplicate | ErrorCode | int:
        """The first offset given, or why none was."""
        verdict = self.state.check(header, origin)
        if isinstance(verdict, Refusal):
            return verdict.code
        if verdict is not None:
            return verdict
        first = self.end
        self.end += header.last_offset_delta + 1
        self.state.update(header, first, self.end - 1)
        return first

    def mark(
        self,
        marker: TransactionMarker,
        *,
        producer: int = 7,
        epoch: int = 0,
        version: int = 1,
        origin: Origin = Origin.COORDINATOR,
        timestamp: int = 1000,
    ) -> AbortedTransaction | ErrorCode | None:
        header = batch(-1, producer=producer, epoch=epoch, timestamp=timestamp, transactional=True)
        refusal = self.state.check_marker(header, marker, origin, transaction_version=version)
        if refusal is not None:
            return refusal.code
        self.end += 1
        return self.state.end_transaction(header, marker, self.end - 1)

    def producer(self, producer: int = 7) -> ActiveProducer:
        return next(known for known in self.state.active() if known.producer_id == producer)


def in_transaction(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0
) -> BatchHeader:
    return batch(sequence, count, producer=producer, epoch=epoch, transactional=True)


# Sequences and epochs.


def test_a_batch_without_producer_is_none_of_its_business() -> None:
    log = Log()

    assert log.send(batch(-1, producer=-1, epoch=-1)) == 0
    assert log.send(batch(-1, producer=-1, epoch=-1)) == 1
    assert len(log.state) == 0


def test_batches_in_sequence_are_accepted() -> None:
    log = Log()

    assert [log.send(batch(0, 3)), log.send(batch(3, 2)), log.send(batch(5))] == [0, 3, 5]
    assert log.producer() == ActiveProducer(7, 0, 5, 1000, -1, -1)


def test_a_gap_in_the_sequence_is_refused() -> None:
    log = Log()
    log.send(batch(0, 3))

    assert log.send(batch(4)) == ErrorCode.out_of_order_sequence_number
    assert log.send(batch(3)) == 3


def test_a_repeat_of_one_of_the_last_five_batches_has_the_offsets_of_the_first_time() -> None:
    log = Log()
    for number in range(6):
        log.send(batch(number * 2, 2, timestamp=1000 + number))

    assert log.send(batch(2, 2)) == Duplicate(2, 3, 1001)
    assert log.send(batch(10, 2)) == Duplicate(10, 11, 1005)
    assert log.end == 12


def test_a_repeat_of_an_older_batch_is_out_of_order() -> None:
    log = Log()
    for number in range(6):
        log.send(batch(number * 2, 2))

    assert log.send(batch(0, 2)) == ErrorCode.out_of_order_sequence_number


def test_a_batch_that_only_overlaps_an_earlier_one_is_no_repeat() -> None:
    log = Log()
    log.send(batch(0, 3))

    assert log.send(batch(0, 2)) == ErrorCode.out_of_order_sequence_number
    assert log.send(batch(1, 2)) == ErrorCode.out_of_order_sequence_number


def test_sequences_go_on_with_zero_after_the_last_number() -> None:
    log = Log()
    log.send(batch(LAST_SEQUENCE))
    assert log.send(batch(1)) == ErrorCode.out_of_order_sequence_number
    assert log.send(batch(0)) == 1

    wrapping = Log()
    wrapping.send(batch(LAST_SEQUENCE - 1, 4))
    assert wrapping.producer().last_sequence == 1
    assert wrapping.send(batch(LAST_SEQUENCE - 1, 4)) == Duplicate(0, 3, 1000)
    assert wrapping.send(batch(2)) == 4


def test_an_unknown_producer_may_begin_with_any_sequence() -> None:
    log = Log()

    assert log.send(batch(42)) == 0
    assert log.send(batch(44)) == ErrorCode.out_of_order_sequence_number


def test_a_new_epoch_begins_with_sequence_zero() -> None:
    log = Log()
    log.send(batch(0))

    assert log.send(batch(1, epoch=1)) == ErrorCode.out_of_order_sequence_number
    assert log.send(batch(0, epoch=1)) == 1
    assert log.send(batch(1, epoch=1)) == 2


def test_an_epoch_that_is_over_is_refused() -> None:
    log = Log()
    log.send(batch(0, epoch=1))

    assert log.send(batch(0, epoch=0)) == ErrorCode.invalid_producer_epoch
    assert log.send(batch(0), Origin.COORDINATOR) == ErrorCode.invalid_producer_epoch


def test_batches_of_an_earlier_epoch_are_no_repeats_of_the_new_one() -> None:
    log = Log()
    log.send(batch(0, epoch=0))
    log.send(batch(0, epoch=1))

    assert log.send(batch(0, epoch=1)) == Duplicate(1, 1, 1000)
    assert log.send(batch(0, epoch=2)) == 2


def test_producers_do_not_disturb_each_other() -> None:
    log = Log()
    log.send(batch(0, producer=7))

    assert log.send(batch(0, producer=8)) == 1
    assert log.send(batch(1, producer=7)) == 2
    assert {known.producer_id for known in log.state.active()} == {7, 8}


def test_a_coordinator_does_not_number_its_batches() -> None:
    log = Log()
    commit = batch(-1, 2, transactional=True)

    assert log.send(commit, Origin.COORDINATOR) == 0
    assert log.send(commit, Origin.COORDINATOR) == 2
    assert log.producer().last_sequence == -1


def test_a_follower_takes_what_the_leader_took() -> None:
    log = Log()
    log.send(batch(0, epoch=3))

    assert log.send(batch(17, epoch=3), Origin.REPLICA) == 1
    assert log.send(batch(5, epoch=1), Origin.REPLICA) == 2
    assert log.producer().epoch == 1
    assert log.send(batch(6, epoch=1)) == 3


# Transactions.


def test_an_open_transaction_bounds_what_is_stable() -> None:
    log = Log()
    log.send(batch(-1, producer=-1))
    log.send(in_transaction(0, 2))
    log.send(in_transaction(2, 2))

    assert log.producer().current_txn_start_offset == 1
    assert log.state.first_unstable_offset(100) == 1


def test_a_committed_transaction_is_stable_once_its_marker_is_replicated() -> None:
    log = Log()
    log.send(in_transaction(0, 2))

    assert log.mark(COMMIT) is None

    assert log.producer().current_txn_start_offset == -1
    assert log.state.first_unstable_offset(2) == 0
    assert log.state.first_unstable_offset(3) is None


def test_an_aborted_transaction_is_for_the_index() -> None:
    log = Log()
    log.send(in_transaction(0, 2))

    assert log.mark(ABORT) == AbortedTransaction(7, 0, 2, 3)


def test_an_abort_leaves_stable_what_lies_before_the_next_open_transaction() -> None:
    log = Log()
    log.send(in_transaction(0, producer=7))
    log.send(in_transaction(0, producer=8))
    log.send(in_transaction(0, producer=9))

    assert log.mark(ABORT, producer=8) == AbortedTransaction(8, 1, 3, 0)
    assert log.mark(ABORT, producer=7) == AbortedTransaction(7, 0, 4, 2)
    assert log.mark(ABORT, producer=9) == AbortedTransaction(9, 2, 5, 6)


def test_a_marker_for_nothing_written_here_changes_no_offset() -> None:
    log = Log()

    assert log.mark(ABORT, producer=7, epoch=4) is None

    assert log.state.first_unstable_offset(0) is None
    assert log.producer() == ActiveProducer(7, 4, -1, 1000, 0, -1)


def test_sequences_go_on_after_a_marker_of_the_same_epoch() -> None:
    log = Log()
    log.send(in_transaction(0))
    log.mark(COMMIT)

    assert log.send(in_transaction(1)) == 2
    assert log.state.first_unstable_offset(100) == 2


def test_a_marker_with_a_new_epoch_makes_sequences_start_over() -> None:
    log = Log()
    log.send(in_transaction(0))
    log.mark(COMMIT, epoch=1)

    assert log.send(in_transaction(1, epoch=1)) == ErrorCode.out_of_order_sequence_number
    assert log.send(in_transaction(0, epoch=1)) == 2
    assert log.send(in_transaction(1, epoch=0)) == ErrorCode.invalid_producer_epoch


def test_a_marker_with_a_new_epoch_ends_the_one_before_at_once() -> None:
    log = Log()
    log.send(in_transaction(0))
    log.mark(COMMIT, epoch=1)

    assert log.producer().epoch == 1
    assert log.send(in_transaction(1, epoch=0)) == ErrorCode.invalid_producer_epoch


def test_a_write_outside_of_the_open_transaction_is_refused() -> None:
    log = Log()
    log.send(in_transaction(0))

    assert log.send(batch(1)) == ErrorCode.invalid_txn_state
    log.mark(COMMIT)
    assert log.send(batch(1)) == 2


def test_a_marker_of_an_epoch_that_is_over_is_refused() -> None:
    log = Log()
    log.send(in_transaction(0, epoch=2))

    assert log.mark(COMMIT, epoch=1) == ErrorCode.invalid_producer_epoch
    assert log.mark(COMMIT, epoch=2) is None


def test_a_marker_of_a_deposed_coordinator_is_refused() -> None:
    log = Log()
    log.send(in_transaction(0))
    log.mark(TransactionMarker(True, 5))

    fenced = ErrorCode.transaction_coordinator_fenced
    assert log.mark(TransactionMarker(True, 4)) == fenced
    assert log.mark(TransactionMarker(True, 5)) is None
    assert log.mark(TransactionMarker(True, 4), origin=Origin.REPLICA) is None


def test_from_version_two_a_marker_needs_a_higher_epoch_than_the_records() -> None:
    log = Log()
    log.send(in_transaction(0, epoch=2))

    assert log.mark(COMMIT, epoch=2, version=2) == ErrorCode.invalid_producer_epoch
    assert log.mark(COMMIT, epoch=1, version=2) == ErrorCode.invalid_producer_epoch
    assert log.mark(COMMIT, epoch=3, version=2) is None


def test_from_version_two_a_repeated_marker_is_accepted() -> None:
    log = Log()
    log.send(in_transaction(0, epoch=2))
    log.mark(COMMIT, epoch=3, version=2)

    assert log.mark(COMMIT, epoch=3, version=2) is None


def test_from_version_two_the_last_epoch_may_end_its_own_transaction() -> None:
    log = Log()
    log.send(in_transaction(0, epoch=2**15 - 1))

    assert log.mark(ABORT, epoch=2**15 - 1, version=2) == AbortedTransaction(7, 0, 1, 2)


# Forgetting.


def test_a_producer_that_was_silent_for_long_is_forgotten() -> None:
    log = Log()
    log.send(batch(0, producer=7, timestamp=1000))
    log.send(batch(0, producer=8, timestamp=1001))

    assert log.state.expire(61_000) == 1

    assert [known.producer_id for known in log.state.active()] == [8]
    assert log.send(batch(17, producer=7)) == 2


def test_a_producer_with_an_open_transaction_is_never_forgotten() -> None:
    log = Log()
    log.send(in_transaction(0))

    assert log.state.expire(10**15) == 0
    assert log.send(in_transaction(0)) == Duplicate(0, 0, 1000)
    log.mark(COMMIT, timestamp=2000)
    assert log.state.expire(61_999) == 0
    assert log.state.expire(62_000) == 1
