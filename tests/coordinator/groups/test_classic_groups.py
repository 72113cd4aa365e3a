"""Classic groups: joining, syncing, heartbeats, leaving."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.group_bench import Asked, GroupBench

from tidelog.coordinator.groups.classic.member import JoinGroupReply, SyncGroupReply
from tidelog.coordinator.groups.classic.syncing import LeavingMember
from tidelog.coordinator.groups.removal import NOT_EMPTY
from tidelog.model.errors import ErrorCode, Refusal

NEW_MEMBER_JOIN_MS = 300_000
EMPTY_AGAIN_MS = 1_000
PATIENT: Any = {"session_ms": 60_000, "rebalance_ms": 20_000}


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench()


def test_the_first_generation_has_all_who_joined_and_its_leader_knows_their_metadata(
    bench: GroupBench,
) -> None:
    first, second = bench.joined(bench.join(), bench.join(protocols=(("range", b"other"),)))

    assert first.generation == second.generation == 1
    assert first.leader == second.leader == first.member_id
    assert [metadata for _, _, metadata in first.members] == [b"meta", b"other"]
    assert second.members == ()
    assert bench.state == "CompletingRebalance"


def test_a_new_group_waits_for_others_and_longer_while_they_arrive() -> None:
    bench = GroupBench(group_initial_rebalance_delay_ms="3000")
    first = bench.join()
    bench.wait(2000)
    second = bench.join()
    bench.wait(1000)
    assert not first.is_answered

    bench.wait(3000)
    assert first.reply.generation == second.reply.generation == 1


def test_the_first_delay_ends_with_the_rebalance_timeout() -> None:
    bench = GroupBench(group_initial_rebalance_delay_ms="3000")
    first = bench.join(rebalance_ms=5000)
    for _ in range(3):
        bench.wait(2000)
        bench.join(rebalance_ms=5000)
    assert first.reply.generation == 1


def test_a_dynamic_member_must_come_back_with_the_id_it_was_given(bench: GroupBench) -> None:
    asked = bench.join(version=4)
    assert asked.reply.error is ErrorCode.member_id_required
    assert asked.reply.member_id.startswith("client-")

    [joined] = bench.joined(bench.join(asked.reply.member_id, version=4))
    assert joined.member_id == asked.reply.member_id


def test_an_id_that_does_not_come_back_is_forgotten_after_its_session(bench: GroupBench) -> None:
    given = bench.join(version=4, session_ms=10_000).reply.member_id
    bench.wait(10_000)
    bench.join()
    assert bench.join(given, version=4).reply.error is ErrorCode.unknown_member_id


def test_an_unknown_member_id_is_refused(bench: GroupBench) -> None:
    assert bench.join("nobody").reply.error is ErrorCode.unknown_member_id
    bench.stable()
    assert bench.join("nobody").reply.error is ErrorCode.unknown_member_id


def test_a_member_without_a_common_protocol_is_refused(bench: GroupBench) -> None:
    bench.stable()
    for refused in (
        bench.join(protocols=(("sticky", b""),)),
        bench.join(protocol_type="connect"),
        bench.join(protocols=()),
    ):
        assert refused.reply.error is ErrorCode.inconsistent_group_protocol


def test_the_protocol_that_most_members_prefer_wins(bench: GroupBench) -> None:
    likes = [("range", b""), ("sticky", b"")], [("sticky", b""), ("range", b"")]
    joined = bench.joined(*(bench.join(protocols=tuple(likes[n])) for n in (0, 1, 1)))
    assert {reply.protocol for reply in joined} == {"sticky"}


def test_a_full_group_takes_no_more_members() -> None:
    bench = GroupBench(group_max_size="1")
    bench.stable()
    assert bench.join().reply.error is ErrorCode.group_max_size_reached


def test_syncs_wait_for_the_leader_and_are_answered_with_each_ones_assignment(
    bench: GroupBench,
) -> None:
    leader, other = bench.joined(bench.join(), bench.join())
    waiting = bench.sync(other)
    assert waiting.reply is None

    own = bench.sync(leader, {leader.member_id: b"mine", other.member_id: b"yours"})
    assert own.reply.assignment == b"mine"
    assert waiting.reply == SyncGroupReply(
        protocol_type="consumer", protocol="range", assignment=b"yours"
    )
    assert bench.state == "Stable"


def test_a_repeated_sync_gets_the_same_assignment_even_from_the_next_coordinator(
    bench: GroupBench,
) -> None:
    [joined] = bench.stable()
    bench.fail_over()
    assert bench.sync(joined).reply.assignment == joined.member_id.encode()
    assert bench.heartbeat(joined) is ErrorCode.none


def test_an_assignment_that_cannot_be_stored_is_told_to_nobody(bench: GroupBench) -> None:
    leader, other = bench.joined(bench.join(), bench.join())
    waiting = bench.sync(other)
    bench.refuses_writes = True
    refused = bench.sync(leader, {leader.member_id: b"mine"})
    assert isinstance(refused.reply, Refusal)
    assert isinstance(waiting.reply, Refusal)
    assert bench.state == "CompletingRebalance"

    bench.refuses_writes = False
    assert bench.sync(leader, {leader.member_id: b"mine"}).reply.assignment == b"mine"


def test_syncs_of_another_generation_or_protocol_are_refused(bench: GroupBench) -> None:
    [joined] = bench.stable()
    stale = bench.sync(joined, generation=0)
    assert stale.reply.error is ErrorCode.illegal_generation
    for other in bench.sync(joined, protocol="sticky"), bench.sync(joined, protocol_type="connect"):
        assert other.reply.error is ErrorCode.inconsistent_group_protocol


def test_heartbeats_tell_of_a_rebalance_and_of_a_wrong_generation(bench: GroupBench) -> None:
    [joined] = bench.stable()
    assert bench.heartbeat(joined) is ErrorCode.none
    assert bench.heartbeat(joined, generation=7) is ErrorCode.illegal_generation

    newcomer = bench.join()
    assert bench.heartbeat(joined) is ErrorCode.rebalance_in_progress
    rejoined, told = bench.joined(bench.join(joined.member_id), newcomer)
    assert rejoined.generation == told.generation == 2


def test_a_silent_member_is_removed_and_the_others_rebalance(bench: GroupBench) -> None:
    quiet, lively = bench.stable(2, session_ms=10_000)
    bench.wait(6000)
    bench.heartbeat(lively)
    bench.wait(6000)
    assert bench.heartbeat(lively) is ErrorCode.rebalance_in_progress
    assert bench.heartbeat(quiet) is ErrorCode.unknown_member_id

    [rejoined] = bench.joined(bench.join(lively.member_id))
    assert [member_id for member_id, _, _ in rejoined.members] == [lively.member_id]


def test_members_who_do_not_rejoin_within_the_rebalance_timeout_are_removed(
    bench: GroupBench,
) -> None:
    lost, lively = bench.stable(2, **PATIENT)
    rejoining = bench.join(lively.member_id, protocols=(("range", b"new"),), **PATIENT)
    bench.wait(19_999)
    assert not rejoining.is_answered

    bench.wait(1)
    assert rejoining.reply.generation == 2
    assert rejoining.reply.leader == lively.member_id
    assert bench.heartbeat(lost) is ErrorCode.unknown_member_id


def test_members_who_do_not_sync_in_time_are_removed(bench: GroupBench) -> None:
    leader, late = bench.joined(*(bench.join(**PATIENT) for _ in range(2)))
    bench.sync(leader, {leader.member_id: b"all"})
    bench.wait(20_000)
    assert bench.heartbeat(late) is ErrorCode.unknown_member_id
    assert bench.heartbeat(leader) is ErrorCode.rebalance_in_progress


def test_a_follower_that_joins_again_unchanged_is_told_the_present_generation(
    bench: GroupBench,
) -> None:
    leader, follower = bench.stable(2)
    assert bench.join(follower.member_id).reply == follower
    assert bench.state == "Stable"

    assert bench.join(leader.member_id).reply is None
    assert bench.state == "PreparingRebalance"


def test_a_follower_with_other_metadata_makes_the_group_rebalance(bench: GroupBench) -> None:
    _, follower = bench.stable(2)
    assert bench.join(follower.member_id, protocols=(("range", b"new"),)).reply is None
    assert bench.state == "PreparingRebalance"


def test_a_rebalance_sends_those_who_wait_for_an_assignment_back(bench: GroupBench) -> None:
    _, follower = bench.joined(bench.join(), bench.join())
    waiting = bench.sync(follower)
    bench.join()
    assert waiting.reply.error is ErrorCode.rebalance_in_progress


def test_the_last_member_leaves_an_empty_group_behind_which_is_stored(bench: GroupBench) -> None:
    [joined] = bench.stable()
    assert bench.leave(joined.member_id, "nobody") == (ErrorCode.none, ErrorCode.unknown_member_id)
    assert bench.state == "Empty"

    bench.fail_over()
    assert bench.state == "Empty"
    [again] = bench.joined(bench.join())
    assert again.generation == joined.generation + 2


def leave_in_vain(bench: GroupBench, joined: JoinGroupReply) -> None:
    bench.refuses_writes = True
    leaver = LeavingMember(joined.member_id, None)
    bench.carry_out(bench.shard.leave("group", [leaver], bench.now), Asked())


def test_a_group_is_not_empty_before_that_is_stored(bench: GroupBench) -> None:
    [joined] = bench.stable()
    leave_in_vain(bench, joined)
    assert bench.state == "PreparingRebalance"
    bench.wait(5 * EMPTY_AGAIN_MS)
    assert bench.state == "PreparingRebalance"

    bench.refuses_writes = False
    bench.wait(EMPTY_AGAIN_MS)
    assert bench.state == "Empty"
    bench.fail_over()
    assert bench.state == "Empty"
    [again] = bench.joined(bench.join())
    assert again.generation == joined.generation + 2


def test_a_group_that_has_yet_to_store_that_it_is_empty_is_not_deleted(bench: GroupBench) -> None:
    [joined] = bench.stable()
    leave_in_vain(bench, joined)
    assert bench.shard.delete_group("group") == NOT_EMPTY

    bench.refuses_writes = False
    bench.wait(EMPTY_AGAIN_MS)
    asked = Asked()
    bench.carry_out(bench.shard.delete_group("group"), asked)
    bench.wait(5 * EMPTY_AGAIN_MS)
    assert "group" not in bench.shard.groups


def test_who_joins_a_group_that_could_not_be_stored_as_empty_begins_a_generation(
    bench: GroupBench,
) -> None:
    [joined] = bench.stable()
    leave_in_vain(bench, joined)
    bench.refuses_writes = False
    [again] = bench.joined(bench.join())
    assert again.generation > joined.generation


def test_a_new_member_whose_join_waits_is_given_up_after_five_minutes(bench: GroupBench) -> None:
    bench.stable(session_ms=1_800_000, rebalance_ms=1_800_000)
    waiting = bench.join(rebalance_ms=1_800_000)
    bench.wait(NEW_MEMBER_JOIN_MS)
    assert waiting.reply == JoinGroupReply(error=ErrorCode.unknown_member_id, member_id="")


def test_whoever_waits_is_told_when_the_coordinator_moves(bench: GroupBench) -> None:
    bench.stable()
    waiting = bench.join()
    bench.fail_over()
    assert waiting.reply.code is ErrorCode.not_coordinator


def test_a_static_member_takes_its_place_again_without_a_rebalance(bench: GroupBench) -> None:
    [before] = bench.stable(instance_id="i1")
    bench.fail_over()
    after = bench.join(instance_id="i1", version=9).reply
    assert after.member_id.startswith("i1-")
    assert after.member_id != before.member_id
    assert (after.generation, after.skip_assignment) == (before.generation, True)
    assert bench.sync(after, instance_id="i1").reply.assignment == before.member_id.encode()
    assert bench.heartbeat(before, instance_id="i1") is ErrorCode.fenced_instance_id

    bench.fail_over()
    assert bench.heartbeat(after, instance_id="i1") is ErrorCode.none


def test_an_old_static_leader_is_not_told_that_it_leads(bench: GroupBench) -> None:
    [before] = bench.stable(instance_id="i1")
    after = bench.join(instance_id="i1", version=5).reply
    assert (after.leader, after.members, after.skip_assignment) == (before.member_id, (), False)


def test_a_static_member_keeps_its_place_through_a_rebalance_it_misses(bench: GroupBench) -> None:
    leader, other = bench.stable(2, **PATIENT)
    static = bench.join(instance_id="i1", **PATIENT)
    bench.joined(static, *(bench.join(each.member_id, **PATIENT) for each in (leader, other)))
    again = bench.join(leader.member_id, protocols=(("range", b"new"),), **PATIENT)
    bench.join(other.member_id, **PATIENT)
    bench.wait(20_000)
    assert [instance for _, instance, _ in again.reply.members] == [None, None, "i1"]


def test_two_processes_with_one_instance_id_fence_each_other(bench: GroupBench) -> None:
    waiting = bench.join(instance_id="i1")
    bench.join(instance_id="i1")
    assert waiting.reply.error is ErrorCode.fenced_instance_id


def test_an_administrator_removes_a_static_member_by_its_instance_id(bench: GroupBench) -> None:
    bench.stable(instance_id="i1")
    assert bench.leave(LeavingMember("", "i2")) == (ErrorCode.unknown_member_id,)
    assert bench.leave(LeavingMember("", "i1")) == (ErrorCode.none,)
    assert bench.state == "Empty"


def test_a_generation_under_way_is_lost_with_its_coordinator(bench: GroupBench) -> None:
    [joined] = bench.stable()
    bench.join()
    bench.join(joined.member_id)
    bench.fail_over()
    assert bench.state == "Stable"
    assert bench.heartbeat(joined) is ErrorCode.none
