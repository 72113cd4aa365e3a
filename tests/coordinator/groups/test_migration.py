"""Online upgrade and downgrade between the classic and the consumer protocol."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.group_bench import Asked, GroupBench

from tidelog.coordinator.groups.classic.group import ClassicGroup
from tidelog.coordinator.groups.classic.member import JoinGroupReply
from tidelog.coordinator.groups.consumer_protocol import (
    read_assignment,
    write_assignment,
)
from tidelog.model.errors import ErrorCode
from tidelog.protocol.codec import encode
from tidelog.protocol.stored.consumer_protocol import (
    ConsumerProtocolSubscription,
    NamedPartitions,
)


def subscribed(*owned: int) -> tuple[tuple[str, bytes], ...]:
    subscription = ConsumerProtocolSubscription(
        topics=("orders",),
        owned_partitions=(NamedPartitions(topic="orders", partitions=owned),) if owned else (),
    )
    return (("range", b"\x00\x01" + encode(subscription, 1)),)


def assigned(data: bytes) -> list[int]:
    return [index for topic in read_assignment(data) for index in topic.partitions]


@pytest.fixture
def bench() -> GroupBench:
    made = GroupBench()
    made.topics.put("orders", 4)
    return made


def classic(bench: GroupBench) -> JoinGroupReply:
    """A classic group whose one member has all partitions."""
    [joined] = bench.joined(bench.join(protocols=subscribed()))
    everything = (NamedPartitions(topic="orders", partitions=(0, 1, 2, 3)),)
    bench.sync(joined, {joined.member_id: write_assignment(everything, 1)})
    return joined


def rejoin(bench: GroupBench, member_id: str, *owned: int) -> Any:
    return bench.join(member_id, protocols=subscribed(*owned)).reply


def test_a_member_of_the_new_protocol_takes_a_classic_group_along(bench: GroupBench) -> None:
    old = classic(bench)
    new = bench.beat("new", 0)
    assert (new.member_epoch, new.assignment) == (2, frozenset())
    assert bench.consumers.members[old.member_id].assigned.keys() == {*bench.consumers.holders}

    assert bench.heartbeat(old) is ErrorCode.rebalance_in_progress
    told = rejoin(bench, old.member_id, 0, 1, 2, 3)
    assert (told.generation, told.leader) == (1, "")
    assert assigned(bench.sync(told).reply.assignment) == [0, 1]
    again = rejoin(bench, old.member_id, 0, 1)
    assert again.generation == 2
    assert assigned(bench.sync(again).reply.assignment) == [0, 1]
    assert len(bench.beat("new", 2).assignment) == 2

    bench.fail_over()
    assert bench.heartbeat(again) is ErrorCode.none
    assert bench.beat("new", 2).member_epoch == 2


def test_whoever_waits_in_the_classic_group_joins_again(bench: GroupBench) -> None:
    old = classic(bench)
    waiting = bench.join(protocols=subscribed())
    bench.beat("new", 0)
    assert waiting.reply.error is ErrorCode.rebalance_in_progress
    assert bench.heartbeat(old) is ErrorCode.rebalance_in_progress


def test_the_group_is_classic_again_when_the_last_new_member_is_gone(bench: GroupBench) -> None:
    old = classic(bench)
    bench.beat("new", 0)
    rejoin(bench, old.member_id, 0, 1, 2, 3)
    member = rejoin(bench, old.member_id, 0, 1)
    bench.sync(member)
    bench.beat("new", -1)
    bench.wait(0)
    assert bench.state == "PreparingRebalance"

    again = rejoin(bench, old.member_id, 0, 1)
    assert (again.leader, len(again.members)) == (old.member_id, 1)
    bench.sync(again, {old.member_id: b"all"})
    bench.fail_over()
    assert bench.state == "Stable"


def test_a_new_member_whose_session_ends_lets_the_group_go_back(bench: GroupBench) -> None:
    [old] = bench.joined(bench.join(protocols=subscribed(), session_ms=300_000))
    bench.sync(old, {})
    bench.beat("new", 0)
    bench.wait(45_000)
    assert bench.state == "PreparingRebalance"


def test_no_classic_group_begins_before_the_end_of_the_other_is_written(
    bench: GroupBench,
) -> None:
    bench.beat("new", 0)
    bench.beat("new", -1)
    bench.refuses_writes = True
    refused = bench.join(protocols=subscribed()).reply
    assert refused.code is ErrorCode.coordinator_not_available
    assert bench.consumers.is_empty
    bench.refuses_writes = False
    bench.join(protocols=subscribed())
    bench.joined(bench.join(protocols=subscribed()))
    bench.fail_over()
    assert "group" not in bench.shard.groups


def test_empty_groups_change_their_protocol_without_ado(bench: GroupBench) -> None:
    bench.commit(3)
    assert bench.beat("new", 0).member_epoch == 1
    assert bench.committed() == 3
    bench.beat("new", -1)
    assert bench.join(protocols=subscribed()).reply.error is ErrorCode.coordinator_load_in_progress
    [joined] = bench.joined(bench.join(protocols=subscribed()))
    assert joined.generation == 1
    assert bench.committed() == 3
    bench.sync(joined, {})
    bench.fail_over()
    assert bench.state == "Stable"


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_may_forbid_the_upgrade(policy: str) -> None:
    bench = GroupBench(group_consumer_migration_policy=policy)
    bench.topics.put("orders", 1)
    classic(bench)
    assert bench.beat("new", 0) is ErrorCode.group_id_not_found
    assert bench.state == "Stable"


def test_the_policy_may_forbid_the_downgrade() -> None:
    bench = GroupBench(group_consumer_migration_policy="upgrade")
    bench.topics.put("orders", 4)
    old = classic(bench)
    bench.beat("new", 0)
    bench.beat("new", -1)
    bench.wait(0)
    assert bench.state == "Assigning"
    assert bench.heartbeat(old) is ErrorCode.rebalance_in_progress


def test_classic_groups_of_other_make_are_not_upgraded(bench: GroupBench) -> None:
    bench.stable(protocol_type="connect")
    assert bench.beat("new", 0) is ErrorCode.group_id_not_found


def test_classic_members_join_a_consumer_group(bench: GroupBench) -> None:
    bench.beat("new", 0)
    first = bench.join(protocols=subscribed(), version=5).reply
    assert first.error is ErrorCode.member_id_required
    joined = rejoin(bench, first.member_id)
    assert joined.generation == 2
    assert assigned(bench.sync(joined).reply.assignment) == []
    assert bench.heartbeat(joined) is ErrorCode.none

    bench.beat("new", 1)
    everything = bench.consumers.targets["new"]
    bench.beat("new", 1, owned=everything)
    assert bench.heartbeat(joined) is ErrorCode.rebalance_in_progress
    more = rejoin(bench, first.member_id)
    assert assigned(bench.sync(more).reply.assignment) == [2, 3]


def test_a_classic_member_rests_until_the_next_assignment_is_due() -> None:
    bench = GroupBench(group_consumer_assignment_interval_ms="1000")
    bench.topics.put("orders", 4)
    bench.beat("new", 0)
    bench.wait(400)
    joined = bench.join(protocols=subscribed()).reply
    assert joined.generation == 1
    assert assigned(bench.sync(joined).reply.assignment) == []
    assert bench.heartbeat(joined) is ErrorCode.none

    bench.wait(600)
    assert bench.heartbeat(joined) is ErrorCode.rebalance_in_progress
    assert rejoin(bench, joined.member_id).generation == 2
    assert bench.state == "Reconciling"


def test_classic_members_of_a_consumer_group_leave(bench: GroupBench) -> None:
    bench.beat("new", 0)
    joined = bench.join(protocols=subscribed()).reply
    assert bench.leave("new", joined.member_id) == (ErrorCode.unknown_member_id, ErrorCode.none)
    assert list(bench.consumers.members) == ["new"]


def test_a_classic_member_that_does_not_join_again_in_time_is_removed(bench: GroupBench) -> None:
    bench.beat("new", 0)
    joined = bench.join(protocols=subscribed(), session_ms=300_000, rebalance_ms=20_000).reply
    bench.sync(joined)
    bench.beat("other", 0)
    assert bench.heartbeat(joined) is ErrorCode.rebalance_in_progress
    bench.wait(20_000)
    assert bench.heartbeat(joined) is ErrorCode.unknown_member_id


def test_other_protocol_types_do_not_fit_a_consumer_group(bench: GroupBench) -> None:
    bench.beat("new", 0)
    refused = bench.join(protocol_type="connect", protocols=subscribed())
    assert refused.reply.error is ErrorCode.inconsistent_group_protocol
    asked = Asked()
    bench.carry_out(bench.shard.describe_group("group"), asked)
    assert asked.reply.code is ErrorCode.group_id_not_found


def test_an_upgrade_that_could_not_be_stored_leaves_the_classic_group_its_sessions(
    bench: GroupBench,
) -> None:
    live, _ = bench.stable(2, protocols=subscribed())
    bench.refuses_writes = True
    bench.beat("new", 0)
    bench.refuses_writes = False
    for _ in range(20):
        bench.wait(4000)
        bench.heartbeat(live)
    assert isinstance(bench.shard.groups["group"], ClassicGroup)
    assert bench.state == "Empty", "one fell silent, and the other did not join again"
