"""AddPartitionsToTxn: which partitions take part."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.add_partitions import AddPartitionsToTxn
from tidelog.coordinator.transactions.records import TransactionRecord
from tidelog.coordinator.transactions.shard import ReplyDeferred
from tidelog.coordinator.transactions.transaction import TransactionState
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from tests.coordinator.transactions.conftest import CoordinatorBench

ORDERS = frozenset({TopicPartition("orders", 0)})
PAYMENTS = frozenset({TopicPartition("payments", 3)})


def code_of(answer: object) -> ErrorCode:
    assert isinstance(answer, Refusal), answer
    return answer.code


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
    stranger = ProducerIdAndEpoch(producer.producer_id + 1, 0)
    assert code_of(bench.join(stranger)) is ErrorCode.invalid_producer_id_mapping
    newer = ProducerIdAndEpoch(producer.producer_id, 1)
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
        assert bench.join(following, partitions) is ReplyDeferred.DEFERRED
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
        TransactionRecord(
            "a", replace(known, producer=ProducerIdAndEpoch(producer.producer_id, 9))
        ),
        None,
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
    asked = AddPartitionsToTxn("a", producer, frozenset({orders, payments}))
    assert bench.carry_out(bench.shard.verify(asked)) == {
        orders: ErrorCode.none,
        payments: ErrorCode.transaction_abortable,
    }
    zombie = asked._replace(producer=ProducerIdAndEpoch(producer.producer_id, 5))
    assert code_of(bench.shard.verify(zombie)) is ErrorCode.producer_fenced
