"""A transaction coordinator over time and over changes of coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.ending import EndTxn
from tidelog.coordinator.transactions.initialisation import InitProducerIdReply
from tidelog.coordinator.transactions.records import decode_record
from tidelog.coordinator.transactions.transaction import TransactionState
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from tests.coordinator.transactions.conftest import CoordinatorBench, NewCoordinator

WEEK_MS = 604_800_000


def code_of(answer: object) -> ErrorCode:
    assert isinstance(answer, Refusal), answer
    return answer.code


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
    assert bench.of().producer == ProducerIdAndEpoch(producer.producer_id, 1)
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


def test_many_transactions_past_their_timeout_are_aborted_a_batch_at_a_time(
    bench: CoordinatorBench,
) -> None:
    for number in range(1500):
        name = f"id {number}"
        bench.join(bench.producer(name, timeout_ms=1000), transactional_id=name)
    bench.pass_ms(bench.rules.timeout_check_ms)
    assert sum(known.is_ongoing for known in bench.shard.transactions()) == 500
    bench.pass_ms(100)
    assert all(known.is_ending for known in bench.shard.transactions())


def test_a_transaction_whose_end_no_batch_can_hold_does_not_hold_up_the_others(
    bench: CoordinatorBench,
) -> None:
    wide = frozenset(TopicPartition("orders", index) for index in range(100))
    bench.join(bench.producer("wide", timeout_ms=1000), wide, transactional_id="wide")
    for name in ("b", "c"):
        bench.join(bench.producer(name, timeout_ms=1000), transactional_id=name)
    bench.batch_bytes = 300
    bench.pass_ms(bench.rules.timeout_check_ms)
    ongoing = [known.transactional_id for known in bench.shard.transactions() if known.is_ongoing]
    assert ongoing == ["wide"]

    bench.batch_bytes = 1_000_000
    bench.pass_ms(bench.rules.timeout_check_ms)
    assert all(known.is_ending for known in bench.shard.transactions())


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
        EndTxn("a", producer, True, 2),
        bench.now,
    )
    assert not isinstance(decision, Refusal)
    for record in decision.records:
        bench.shard.replay(record, None)
    for late in decision.late:
        late.give(Refusal(ErrorCode.coordinator_not_available, "the replicas are slow"))
    assert bench.markers.asked == []

    bench.pass_ms(10_000)

    assert [ended.commit for ended in bench.markers.asked] == [True]


def test_markers_of_an_older_end_complete_nothing_even_in_the_same_epoch(
    bench: CoordinatorBench,
) -> None:
    producer = bench.producer()
    bench.join(producer, version=0)
    bench.end(producer, commit=True, version=0)
    (old,) = bench.markers.asked
    bench.write_markers()
    bench.pass_ms(1)
    bench.join(producer, version=0)
    bench.end(producer, commit=True, version=0)

    bench.carry_out(bench.shard.complete(old, bench.now))

    assert bench.of().is_ending
    bench.write_markers()
    assert bench.of().state is TransactionState.COMPLETE_COMMIT


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
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(_STEP, max_size=40))
def test_epochs_rise_one_end_is_reached_and_a_reload_changes_nothing(
    new_coordinator: NewCoordinator, steps: list[tuple[str, int]]
) -> None:
    bench = new_coordinator()
    held = [bench.producer(two_phase=True)]
    promised: dict[ProducerIdAndEpoch, bool] = {}
    for step, at in steps:
        producer = held[at % len(held)]
        before, stored_before = bench.of(), len(bench.log)
        match step:
            case "init" | "keep":
                given = bench.init(two_phase=True, keep_prepared=step == "keep")
                if isinstance(given, InitProducerIdReply):
                    assert given.producer.producer_epoch > max(
                        known.producer_epoch for known in held
                    )
                    held.append(given.producer)
            case "join":
                bench.join(producer)
            case "commit" | "abort":
                ended = bench.end(producer, commit=step == "commit")
                if isinstance(ended, ProducerIdAndEpoch):
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
