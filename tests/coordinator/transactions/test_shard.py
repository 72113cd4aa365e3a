"""The life of transactions at their coordinator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.coordinator.decision import Producer
from tidelog.coordinator.transactions.ending import UNCHANGED, Ending
from tidelog.coordinator.transactions.initialisation import Initialised
from tidelog.coordinator.transactions.membership import Joining
from tidelog.coordinator.transactions.records import TransactionRecord, decode_record
from tidelog.coordinator.transactions.shard import KeptWaiting
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

ORDERS = frozenset({TopicPartition("orders", 0)})
PAYMENTS = frozenset({TopicPartition("payments", 3)})
WEEK_MS = 604_800_000


def code_of(answer: object) -> ErrorCode:
    assert isinstance(answer, Refusal), answer
    return answer.code


# Becoming a producer


def test_a_new_transactional_id_gets_a_producer_id_and_epoch_0(bench: CoordinatorBench) -> None:
    assert bench.init() == Initialised(Producer(1000, 0))
    assert bench.of().state is TransactionState.EMPTY


def test_whoever_takes_over_an_id_gets_the_next_epoch(bench: CoordinatorBench) -> None:
    first = bench.producer()
    assert bench.producer() == Producer(first.producer_id, 1)


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
    assert (ended.commit, ended.producer) == (False, Producer(zombie.producer_id, 1))

    bench.write_markers()
    assert bench.init() == Initialised(Producer(zombie.producer_id, 2))
    assert code_of(bench.join(zombie)) is ErrorCode.producer_fenced
    assert code_of(bench.end(zombie, commit=True)) is ErrorCode.producer_fenced


def test_a_producer_that_repeats_its_question_gets_the_same_answer(
    bench: CoordinatorBench,
) -> None:
    first = bench.producer()
    given = bench.init(expected=first)
    assert given == Initialised(Producer(first.producer_id, 1))
    assert bench.init(expected=first) == given


def test_a_producer_of_an_epoch_that_is_over_is_fenced(bench: CoordinatorBench) -> None:
    zombie = bench.producer()
    bench.producer()
    assert code_of(bench.init(expected=zombie)) is ErrorCode.producer_fenced
    stranger = Producer(7, 0)
    assert code_of(bench.init(expected=stranger)) is ErrorCode.producer_fenced


def test_a_producer_id_without_epochs_left_is_replaced(bench: CoordinatorBench) -> None:
    bench.force(
        Transaction(
            transactional_id="a",
            producer=Producer(7, EPOCH_MAX - 1),
            timeout_ms=1000,
            updated_ms=0,
        )
    )
    exhausted = Producer(7, EPOCH_MAX - 1)
    given = bench.init(expected=exhausted)
    assert given == Initialised(Producer(1000, 0))
    assert bench.of().previous_producer_id == 7
    assert bench.init(expected=exhausted) == given, "a repeat"


# Taking part


def test_a_transaction_begins_with_its_first_partition(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    began_ms = bench.now.wall_ms
    assert bench.join(producer) is None
    bench.pass_ms(10)
    assert bench.join(producer, PAYMENTS) is None

    known = bench.of()
    assert known.state is TransactionState.ONGOING
    assert known.started_ms == began_ms
    assert len(known.partitions) == 2


def test_a_partition_that_takes_part_already_is_not_stored_again(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    bench.join(producer)
    stored = len(bench.log)
    assert bench.join(producer) is None
    assert len(bench.log) == stored


def test_nobody_joins_for_another_producer(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    stranger = Producer(producer.producer_id + 1, 0)
    assert code_of(bench.join(stranger)) is ErrorCode.invalid_producer_id_mapping
    newer = Producer(producer.producer_id, 1)
    assert code_of(bench.join(newer)) is ErrorCode.producer_fenced
    unknown = bench.join(producer, transactional_id="b")
    assert code_of(unknown) is ErrorCode.invalid_producer_id_mapping


def test_who_begins_the_next_transaction_waits_for_the_end_of_the_last(
    bench: CoordinatorBench,
) -> None:
    producer = bench.producer()
    bench.join(producer)
    following = bench.end(producer, commit=True)
    for partitions in (PAYMENTS, ORDERS):
        assert bench.join(following, partitions) is KeptWaiting.KEPT
    assert bench.of().is_ending

    bench.write_markers()

    assert bench.answers == [None, None]
    assert bench.of().is_ongoing
    assert bench.of().partitions == PAYMENTS | ORDERS


def test_nobody_waits_for_long(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    bench.join(producer)
    following = bench.end(producer, commit=True)
    bench.join(following)
    bench.pass_ms(99)
    assert bench.answers == []

    bench.pass_ms(1)

    assert [code_of(answer) for answer in bench.answers] == [ErrorCode.concurrent_transactions]
    bench.write_markers()
    assert len(bench.answers) == 1
    assert not bench.of().is_ongoing


def test_who_waits_hears_that_the_coordinator_is_gone(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    bench.join(producer)
    bench.join(bench.end(producer, commit=True))
    answers = bench.answers
    bench.again()
    assert [code_of(answer) for answer in answers] == [ErrorCode.not_coordinator]


def test_who_was_fenced_while_waiting_joins_nothing(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    bench.join(producer, version=0)
    bench.end(producer, commit=True, version=0)
    bench.join(producer, version=0)
    known = bench.of()
    bench.shard.replay(
        TransactionRecord("a", replace(known, producer=Producer(producer.producer_id, 9))), None
    )
    bench.markers.asked = [
        ended._replace(producer=bench.of().producer) for ended in bench.markers.asked
    ]
    bench.write_markers()
    assert [code_of(answer) for answer in bench.answers] == [ErrorCode.producer_fenced]


def test_a_leader_hears_which_partitions_take_part(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    bench.join(producer)
    (orders,), (payments,) = bench.of().partitions, PAYMENTS
    asked = Joining("a", producer, frozenset({orders, payments}))
    assert bench.carry_out(bench.shard.verify(asked)) == {
        orders: ErrorCode.none,
        payments: ErrorCode.transaction_abortable,
    }
    zombie = asked._replace(producer=Producer(producer.producer_id, 5))
    assert code_of(bench.shard.verify(zombie)) is ErrorCode.producer_fenced


# Ending, from transaction version 2 on


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_takes_the_producer_to_its_next_epoch(bench: CoordinatorBench, commit: bool) -> None:
    producer = bench.producer()
    bench.join(producer)

    following = bench.end(producer, commit=commit)

    assert following == Producer(producer.producer_id, 1)
    (ended,) = bench.markers.asked
    assert (ended.producer, ended.commit, ended.version) == (following, commit, 2)
    assert bench.of().is_ending
    bench.write_markers()
    expected = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    assert bench.of().state is expected
    assert bench.of().partitions == frozenset()


@pytest.mark.parametrize("commit", [True, False])
def test_a_repeated_wish_is_answered_alike_and_the_opposite_one_refused(
    bench: CoordinatorBench, commit: bool
) -> None:
    producer = bench.producer()
    bench.join(producer)
    following = bench.end(producer, commit=commit)

    again = bench.end(producer, commit=commit)
    assert code_of(again) is ErrorCode.concurrent_transactions
    assert code_of(bench.end(producer, commit=not commit)) is ErrorCode.invalid_txn_state
    bench.write_markers()
    assert bench.end(producer, commit=commit) == following
    assert code_of(bench.end(producer, commit=not commit)) is ErrorCode.invalid_txn_state


def test_an_empty_transaction_can_be_aborted_and_not_committed(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    assert code_of(bench.end(producer, commit=True)) is ErrorCode.invalid_txn_state
    assert bench.end(producer, commit=False) == Producer(producer.producer_id, 1)
    bench.write_markers()
    assert bench.of().state is TransactionState.COMPLETE_ABORT

    following = bench.of().producer
    assert code_of(bench.end(following, commit=True)) is ErrorCode.invalid_txn_state
    assert bench.end(following, commit=False) == Producer(producer.producer_id, 2)


def test_a_producer_of_an_older_or_unknown_epoch_ends_nothing(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    bench.join(producer)
    newer = Producer(producer.producer_id, 4)
    assert code_of(bench.end(newer, commit=True)) is ErrorCode.producer_fenced
    stranger = Producer(7, 0)
    assert code_of(bench.end(stranger, commit=True)) is ErrorCode.invalid_producer_id_mapping
    unknown = bench.end(producer, commit=True, transactional_id="b")
    assert code_of(unknown) is ErrorCode.invalid_producer_id_mapping


def test_the_last_epoch_of_a_producer_id_hands_over_to_a_new_one(bench: CoordinatorBench) -> None:
    last = Producer(7, EPOCH_MAX - 1)
    bench.force(Transaction(transactional_id="a", producer=last, timeout_ms=60_000, updated_ms=0))
    bench.join(last)

    following = bench.end(last, commit=True)

    assert following == Producer(1000, 0)
    (ended,) = bench.markers.asked
    assert ended.producer == Producer(7, EPOCH_MAX)
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


# Time


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(
    bench: CoordinatorBench,
) -> None:
    producer = bench.producer(timeout_ms=15_000)
    bench.join(producer)
    bench.pass_ms(15_000)
    assert bench.of().is_ongoing

    bench.pass_ms(10_000)

    assert bench.of().state is TransactionState.PREPARE_ABORT
    bench.write_markers()
    assert bench.of().producer == Producer(producer.producer_id, 1)
    assert code_of(bench.end(producer, commit=True)) is ErrorCode.invalid_txn_state


def test_an_id_that_rests_for_long_is_forgotten(bench: CoordinatorBench) -> None:
    bench.producer("a")
    busy = bench.producer("b", two_phase=True)
    bench.join(busy, transactional_id="b")

    bench.pass_ms(WEEK_MS - 1)
    assert bench.shard.describe("a") is not None
    bench.pass_ms(3_600_001)

    assert bench.shard.describe("a") is None
    assert bench.of("b").is_ongoing
    assert bench.log[-1][1] is None, "a tombstone"


def test_many_ids_are_forgotten_a_batch_at_a_time(
    bench: CoordinatorBench, new_coordinator: NewCoordinator
) -> None:
    rarely = bench.rules._replace(timeout_check_ms=600_000)
    bench = new_coordinator(rarely)
    for number in range(1500):
        bench.producer(f"id {number}")
    bench.pass_ms(WEEK_MS)
    assert len(list(bench.shard.transactions())) == 500
    bench.pass_ms(600_000)
    assert list(bench.shard.transactions()) == []


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

    heir = Producer(producer.producer_id, 1)
    assert given == Initialised(heir, ongoing=producer)
    assert bench.of().is_ongoing
    bench.again()
    assert code_of(bench.end(producer, commit=True)) is ErrorCode.producer_fenced
    assert code_of(bench.join(producer, PAYMENTS)) is ErrorCode.producer_fenced
    assert code_of(bench.join(heir, PAYMENTS)) is ErrorCode.invalid_txn_state

    following = bench.end(heir, commit=commit)
    assert following == Producer(producer.producer_id, 2)
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
    assert isinstance(bench.end(second, commit=True), Producer)


def test_a_prepared_transaction_survives_the_last_epoch_of_its_producer_id(
    bench: CoordinatorBench,
) -> None:
    last = Producer(7, EPOCH_MAX - 1)
    bench.force(
        Transaction(transactional_id="a", producer=last, timeout_ms=NO_TIMEOUT, updated_ms=0)
    )
    bench.join(last)
    heir = bench.producer(two_phase=True, keep_prepared=True)
    assert heir == Producer(1000, 0)

    following = bench.end(heir, commit=True)
    assert following == Producer(1000, 1)
    (ended,) = bench.markers.asked
    assert ended.producer == Producer(7, EPOCH_MAX)
    again = bench.end(heir, commit=True)
    assert code_of(again) is ErrorCode.concurrent_transactions
    bench.write_markers()
    assert bench.of().producer == following
    assert bench.end(heir, commit=True) == following


def test_without_a_prepared_transaction_there_is_nothing_to_keep(bench: CoordinatorBench) -> None:
    bench.producer(two_phase=True)
    assert bench.init(two_phase=True, keep_prepared=True) == Initialised(Producer(1000, 1))


# Another coordinator


def test_a_new_coordinator_goes_on_with_what_was_decided(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    bench.join(producer)
    following = bench.end(producer, commit=True)
    before = bench.of()

    bench.again()

    (ended,) = bench.markers.asked
    assert (ended.producer, ended.commit, ended.coordinator_epoch) == (following, True, 1)
    assert ended.partitions == before.partitions
    bench.write_markers()
    assert bench.of().state is TransactionState.COMPLETE_COMMIT


def test_an_end_that_may_not_be_stored_is_looked_at_again(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    bench.join(producer)
    decision = bench.shard.end(
        Ending("a", producer, True, 2),
        bench.now,
    )
    assert not isinstance(decision, Refusal)
    for record in decision.records:
        bench.shard.replay(record, None)
    for late in decision.late:
        late.to(Refusal(ErrorCode.coordinator_not_available, "the replicas are slow"))
    assert bench.markers.asked == []

    bench.pass_ms(10_000)

    assert [ended.commit for ended in bench.markers.asked] == [True]


def test_markers_of_an_older_end_complete_nothing(bench: CoordinatorBench) -> None:
    producer = bench.producer()
    bench.join(producer)
    following = bench.end(producer, commit=True)
    (old,) = bench.markers.asked
    bench.write_markers()
    bench.join(following)
    bench.end(following, commit=False)

    bench.carry_out(bench.shard.complete(old, bench.now))

    assert bench.of().state is TransactionState.PREPARE_ABORT


_STEP = st.tuples(
    st.sampled_from(["init", "keep", "join", "commit", "abort", "mark", "again", "wait"]),
    st.integers(0, 3),
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(_STEP, max_size=40))
def test_epochs_rise_one_end_is_reached_and_a_reload_changes_nothing(
    new_coordinator: NewCoordinator, steps: list[tuple[str, int]]
) -> None:
    bench = new_coordinator()
    held = [bench.producer(two_phase=True)]
    promised: dict[Producer, bool] = {}
    for step, at in steps:
        producer = held[at % len(held)]
        before, stored_before = bench.of(), len(bench.log)
        match step:
            case "init" | "keep":
                given = bench.init(two_phase=True, keep_prepared=step == "keep")
                if isinstance(given, Initialised):
                    assert given.producer.producer_epoch > max(
                        known.producer_epoch for known in held
                    )
                    held.append(given.producer)
            case "join":
                bench.join(producer)
            case "commit" | "abort":
                ended = bench.end(producer, commit=step == "commit")
                if isinstance(ended, Producer):
                    assert promised.setdefault(producer, step == "commit") == (step == "commit")
                    held.append(ended)
            case "mark":
                bench.write_markers()
            case "again":
                bench.again()
            case "wait":
                bench.pass_ms(20_000)
        after = bench.of()
        if before.is_ending and len(bench.log) > stored_before:
            following = decode_record(*bench.log[stored_before])
            assert following is not None
            assert following.transaction is not None
            assert following.transaction.commits == before.commits
        assert len({ended.transactional_id for ended in bench.markers.asked}) <= 1
        stored = decode_record(*bench.log[-1])
        assert stored is not None
        assert stored.transaction is not None
        assert stored.transaction.producer == after.producer
        assert stored.transaction.state is after.state
