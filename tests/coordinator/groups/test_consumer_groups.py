"""Groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.group_bench import Asked, GroupBench

from tidelog.coordinator.groups.topics import IdPartition
from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.model.errors import ErrorCode

SESSION_MS = 45_000


@pytest.fixture
def bench() -> GroupBench:
    made = GroupBench()
    made.topics.put("orders", 4)
    return made


def partitions(bench: GroupBench, *indexes: int, topic: str = "orders") -> frozenset[IdPartition]:
    known = bench.topics.named(topic)
    assert known is not None
    return frozenset(IdPartition(known.topic_id, index) for index in indexes)


def indexes(places: Any) -> list[int]:
    return sorted(place.partition for place in places)


def test_the_first_member_gets_everything_at_once(bench: GroupBench) -> None:
    reply = bench.beat("a", 0)
    assert (reply.member_id, reply.member_epoch) == ("a", 1)
    assert reply.assignment == partitions(bench, 0, 1, 2, 3)
    assert reply.heartbeat_interval_ms == 5000
    assert bench.state == "Stable"


def test_an_assignment_is_told_only_when_it_is_news(bench: GroupBench) -> None:
    bench.beat("a", 0)
    assert bench.beat("a", 1).assignment is None
    full = bench.beat(
        "a", 1, owned=partitions(bench, 0, 1, 2, 3), rebalance_ms=30_000, topics=("orders",)
    )
    assert full.assignment == partitions(bench, 0, 1, 2, 3)


def test_a_partition_is_given_only_after_its_holder_gave_it_back(bench: GroupBench) -> None:
    bench.beat("a", 0)
    newcomer = bench.beat("b", 0)
    assert (newcomer.member_epoch, newcomer.assignment) == (2, frozenset())
    assert bench.state == "Reconciling"

    told = bench.beat("a", 1)
    assert (told.member_epoch, indexes(told.assignment)) == (1, [0, 1])
    assert bench.beat("b", 2).assignment is None
    assert bench.beat("a", 1).member_epoch == 1  # it says nothing of what it owns

    freed = bench.beat("a", 1, owned=partitions(bench, 0, 1))
    assert freed.member_epoch == 2
    assert indexes(bench.beat("b", 2).assignment) == [2, 3]
    assert bench.state == "Stable"


def test_a_group_is_assigned_anew_at_most_once_per_interval() -> None:
    bench = GroupBench(group_consumer_assignment_interval_ms="1000")
    bench.topics.put("orders", 4)
    assert indexes(bench.beat("a", 0).assignment) == [0, 1, 2, 3]  # the first target is due at once

    bench.wait(400)
    newcomer = bench.beat("b", 0)
    assert (newcomer.member_epoch, newcomer.assignment) == (1, frozenset())
    assert newcomer.heartbeat_interval_ms == 600  # it is told to come when the next one is due
    assert bench.state == "Assigning"
    bench.fail_over()
    bench.wait(500)
    assert bench.beat("c", 0).heartbeat_interval_ms == 100
    assert bench.beat("a", 1).assignment is None

    bench.wait(100)
    told = bench.beat("b", 1)
    assert (told.member_epoch, told.heartbeat_interval_ms) == (3, 5000)
    assert bench.consumers.target_epoch == bench.consumers.epoch == 3
    assert len(bench.beat("a", 1).assignment) == 2


def test_a_group_may_have_an_assignment_interval_of_its_own() -> None:
    bench = GroupBench(group_consumer_assignment_interval_ms="1000")
    bench.topics.put("orders", 4)
    bench.group_settings = {"consumer.assignment.interval.ms": "0"}
    bench.beat("a", 0)
    assert bench.beat("b", 0).member_epoch == 2


def test_a_clock_that_was_set_back_does_not_hold_an_assignment_up() -> None:
    bench = GroupBench(group_consumer_assignment_interval_ms="1000")
    bench.topics.put("orders", 4)
    bench.beat("a", 0)
    bench.now = bench.now._replace(wall_ms=bench.now.wall_ms - 3_600_000)
    assert bench.beat("b", 0).member_epoch == 2


def test_the_next_coordinator_goes_on_where_the_last_one_was(bench: GroupBench) -> None:
    bench.beat("a", 0)
    bench.beat("b", 0)
    bench.beat("a", 1)
    bench.fail_over()
    assert bench.beat("a", 1, owned=partitions(bench, 0, 1)).member_epoch == 2
    bench.fail_over()
    assert indexes(bench.beat("b", 2).assignment) == [2, 3]


def test_what_a_member_has_may_stand_in_the_log_before_what_it_told(bench: GroupBench) -> None:
    bench.beat("a", 0)
    bench.beat("a", 1, rebalance_ms=20_000)
    before = bench.consumers
    bench.compact()
    bench.fail_over()
    assert (bench.consumers.members, bench.consumers.holders) == (before.members, before.holders)


def test_a_member_that_does_not_give_back_in_time_is_removed(bench: GroupBench) -> None:
    bench.beat("a", 0, rebalance_ms=20_000)
    bench.beat("b", 0)
    bench.beat("a", 1)
    bench.wait(19_999)
    assert bench.beat("b", 2).assignment is None
    bench.wait(1)
    assert bench.beat("a", 1) is ErrorCode.unknown_member_id
    assert indexes(bench.beat("b", 2).assignment) == [0, 1, 2, 3]


def test_a_silent_member_is_removed_after_its_session(bench: GroupBench) -> None:
    bench.beat("a", 0)
    bench.wait(SESSION_MS - 1)
    assert bench.beat("a", 1).member_epoch == 1
    bench.wait(SESSION_MS)
    assert bench.beat("a", 1) is ErrorCode.unknown_member_id
    assert bench.state == "Empty"


def test_a_member_that_leaves_frees_its_partitions(bench: GroupBench) -> None:
    bench.beat("a", 0)
    bench.beat("b", 0)
    assert bench.beat("a", -1).member_epoch == -1
    assert indexes(bench.beat("b", 2).assignment) == [0, 1, 2, 3]


def test_other_epochs_than_the_members_own_are_fenced(bench: GroupBench) -> None:
    bench.beat("a", 0)
    assert bench.beat("a", 7) is ErrorCode.fenced_member_epoch
    bench.beat("b", 0)
    bench.beat("a", 1)
    bench.beat("a", 1, owned=partitions(bench, 0, 1))
    retried = bench.beat("a", 1, owned=partitions(bench, 0, 1))
    assert retried.member_epoch == 2
    assert bench.beat("a", 1, owned=partitions(bench, 3)) is ErrorCode.fenced_member_epoch


def test_unknown_groups_and_members_are_named_as_such(bench: GroupBench) -> None:
    assert bench.beat("a", 1) is ErrorCode.group_id_not_found
    bench.beat("a", 0)
    assert bench.beat("b", 1) is ErrorCode.unknown_member_id
    assert bench.beat("b", -1) is ErrorCode.unknown_member_id


def test_a_static_member_that_said_it_would_be_back_finds_its_partitions(
    bench: GroupBench,
) -> None:
    bench.beat("a", 0, instance_id="i1")
    bench.beat("b", 0, instance_id="i2")
    bench.beat("a", 1, instance_id="i1")
    bench.beat("a", 1, instance_id="i1", owned=partitions(bench, 0, 1))
    bench.beat("b", 2, instance_id="i2")

    assert bench.beat("c", 0, instance_id="i1") is ErrorCode.unreleased_instance_id
    assert bench.beat("a", -2, instance_id="i1").member_epoch == -2
    back = bench.beat("c", 0, instance_id="i1")
    assert (back.member_epoch, indexes(back.assignment)) == (2, [0, 1])
    assert bench.beat("a", 2, instance_id="i1") is ErrorCode.fenced_instance_id
    bench.fail_over()
    assert bench.beat("c", 2, instance_id="i1").member_epoch == 2


def test_a_static_member_that_stays_away_is_removed_after_its_session(bench: GroupBench) -> None:
    bench.beat("a", 0, instance_id="i1")
    bench.beat("a", -2, instance_id="i1")
    bench.wait(SESSION_MS)
    assert bench.state == "Empty"


def test_a_member_whose_leaving_could_not_be_written_still_has_a_session(
    bench: GroupBench,
) -> None:
    bench.beat("a", 0)
    bench.refuses_writes = True
    assert bench.beat("a", -1) is ErrorCode.coordinator_not_available
    bench.refuses_writes = False
    assert bench.state == "Stable"
    bench.wait(SESSION_MS)
    assert bench.state == "Empty"


def test_a_member_whose_end_could_not_be_written_is_removed_a_little_later(
    bench: GroupBench,
) -> None:
    bench.beat("a", 0)
    bench.refuses_writes = True
    bench.wait(SESSION_MS)
    assert bench.state == "Stable"
    bench.refuses_writes = False
    bench.wait(1000)
    assert bench.state == "Empty"


def test_more_partitions_and_new_topics_are_assigned_with_the_next_heartbeat(
    bench: GroupBench,
) -> None:
    bench.beat("a", 0, topics=("orders", "later"))
    bench.topics.put("orders", 5)
    more = bench.beat("a", 1)
    assert (more.member_epoch, indexes(more.assignment)) == (2, [0, 1, 2, 3, 4])
    bench.topics.put("later", 1)
    assert len(bench.beat("a", 2).assignment) == 6
    bench.topics.drop("later")
    assert len(bench.beat("a", 3).assignment) == 5
    assert bench.beat("a", 3, owned=partitions(bench, 0, 1, 2, 3, 4)).member_epoch == 4
    bench.topics.put("unrelated", 1)
    assert bench.beat("a", 4).member_epoch == 4


def test_a_changed_subscription_changes_the_assignment(bench: GroupBench) -> None:
    bench.topics.put("bills", 1)
    bench.beat("a", 0)
    told = bench.beat("a", 1, topics=("bills",))
    assert (told.member_epoch, told.assignment) == (1, frozenset())
    given = bench.beat("a", 1, owned=())
    assert given.assignment == partitions(bench, 0, topic="bills")


def test_a_change_of_topics_that_could_not_be_written_is_found_again(bench: GroupBench) -> None:
    bench.beat("a", 0)
    bench.beat("a", 1)
    bench.topics.put("orders", 5)
    bench.refuses_writes = True
    assert bench.beat("a", 1) is ErrorCode.coordinator_not_available
    bench.refuses_writes = False
    assert bench.beat("a", 1).assignment == partitions(bench, 0, 1, 2, 3, 4)


def test_regular_expressions_follow_the_topics_of_the_cluster(bench: GroupBench) -> None:
    joined = bench.beat("a", 0, topics=None, regex="ord.*")
    assert joined.assignment == partitions(bench, 0, 1, 2, 3)
    bench.topics.put("ordinary", 1)
    bench.topics.put("no-order", 1)
    assert bench.beat("a", 1).assignment == (
        partitions(bench, 0, 1, 2, 3) | partitions(bench, 0, topic="ordinary")
    )
    bench.fail_over()
    bench.topics.drop("ordinary")
    bench.beat("a", 2)
    assert bench.beat("a", 2, owned=partitions(bench, 0, 1, 2, 3)).member_epoch == 3


def test_expressions_that_cannot_be_read_are_refused(bench: GroupBench) -> None:
    refused = bench.beat("a", 0, topics=None, regex="(")
    assert refused is ErrorCode.invalid_regular_expression


def test_the_assignor_that_most_members_ask_for_is_used(bench: GroupBench) -> None:
    bench.topics.put("bills", 4)
    both = ("orders", "bills")
    bench.beat("a", 0, topics=both, assignor="range")
    bench.beat("b", 0, topics=both, assignor="range")
    targets = {name: indexes(places) for name, places in bench.consumers.targets.items()}
    assert targets == {"a": [0, 0, 1, 1], "b": [2, 2, 3, 3]}


def test_a_full_group_takes_no_more_members() -> None:
    bench = GroupBench(group_consumer_max_size="1")
    bench.topics.put("orders", 1)
    bench.beat("a", 0)
    assert bench.beat("b", 0) is ErrorCode.group_max_size_reached


def test_a_group_may_keep_time_in_its_own_way(bench: GroupBench) -> None:
    bench.group_settings = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "6000",
    }
    assert bench.beat("a", 0).heartbeat_interval_ms == 6000
    bench.wait(49_999)
    assert bench.state == "Stable"
    bench.wait(1)
    assert bench.state == "Empty"


def test_commits_are_taken_in_the_members_epoch_and_for_what_it_had_before(
    bench: GroupBench,
) -> None:
    bench.beat("a", 0)

    def commit(partition: int, epoch: int, **how: Any) -> Any:
        topic_id = next(iter(partitions(bench, 0))).topic_id
        return bench.commit(
            7,
            partition=partition,
            topic_id=topic_id,
            member_id=how.pop("member_id", "a"),
            generation=epoch,
            version=how.pop("version", 9),
            **how,
        )

    assert commit(0, 1) is ErrorCode.none
    assert commit(0, 1, version=8) is ErrorCode.unsupported_version
    assert commit(0, 1, member_id="b") is ErrorCode.unknown_member_id
    assert commit(0, 5) is ErrorCode.stale_member_epoch
    bench.beat("b", 0)
    bench.beat("a", 1)
    bench.beat("a", 1, owned=partitions(bench, 0, 1))
    assert commit(0, 1) is ErrorCode.none
    assert commit(3, 1) is ErrorCode.stale_member_epoch
    assert commit(3, -1, producer=ProducerIdAndEpoch(1, 0), member_id="") is ErrorCode.none
    zombie = ProducerIdAndEpoch(1, 0)
    assert commit(3, 1, producer=zombie, version=5) is ErrorCode.illegal_generation
    assert commit(3, 1, producer=zombie, version=6) is ErrorCode.stale_member_epoch
    assert (
        commit(3, 1, producer=ProducerIdAndEpoch(1, 0), member_id="z")
        is ErrorCode.unknown_member_id
    )


def test_offsets_are_told_to_members_of_the_present_epoch(bench: GroupBench) -> None:
    bench.beat("a", 0)

    def fetch(member_id: str | None, epoch: int) -> Any:
        asked = Asked()
        bench.carry_out(
            bench.shard.fetch_offsets(
                "group", [], stable_only=True, member_id=member_id, member_epoch=epoch
            ),
            asked,
        )
        return asked.reply

    assert fetch("a", 1) == []
    assert fetch(None, -1) == []
    assert fetch("b", 1).code is ErrorCode.unknown_member_id
    assert fetch("a", 3).code is ErrorCode.stale_member_epoch


def test_a_group_without_members_is_deleted_with_all_its_records(bench: GroupBench) -> None:
    bench.beat("a", 0, topics=None, regex="o.*")
    bench.beat("a", -1)
    bench.carry_out(bench.shard.delete_group("group"), Asked())
    assert bench.state == "Dead"
    bench.fail_over()
    assert bench.state == "Dead"
