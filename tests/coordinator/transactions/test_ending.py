"""EndTxn: how transactions end, for clients of each transaction version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.ending import UNCHANGED
from tidelog.coordinator.transactions.transaction import EPOCH_MAX, Transaction, TransactionState
from tidelog.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from tests.coordinator.transactions.conftest import CoordinatorBench


def code_of(answer: object) -> ErrorCode:
    assert isinstance(answer, Refusal), answer
    return answer.code


# Ending, from transaction version 2 on


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_takes_the_producer_to_its_next_epoch(bench: CoordinatorBench, commit: bool) -> None:
    producer = bench.producer()
    bench.join(producer)

    following = bench.end(producer, commit=commit)

    assert following == ProducerIdAndEpoch(producer.producer_id, 1)
    (ended,) = bench.markers.asked
    assert (ended.producer, ended.commit, ended.version) == (following, commit, 2)
    assert bench.of().is_ending
    bench.write_markers()
    expected = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    assert bench.of().state is expected
    assert bench.of().partitions == frozenset()


@pytest.mark.parametrize("commit", [True, False])
def test_a_repeated_request_is_answered_alike_and_the_opposite_one_refused(
    bench: CoordinatorBench, commit: bool
) -> None:
    producer = bench.producer()
    bench.join(producer)
    following = bench.end(producer, commit=commit)

    bench.write_markers()
    assert bench.end(producer, commit=commit) == following
    assert code_of(bench.end(producer, commit=not commit)) is ErrorCode.invalid_txn_state


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_every_request_has_to_come_again_while_markers_are_due(
    bench: CoordinatorBench, commit: bool, version: int
) -> None:
    producer = bench.producer()
    bench.join(producer, version=version)
    bench.end(producer, commit=commit, version=version)

    following = bench.of().producer
    for asked in (True, False):
        answer = bench.end(following, commit=asked, version=version)
        assert code_of(answer) is ErrorCode.concurrent_transactions


@pytest.mark.parametrize(
    "whoever",
    [
        ProducerIdAndEpoch(1000, 0),
        ProducerIdAndEpoch(1000, 1),
        ProducerIdAndEpoch(1000, 2),
        ProducerIdAndEpoch(7, 0),
    ],
)
def test_nobody_is_fenced_while_markers_are_due(
    bench: CoordinatorBench, whoever: ProducerIdAndEpoch
) -> None:
    producer = bench.producer()
    assert producer == ProducerIdAndEpoch(1000, 0)
    bench.join(producer)
    bench.end(producer, commit=True)

    for asked in (True, False):
        assert code_of(bench.end(whoever, commit=asked)) is ErrorCode.concurrent_transactions
    assert code_of(bench.init(expected=whoever)) is ErrorCode.concurrent_transactions
    bench.join(whoever)
    bench.pass_ms(bench.rules.join_wait_ms)
    assert code_of(bench.answers.pop()) is ErrorCode.concurrent_transactions
    assert bench.of().is_ending


def test_an_empty_transaction_can_be_aborted_and_not_committed(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    assert code_of(bench.end(producer, commit=True)) is ErrorCode.invalid_txn_state
    assert bench.end(producer, commit=False) == ProducerIdAndEpoch(producer.producer_id, 1)
    bench.write_markers()
    assert bench.of().state is TransactionState.COMPLETE_ABORT

    following = bench.of().producer
    assert code_of(bench.end(following, commit=True)) is ErrorCode.invalid_txn_state
    assert bench.end(following, commit=False) == ProducerIdAndEpoch(producer.producer_id, 2)


def test_a_producer_of_an_older_or_unknown_epoch_ends_nothing(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    bench.join(producer)
    newer = ProducerIdAndEpoch(producer.producer_id, 4)
    assert code_of(bench.end(newer, commit=True)) is ErrorCode.producer_fenced
    stranger = ProducerIdAndEpoch(7, 0)
    assert code_of(bench.end(stranger, commit=True)) is ErrorCode.invalid_producer_id_mapping
    unknown = bench.end(producer, commit=True, transactional_id="b")
    assert code_of(unknown) is ErrorCode.invalid_producer_id_mapping


def test_the_last_epoch_of_a_producer_id_hands_over_to_a_new_one(bench: CoordinatorBench) -> None:
    last = ProducerIdAndEpoch(7, EPOCH_MAX - 1)
    bench.force(Transaction(transactional_id="a", producer=last, timeout_ms=60_000, updated_ms=0))
    bench.join(last)

    following = bench.end(last, commit=True)

    assert following == ProducerIdAndEpoch(1000, 0)
    (ended,) = bench.markers.asked
    assert ended.producer == ProducerIdAndEpoch(7, EPOCH_MAX)
    assert code_of(bench.end(last, commit=True)) is ErrorCode.concurrent_transactions
    bench.write_markers()
    assert (bench.of().producer, bench.of().previous_producer_id) == (following, 7)
    assert bench.end(last, commit=True) == following, "a repeat"


# Ending, before transaction version 2


def test_an_old_client_keeps_its_epoch(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    bench.join(producer, version=0)

    assert bench.end(producer, commit=True, version=0) == UNCHANGED
    (ended,) = bench.markers.asked
    assert (ended.producer, ended.version) == (producer, 0)
    again = bench.end(producer, commit=True, version=0)
    assert code_of(again) is ErrorCode.concurrent_transactions
    bench.write_markers()
    assert bench.end(producer, commit=True, version=0) == UNCHANGED
    other = bench.end(producer, commit=False, version=0)
    assert code_of(other) is ErrorCode.invalid_txn_state
    bench.join(producer, version=0)
    assert bench.end(producer, commit=False, version=0) == UNCHANGED


def test_an_old_client_cannot_end_what_it_did_not_begin(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    empty = bench.end(producer, commit=False, version=0)
    assert code_of(empty) is ErrorCode.invalid_txn_state
    bench.producer()
    zombie = bench.end(producer, commit=False, version=0)
    assert code_of(zombie) is ErrorCode.producer_fenced
