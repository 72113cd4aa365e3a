"""InitProducerId: identities, fencing, and transactions that were prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.initialisation import InitProducerIdReply
from tidelog.coordinator.transactions.transaction import (
    EPOCH_MAX,
    NO_TIMEOUT,
    Transaction,
    TransactionState,
)
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from tests.coordinator.transactions.conftest import CoordinatorBench, NewCoordinator

PAYMENTS = frozenset({TopicPartition("payments", 3)})


def code_of(answer: object) -> ErrorCode:
    assert isinstance(answer, Refusal), answer
    return answer.code


# Becoming a producer


def test_a_new_transactional_id_gets_a_producer_id_and_epoch_0(bench: CoordinatorBench) -> None:
    assert bench.init() == InitProducerIdReply(ProducerIdAndEpoch(1000, 0))
    assert bench.of().state is TransactionState.EMPTY


def test_whoever_takes_over_an_id_gets_the_next_epoch(bench: CoordinatorBench) -> None:
    first = bench.producer()
    assert bench.producer() == ProducerIdAndEpoch(first.producer_id, 1)


def test_a_timeout_above_the_largest_one_is_refused(bench: CoordinatorBench) -> None:
    assert code_of(bench.init(timeout_ms=900_001)) is ErrorCode.invalid_transaction_timeout
    assert code_of(bench.init(timeout_ms=0)) is ErrorCode.invalid_transaction_timeout


def test_an_open_transaction_is_aborted_before_its_id_is_given_to_another(
    bench: CoordinatorBench,
) -> None:
    zombie = bench.producer()
    bench.join(zombie)

    assert code_of(bench.init()) is ErrorCode.concurrent_transactions
    assert bench.of().state is TransactionState.PREPARE_ABORT
    assert code_of(bench.init()) is ErrorCode.concurrent_transactions
    (ended,) = bench.markers.asked
    assert (ended.commit, ended.producer) == (False, ProducerIdAndEpoch(zombie.producer_id, 1))

    bench.write_markers()
    assert bench.init() == InitProducerIdReply(ProducerIdAndEpoch(zombie.producer_id, 2))
    assert code_of(bench.join(zombie)) is ErrorCode.producer_fenced
    assert code_of(bench.end(zombie, commit=True)) is ErrorCode.producer_fenced


def test_a_producer_that_repeats_its_question_gets_the_same_answer(
    bench: CoordinatorBench,
) -> None:
    first = bench.producer()
    given = bench.init(expected=first)
    assert given == InitProducerIdReply(ProducerIdAndEpoch(first.producer_id, 1))
    assert bench.init(expected=first) == given


def test_a_producer_of_an_epoch_that_is_over_is_fenced(bench: CoordinatorBench) -> None:
    zombie = bench.producer()
    bench.producer()
    assert code_of(bench.init(expected=zombie)) is ErrorCode.producer_fenced
    stranger = ProducerIdAndEpoch(7, 0)
    assert code_of(bench.init(expected=stranger)) is ErrorCode.producer_fenced


def test_a_producer_id_without_epochs_left_is_replaced(bench: CoordinatorBench) -> None:
    bench.force(
        Transaction(
            transactional_id="a",
            producer=ProducerIdAndEpoch(7, EPOCH_MAX - 1),
            timeout_ms=1000,
            updated_ms=0,
        )
    )
    exhausted = ProducerIdAndEpoch(7, EPOCH_MAX - 1)
    given = bench.init(expected=exhausted)
    assert given == InitProducerIdReply(ProducerIdAndEpoch(1000, 0))
    assert bench.of().previous_producer_id == 7
    assert bench.init(expected=exhausted) == given, "a repeat"


# Two phases


def test_a_transaction_of_two_phases_never_times_out(bench: CoordinatorBench) -> None:
    producer = bench.producer(two_phase=True)
    assert bench.of().timeout_ms == NO_TIMEOUT
    bench.join(producer)
    bench.pass_ms(30 * 86_400_000)
    assert bench.of().is_ongoing


def test_two_phases_must_be_allowed(
    new_coordinator: NewCoordinator, bench: CoordinatorBench
) -> None:
    strict = new_coordinator(bench.rules._replace(two_phase_enabled=False))
    refused = code_of(strict.init(two_phase=True))
    assert refused is ErrorCode.transactional_id_authorization_failed


def test_two_phases_need_records_that_can_hold_them(new_coordinator: NewCoordinator) -> None:
    old = new_coordinator(version=1)
    assert code_of(old.init(two_phase=True)) is ErrorCode.unsupported_version


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_outlives_its_producer_and_is_ended_by_the_next_one(
    bench: CoordinatorBench, commit: bool
) -> None:
    producer = bench.producer(two_phase=True)
    bench.join(producer)

    given = bench.init(two_phase=True, keep_prepared=True)

    heir = ProducerIdAndEpoch(producer.producer_id, 1)
    assert given == InitProducerIdReply(heir, ongoing=producer)
    assert bench.of().is_ongoing
    bench.again()
    assert code_of(bench.end(producer, commit=True)) is ErrorCode.producer_fenced
    assert code_of(bench.join(producer, PAYMENTS)) is ErrorCode.producer_fenced
    assert code_of(bench.join(heir, PAYMENTS)) is ErrorCode.invalid_txn_state

    following = bench.end(heir, commit=commit)
    assert following == ProducerIdAndEpoch(producer.producer_id, 2)
    (ended,) = bench.markers.asked
    assert (ended.producer, ended.commit) == (following, commit)
    assert code_of(bench.end(heir, commit=commit)) is ErrorCode.concurrent_transactions
    bench.write_markers()
    assert bench.end(heir, commit=commit) == following
    assert bench.join(following) is None


def test_each_recovery_of_a_prepared_transaction_fences_the_one_before(
    bench: CoordinatorBench,
) -> None:
    producer = bench.producer(two_phase=True)
    bench.join(producer)
    first = bench.producer(two_phase=True, keep_prepared=True)
    second = bench.producer(two_phase=True, keep_prepared=True)
    assert code_of(bench.end(first, commit=True)) is ErrorCode.producer_fenced
    assert isinstance(bench.end(second, commit=True), ProducerIdAndEpoch)


def test_a_prepared_transaction_survives_the_last_epoch_of_its_producer_id(
    bench: CoordinatorBench,
) -> None:
    last = ProducerIdAndEpoch(7, EPOCH_MAX - 1)
    bench.force(
        Transaction(transactional_id="a", producer=last, timeout_ms=NO_TIMEOUT, updated_ms=0)
    )
    bench.join(last)
    heir = bench.producer(two_phase=True, keep_prepared=True)
    assert heir == ProducerIdAndEpoch(1000, 0)

    following = bench.end(heir, commit=True)
    assert following == ProducerIdAndEpoch(1000, 1)
    (ended,) = bench.markers.asked
    assert ended.producer == ProducerIdAndEpoch(7, EPOCH_MAX)
    again = bench.end(heir, commit=True)
    assert code_of(again) is ErrorCode.concurrent_transactions
    bench.write_markers()
    assert bench.of().producer == following
    assert bench.end(heir, commit=True) == following


def test_without_a_prepared_transaction_there_is_nothing_to_keep(bench: CoordinatorBench) -> None:
    bench.producer(two_phase=True)
    assert bench.init(two_phase=True, keep_prepared=True) == InitProducerIdReply(
        ProducerIdAndEpoch(1000, 1)
    )


def test_only_a_producer_of_two_phases_keeps_what_was_prepared(bench: CoordinatorBench) -> None:
    assert code_of(bench.init(keep_prepared=True)) is ErrorCode.invalid_request
