"""Committed offsets: who may commit, what is kept, for how long."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.group_bench import Asked, GroupBench

from tidelog.coordinator.batch_limit import AT_ONCE
from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.protocol.codec import encode
from tidelog.protocol.stored.consumer_protocol import ConsumerProtocolSubscription

PRODUCER = ProducerIdAndEpoch(7, 0)
DAY_MS = 86_400_000


def subscribed_to(*topics: str) -> tuple[tuple[str, bytes], ...]:
    subscription = ConsumerProtocolSubscription(topics=topics)
    return (("range", b"\x00\x00" + encode(subscription, 0)),)


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench()


def test_anybody_commits_for_a_group_without_members(bench: GroupBench) -> None:
    assert bench.committed() == -1
    assert bench.commit(42) is ErrorCode.none
    bench.fail_over()
    assert bench.committed() == 42
    assert bench.state == "Empty"


def test_only_members_of_the_present_generation_commit_for_a_group(bench: GroupBench) -> None:
    [joined] = bench.stable()
    own: Any = {"member_id": joined.member_id, "generation": joined.generation}
    assert bench.commit(1) is ErrorCode.unknown_member_id
    assert bench.commit(1, member_id="nobody", generation=1) is ErrorCode.unknown_member_id
    assert bench.commit(1, **{**own, "generation": 9}) is ErrorCode.illegal_generation
    assert bench.commit(1, **own) is ErrorCode.none


def test_a_generation_of_a_group_that_is_unknown_is_refused(bench: GroupBench) -> None:
    assert bench.commit(1, generation=3) is ErrorCode.illegal_generation
    assert bench.commit(1, generation=3, version=9) is ErrorCode.group_id_not_found
    in_transactions = [
        bench.commit(1, generation=3, producer=PRODUCER, version=version) for version in (5, 6)
    ]
    assert in_transactions == [ErrorCode.illegal_generation, ErrorCode.group_id_not_found]


def test_members_may_commit_while_others_join_but_not_before_the_assignment(
    bench: GroupBench,
) -> None:
    [joined] = bench.stable()
    own: Any = {"member_id": joined.member_id, "generation": joined.generation}
    waiting = bench.join()
    assert bench.commit(1, **own) is ErrorCode.none

    [rejoined, _] = bench.joined(bench.join(joined.member_id), waiting)
    own["generation"] = rejoined.generation
    assert bench.commit(2, **own) is ErrorCode.rebalance_in_progress


def test_a_commit_is_as_good_as_a_heartbeat(bench: GroupBench) -> None:
    [joined] = bench.stable(session_ms=10_000)
    bench.wait(9000)
    bench.commit(1, member_id=joined.member_id, generation=joined.generation)
    bench.wait(9000)
    assert bench.heartbeat(joined) is ErrorCode.none


def test_text_beside_an_offset_has_a_limit() -> None:
    bench = GroupBench(offset_metadata_max_bytes="4")
    assert bench.commit(1, metadata="12345") is ErrorCode.offset_metadata_too_large
    assert bench.commit(1, metadata="1234") is ErrorCode.none


def test_offsets_in_a_transaction_count_once_it_commits(bench: GroupBench) -> None:
    bench.commit(1)
    bench.commit(5, producer=PRODUCER)
    assert bench.committed() == 1
    assert bench.committed(stable_only=True) is ErrorCode.unstable_offset_commit

    bench.fail_over()
    assert bench.committed(stable_only=True) is ErrorCode.unstable_offset_commit
    bench.end_transaction(PRODUCER, committed=True)
    assert bench.committed(stable_only=True) == 5


def test_offsets_in_an_aborted_transaction_are_forgotten(bench: GroupBench) -> None:
    bench.commit(1)
    bench.commit(5, producer=PRODUCER)
    bench.end_transaction(PRODUCER, committed=False)
    assert bench.committed(stable_only=True) == 1


def test_a_transaction_does_not_overwrite_what_was_committed_after_it(bench: GroupBench) -> None:
    bench.commit(5, producer=PRODUCER)
    bench.commit(9)
    bench.end_transaction(PRODUCER, committed=True)
    assert bench.committed() == 9


def test_a_transaction_need_not_say_who_it_is_even_in_a_group_with_members(
    bench: GroupBench,
) -> None:
    bench.stable()
    assert bench.commit(5, producer=PRODUCER) is ErrorCode.none
    refused = bench.commit(5, producer=PRODUCER, member_id="nobody", generation=1)
    assert refused is ErrorCode.unknown_member_id


def test_offsets_expire_after_the_group_has_been_empty_for_the_retention_time() -> None:
    bench = GroupBench(offsets_retention_minutes="1440")
    bench.fail_over()
    [joined] = bench.stable(protocols=subscribed_to("orders"), session_ms=1_800_000)
    bench.commit(1, member_id=joined.member_id, generation=joined.generation)
    for _ in range(2 * DAY_MS // 1_000_000):
        bench.wait(1_000_000)
        assert bench.heartbeat(joined) is ErrorCode.none
    assert bench.committed() == 1

    bench.leave(joined.member_id)
    bench.wait(DAY_MS - 600_000)
    assert bench.committed() == 1
    bench.wait(1_200_000)
    assert bench.committed() == -1
    assert bench.state == "Dead"


def test_offsets_of_topics_that_a_group_left_behind_expire_while_it_lives() -> None:
    bench = GroupBench(offsets_retention_minutes="1440")
    bench.fail_over()
    [joined] = bench.stable(protocols=subscribed_to("orders"), session_ms=1_800_000)
    own: Any = {"member_id": joined.member_id, "generation": joined.generation}
    bench.commit(1, **own)
    bench.commit(1, topic="abandoned", **own)
    for _ in range(DAY_MS // 1_000_000 + 1):
        bench.wait(1_000_000)
        bench.heartbeat(joined)
    assert (bench.committed(), bench.committed("abandoned")) == (1, -1)


def test_a_client_may_say_how_long_its_offset_is_kept(bench: GroupBench) -> None:
    bench.fail_over()
    bench.commit(1, retention_ms=600_000, version=2)
    bench.wait(600_000)
    bench.wait(600_000)
    assert bench.committed() == -1


def test_offsets_under_a_transaction_do_not_expire() -> None:
    bench = GroupBench(offsets_retention_minutes="1")
    bench.fail_over()
    bench.commit(1)
    bench.commit(2, producer=PRODUCER)
    bench.wait(DAY_MS)
    assert bench.committed() == 1


def test_offsets_go_with_their_topic(bench: GroupBench) -> None:
    bench.commit(1)
    bench.commit(2, topic="other")
    bench.carry_out(bench.shard.topics_deleted(frozenset({"orders"}), bench.now), Asked())
    assert (bench.committed(), bench.committed("other")) == (-1, 2)


MANY = 2 * AT_ONCE + 1


@pytest.fixture
def many() -> GroupBench:
    """A group without members, with more offsets than one batch takes."""
    bench = GroupBench(offsets_retention_minutes="1")
    bench.fail_over()
    for partition in range(MANY):
        bench.commit(1, partition=partition)
    return bench


def offsets_left(bench: GroupBench) -> int:
    return len(bench.shard.offsets.of("group"))


def test_many_offsets_go_with_their_topic_in_several_batches(many: GroupBench) -> None:
    many.carry_out(many.shard.topics_deleted(frozenset({"orders"}), many.now), Asked())
    assert offsets_left(many) == MANY - AT_ONCE
    many.wait(100)
    assert offsets_left(many) == 0


def test_many_offsets_expire_in_several_batches(many: GroupBench) -> None:
    until_check_ms = many.config.offsets_retention_check_interval_ms
    many.wait(until_check_ms)
    assert offsets_left(many) == MANY - AT_ONCE
    many.wait(100)
    assert many.state == "Dead"


def test_expiry_that_could_not_be_written_is_tried_again_soon(many: GroupBench) -> None:
    many.refuses_writes = True
    many.wait(many.config.offsets_retention_check_interval_ms)
    many.refuses_writes = False
    many.wait(1000)
    assert many.state == "Dead"


def test_a_group_is_deleted_with_many_offsets_in_one_batch(many: GroupBench) -> None:
    asked = Asked()
    many.carry_out(many.shard.delete_group("group"), asked)
    assert (asked.reply, many.state) == (True, "Dead")


def test_a_group_with_more_offsets_than_a_batch_holds_goes_after_them(many: GroupBench) -> None:
    """Whenever that is cut short, there is still a group that can be deleted."""
    many.batch_bytes = 50_000
    replies = []
    while many.state != "Dead":
        asked = Asked()
        many.carry_out(many.shard.delete_group("group"), asked)
        replies.append(asked.reply)
        many.fail_over()
    assert replies == [False, False, True]


def test_offsets_of_topics_that_are_read_cannot_be_deleted(bench: GroupBench) -> None:
    [joined] = bench.stable(protocols=subscribed_to("orders"))
    own: Any = {"member_id": joined.member_id, "generation": joined.generation}
    bench.commit(1, **own)
    bench.commit(1, topic="other", **own)
    partitions = [TopicPartition("orders", 0), TopicPartition("other", 0)]
    asked = Asked()
    bench.carry_out(bench.shard.delete_offsets("group", partitions), asked)
    assert asked.reply == (ErrorCode.group_subscribed_to_topic, ErrorCode.none)
    assert (bench.committed(), bench.committed("other")) == (1, -1)


def test_while_it_is_not_known_what_members_read_no_offset_of_theirs_can_be_deleted(
    bench: GroupBench,
) -> None:
    """Their subscriptions cannot be read."""
    [joined] = bench.stable(protocols=(("range", b"not a subscription"),))
    bench.commit(1, member_id=joined.member_id, generation=joined.generation)
    for expected in (ErrorCode.group_subscribed_to_topic, ErrorCode.none):
        asked = Asked()
        bench.carry_out(bench.shard.delete_offsets("group", [TopicPartition("orders", 0)]), asked)
        assert asked.reply == (expected,)
        bench.leave(joined.member_id)
    assert bench.committed() == -1


def test_only_groups_without_members_are_deleted(bench: GroupBench) -> None:
    def delete() -> object:
        asked = Asked()
        decided = bench.shard.delete_group("group")
        bench.carry_out(decided, asked)
        return decided.code if isinstance(decided, Refusal) else None

    assert delete() is ErrorCode.group_id_not_found
    [joined] = bench.stable()
    bench.commit(1, member_id=joined.member_id, generation=joined.generation)
    assert delete() is ErrorCode.non_empty_group
    bench.leave(joined.member_id)
    assert delete() is None
    bench.fail_over()
    assert (bench.state, bench.committed()) == ("Dead", -1)
