from __future__ import annotations

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.records.batch import TRANSACTIONAL, BatchHeader
from tidelog.records.control_batch import TransactionMarker
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.producer import Duplicate, Origin
from tidelog.storage.producer_state import ProducerState
from tidelog.storage.transaction_verification import Verification


def verifying_state() -> ProducerState:
    files = MemoryFileSystem()
    files.make_directory("/log")
    return ProducerState(files, "/log", 60_000, verify_transactions=True)


def batch(sequence: int, *, epoch: int = 0, transactional: bool = True) -> BatchHeader:
    attributes = TRANSACTIONAL if transactional else 0
    return BatchHeader(0, 100, 0, 2, 0, attributes, 0, 1000, 1000, 7, epoch, sequence, 1)


def asked(
    state: ProducerState, header: BatchHeader, *, epoch_per_transaction: bool = False
) -> Verification:
    verification = state.begin_verification(
        header, 1000, epoch_per_transaction=epoch_per_transaction
    )
    assert isinstance(verification, Verification)
    return verification


def verdict(
    state: ProducerState,
    header: BatchHeader,
    verification: Verification | None = None,
    origin: Origin = Origin.CLIENT,
) -> ErrorCode | Duplicate | None:
    found = state.check(header, origin, verification)
    return found.code if isinstance(found, Refusal) else found


def test_a_write_into_an_unconfirmed_transaction_is_refused() -> None:
    state = verifying_state()

    assert verdict(state, batch(0)) == ErrorCode.invalid_txn_state
    assert verdict(state, batch(0), None, Origin.COORDINATOR) is None, "it asks on its own"
    assert verdict(state, batch(0), None, Origin.REPLICA) is None
    assert verdict(state, batch(0, transactional=False)) is None


def test_a_write_into_a_confirmed_transaction_is_accepted() -> None:
    state = verifying_state()
    verification = asked(state, batch(0))

    assert verdict(state, batch(0), verification) is None
    state.update(batch(0), 0, 0)
    assert verdict(state, batch(1)) is None
    assert state.begin_verification(batch(1), 1000, epoch_per_transaction=False) is None


def test_a_confirmation_is_worth_nothing_once_the_transaction_ended() -> None:
    state = verifying_state()
    late = asked(state, batch(0))

    state.end_transaction(batch(-1), TransactionMarker(False, 0), 0)

    assert verdict(state, batch(0), late) == ErrorCode.invalid_txn_state


def test_nobody_asks_for_an_epoch_that_is_over() -> None:
    state = verifying_state()
    state.update(batch(0, epoch=4), 0, 0)

    zombie = state.begin_verification(batch(0, epoch=3), 1000, epoch_per_transaction=True)
    assert isinstance(zombie, Refusal)
    assert zombie.code == ErrorCode.invalid_producer_epoch
    offsets = state.begin_offsets_verification(7, 3, 1000, epoch_per_transaction=True)
    assert isinstance(offsets, Refusal)
    assert verdict(state, batch(1, epoch=4)) is None, "nothing stands in its way"
    assert verdict(state, batch(0, epoch=3)) == ErrorCode.invalid_producer_epoch


def test_a_confirmation_serves_once() -> None:
    state = verifying_state()
    used = asked(state, batch(0))
    state.update(batch(0), 0, 0)
    state.end_transaction(batch(-1), TransactionMarker(True, 0), 1)

    assert verdict(state, batch(1), used) == ErrorCode.invalid_txn_state
    assert verdict(state, batch(1), asked(state, batch(1))) is None


def test_a_transaction_of_another_epoch_confirms_nothing() -> None:
    state = verifying_state()
    asked(state, batch(0))
    state.update(batch(0), 0, 0)

    assert verdict(state, batch(0, epoch=1)) == ErrorCode.invalid_txn_state


def test_writes_that_wait_together_share_one_question() -> None:
    state = verifying_state()
    later = asked(state, batch(1))

    assert asked(state, batch(0)) is later
    assert later.lowest_sequence == 0


def test_a_later_write_must_not_overtake_the_first_one() -> None:
    state = verifying_state()
    verification = asked(state, batch(0))
    asked(state, batch(1))

    assert verdict(state, batch(1), verification) == ErrorCode.out_of_order_sequence_number
    assert verdict(state, batch(0), verification) is None


def test_a_higher_epoch_takes_the_question_over() -> None:
    state = verifying_state()
    verification = asked(state, batch(0, epoch=0))
    asked(state, batch(5, epoch=1))
    asked(state, batch(2, epoch=0))

    assert (verification.epoch, verification.lowest_sequence) == (1, 5)


def test_with_an_epoch_per_transaction_an_unknown_producer_begins_with_zero() -> None:
    state = verifying_state()
    verification = asked(state, batch(3), epoch_per_transaction=True)

    assert verdict(state, batch(3), verification) == ErrorCode.out_of_order_sequence_number
    assert verdict(state, batch(0), verification) is None


def test_without_an_epoch_per_transaction_a_producer_forgotten_here_goes_on() -> None:
    state = verifying_state()
    verification = asked(state, batch(5))

    assert verdict(state, batch(5), verification) is None


def test_with_an_epoch_per_transaction_a_producer_known_in_its_epoch_goes_on() -> None:
    state = verifying_state()
    for sequence in range(5):
        state.update(batch(sequence, transactional=False), sequence, sequence)
    verification = asked(state, batch(5), epoch_per_transaction=True)

    assert verdict(state, batch(5), verification) is None


def test_a_question_nobody_waits_for_any_more_is_forgotten() -> None:
    state = verifying_state()
    verification = asked(state, batch(0))

    state.expire(60_999)
    assert verdict(state, batch(0), verification) is None
    state.expire(61_000)
    assert verdict(state, batch(0), verification) == ErrorCode.invalid_txn_state


def test_a_repeat_needs_no_confirmation() -> None:
    state = verifying_state()
    state.update(batch(0), 4, 4)
    state.end_transaction(batch(-1), TransactionMarker(True, 0), 5)

    assert verdict(state, batch(0)) == Duplicate(4, 4, 1000)


def ended(state: ProducerState, epoch: int) -> None:
    state.end_transaction(batch(-1, epoch=epoch), TransactionMarker(True, 0), 5)


def test_a_question_about_the_next_transaction_outlives_the_marker_of_the_last() -> None:
    state = verifying_state()
    state.update(batch(0), 0, 0)
    verification = asked(state, batch(0, epoch=1), epoch_per_transaction=True)

    ended(state, epoch=1)

    assert verdict(state, batch(0, epoch=1), verification) is None


def test_a_question_about_the_transaction_that_ends_is_void() -> None:
    state = verifying_state()
    late = asked(state, batch(0), epoch_per_transaction=True)
    ended(state, epoch=1)
    assert verdict(state, batch(0), late) == ErrorCode.invalid_producer_epoch

    old_client = verifying_state()
    late = asked(old_client, batch(0))
    ended(old_client, epoch=0)
    assert verdict(old_client, batch(0), late) == ErrorCode.invalid_txn_state


def test_a_marker_of_an_older_epoch_ends_no_question() -> None:
    state = verifying_state()
    verification = asked(state, batch(0, epoch=3))
    ended(state, epoch=2)
    assert verdict(state, batch(0, epoch=3), verification) is None


def test_offsets_are_confirmed_until_their_transaction_ends() -> None:
    state = verifying_state()
    verification = state.begin_offsets_verification(7, 0, 1000, epoch_per_transaction=True)
    assert isinstance(verification, Verification)
    assert state.is_confirmed(7, 0, verification)

    state.update(batch(-1), 0, 0)
    assert state.begin_offsets_verification(7, 0, 1000, epoch_per_transaction=True) is None
    assert state.is_confirmed(7, 0, verification), "its transaction is under way here"
    ended(state, epoch=1)
    assert not state.is_confirmed(7, 0, verification)
