"""A partition while this node leads it: progress, the high watermark, acknowledgements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.replication.cluster import leader_of

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.observe.events import PartitionBecameLeader
from tidelog.observe.replication_events import HighWatermarkMoved
from tidelog.records.validation import BatchRules, RejectedBatch
from tidelog.replication.messages import FollowerFetch, Progress
from tidelog.storage.log_config import LogConfig

if TYPE_CHECKING:
    from tests.replication.cluster import Cluster
    from tests.replication.conftest import NewCluster, NewPartition, PartitionBench


LAG_MAX_MS = 30_000


def refusal_of(outcome: object) -> ErrorCode:
    assert isinstance(outcome, RejectedBatch)
    return outcome.refusal.code


# Becoming leader


def test_a_new_leader_knows_nothing_of_its_followers_until_they_fetch(cluster: Cluster) -> None:
    cluster.lead(101)
    cluster.append(101, b"a")
    cluster.settle(100, 102)
    cluster.lead(100)
    followers = cluster[100].leader.followers
    assert {broker_id: follower.end_offset for broker_id, follower in followers.items()} == {
        101: -1,
        102: -1,
    }
    cluster.append(100, b"b")
    cluster.fetch_well(101)
    assert cluster[100].high_watermark == 1, "102 was silent"


def test_a_leader_elected_again_forgets_what_followers_said_in_an_earlier_epoch(
    cluster: Cluster,
) -> None:
    cluster.lead(101)
    cluster.append(101, b"a", b"b")
    cluster.fetch_well(100, 102)
    asked = cluster.ask(102)
    cluster.lead(102, None, 100)  # an epoch of which 101 does not hear
    cluster.lead(101)
    assert cluster[101].high_watermark == 0
    assert cluster.serve(asked).error == ErrorCode.fenced_leader_epoch
    assert cluster[101].high_watermark == 0
    cluster.fetch_well(100, 102)
    assert cluster[101].high_watermark == 2


def test_metadata_of_the_same_epoch_keeps_what_followers_said(cluster: Cluster) -> None:
    cluster.lead(101, (100, 101))
    cluster.append(101, b"a")
    cluster.fetch_well(100, 102)
    before = cluster[101].partition
    fewer = before.leadership._replace(partition_epoch=9, replicas=(100, 101), in_sync=(101,))
    before.apply(fewer, cluster.now)
    assert set(leader_of(before).followers) == {100}
    assert leader_of(before).followers[100].end_offset == 0
    before.apply(fewer._replace(partition_epoch=10, replicas=(100, 101, 103)), cluster.now)
    assert leader_of(before).followers[103].end_offset == -1


def test_in_sync_followers_get_their_time_anew_from_a_new_leader(cluster: Cluster) -> None:
    cluster.pass_ms(1_000_000)
    cluster.lead(101, (100, 101))
    cluster.append(101, b"a")
    cluster.pass_ms(LAG_MAX_MS)
    leader = cluster[101].leader
    leader.shrink_if_due(cluster.now)
    assert leader.in_sync.pending is None
    cluster.pass_ms(1)
    leader.shrink_if_due(cluster.now)
    assert leader.in_sync.pending is not None
    assert leader.in_sync.pending.ids == (101,)
    assert leader.in_sync.pending.cause == "100 was silent in this epoch"


class Session:
    """The interest of a follower whose fetch waits at the leader."""

    def last_heard_ms(self, now_ms: int) -> int:
        return now_ms


def test_a_burst_after_a_long_silence_drops_nobody_who_had_everything(cluster: Cluster) -> None:
    cluster.lead(101, (100, 101))
    leader = cluster[101].leader
    asked = FollowerFetch(100, cluster.epoch_of(100), 0, 0, 0, Session())
    assert leader.follower_fetched(asked, cluster.now) is None
    cluster.pass_ms(10 * LAG_MAX_MS)
    cluster.append(101, b"a")
    cluster.append(101, b"b")
    behind = asked._replace(fetch_offset=1, leader_end_before_read=2)
    assert leader.follower_fetched(behind, cluster.now) is None
    cluster.pass_ms(LAG_MAX_MS)
    leader.shrink_if_due(cluster.now)
    assert leader.in_sync.pending is None
    cluster.pass_ms(1)
    leader.shrink_if_due(cluster.now)
    assert leader.in_sync.pending is not None


def test_a_leader_alone_commits_what_it_has_when_its_epoch_begins(bench: PartitionBench) -> None:
    bench.lead(0, 101)
    bench.append(b"a", b"b")
    bench.lead(1)
    assert bench.partition.high_watermark.offset == 2
    [moved] = [event for event in bench.events if isinstance(event, HighWatermarkMoved)]
    assert (moved.before, moved.after, moved.cause) == (0, 2, "the epoch began")
    began = [event for event in bench.events if isinstance(event, PartitionBecameLeader)]
    assert [(event.leader_epoch, event.start_offset) for event in began] == [(0, 0), (1, 2)]


# Acknowledgements


def test_with_too_few_in_sync_acks_all_is_refused_and_nothing_is_written(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(min_in_sync=2)
    cluster.lead(101, (101,))
    refused = cluster.produce(101, b"a", acks=-1)
    assert refusal_of(refused) is ErrorCode.not_enough_replicas
    assert cluster[101].log.end_offset == 0
    assert cluster.append(101, b"a", acks=1).first_offset == 0
    assert cluster.append(101, b"a", acks=0).first_offset == 1


def test_what_is_no_batch_is_refused_as_such_before_replicas_are_counted(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(min_in_sync=2)
    cluster.lead(101, (101,))
    leader = cluster[101].leader
    for records in (None, memoryview(bytearray(b"no batch"))):
        refused = leader.append(records, cluster.now, 9, acks=-1)
        assert refusal_of(refused) is ErrorCode.invalid_record


def test_a_partition_with_fewer_replicas_than_asked_for_takes_acks_all(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(101, min_in_sync=2)
    cluster.lead(101)
    cluster.append(101, b"a", acks=-1)
    assert cluster[101].high_watermark == 1
    assert cluster[101].leader.acknowledgement(1) is ErrorCode.none


def test_acks_all_is_answered_when_the_high_watermark_passes_the_batch(cluster: Cluster) -> None:
    cluster.lead(101)
    leader = cluster[101].leader
    told: list[ErrorCode] = []
    appended = cluster.append(101, b"a", b"b", acks=-1)
    assert leader.acknowledgement(appended.last_offset + 1) is None
    leader.wait_for(appended.last_offset + 1, told.append)
    cluster.fetch_well(100, 102, 100)
    assert told == []
    cluster.fetch_well(102)
    assert told == [ErrorCode.none]


def test_leadership_lost_and_regained_answers_what_waited_with_no(cluster: Cluster) -> None:
    cluster.lead(101)
    leader = cluster[101].leader
    told: list[ErrorCode] = []
    cluster.append(101, b"a", acks=-1)
    leader.wait_for(1, told.append)
    cluster.lead(101)
    assert told == [ErrorCode.not_leader_or_follower]
    cluster.settle(100, 102)
    assert cluster[101].high_watermark == 1
    assert told == [ErrorCode.not_leader_or_follower], "exactly once"


def test_too_few_in_sync_when_the_high_watermark_has_passed_is_told_after_the_append(
    cluster: Cluster,
) -> None:
    cluster.lead(101, (101,))
    cluster.append(101, b"a", acks=-1)
    partition, leader = cluster[101].partition, cluster[101].leader
    assert leader.acknowledgement(1) is ErrorCode.none
    partition.configure(LogConfig(), BatchRules(), 2, cluster.now)
    assert leader.acknowledgement(1) is ErrorCode.not_enough_replicas_after_append


@pytest.mark.parametrize("how", ["offline", "flush"])
def test_a_failed_directory_answers_what_waited(new_partition: NewPartition, how: str) -> None:
    bench = new_partition(flush_messages=1)
    bench.lead(0, 101)
    bench.append()
    told: list[ErrorCode] = []
    bench.leader.wait_for(1, told.append)
    bench.leader.wait_for_starts(1, told.append)
    job = bench.partition.owed_flush
    assert job is not None
    if how == "flush":
        bench.partition.flushed(job, "Input/output error", bench.now)
        assert told == [ErrorCode.kafka_storage_error]
    bench.partition.went_offline()
    assert told == [ErrorCode.kafka_storage_error] * 2


def test_a_partition_that_is_gone_answers_what_waited(bench: PartitionBench) -> None:
    bench.lead(0, 101)
    bench.append()
    told: list[ErrorCode] = []
    bench.leader.wait_for(1, told.append)
    bench.partition.abandon()
    assert told == [ErrorCode.not_leader_or_follower]
    refused = bench.partition.leader()
    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.not_leader_or_follower


def test_only_a_leader_appends(bench: PartitionBench) -> None:
    bench.follow(1)
    refused = bench.partition.leader()
    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.not_leader_or_follower
    assert refused.why == "orders-0 is led by 101"


# The high watermark


def test_the_high_watermark_stands_while_too_few_replicas_are_in_sync(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(min_in_sync=2)
    cluster.lead(101, (101,))
    cluster.append(101, b"a")
    assert cluster[101].high_watermark == 0
    cluster.fetch_well(100, 100)
    assert cluster[101].high_watermark == 0, "one more replica holds it, but it is not in sync yet"
    cluster.decide(101)
    assert cluster[101].high_watermark == 1
    [moved] = [event for event in cluster[101].events if isinstance(event, HighWatermarkMoved)]
    assert moved.cause == "the in-sync replicas changed"


def test_a_lowered_minimum_lets_the_high_watermark_go_on(new_cluster: NewCluster) -> None:
    cluster = new_cluster(min_in_sync=2)
    cluster.lead(101, (101,))
    cluster.append(101, b"a")
    cluster[101].partition.configure(LogConfig(), BatchRules(), 1, cluster.now)
    assert cluster[101].high_watermark == 1


def test_the_high_watermark_waits_for_a_live_follower_that_has_nearly_caught_up(
    cluster: Cluster,
) -> None:
    cluster.lead(101, (101,))
    cluster.fetch_well(102)
    cluster[101].leader.in_sync.revert()
    cluster.controller.fence(102)
    cluster.append(101, b"a")
    assert cluster[101].high_watermark == 0, "102 was caught up a moment ago"
    cluster.tell(101)
    assert cluster[101].high_watermark == 1, "but it is fenced"


def test_the_high_watermark_does_not_wait_for_another_incarnation_of_a_follower(
    cluster: Cluster,
) -> None:
    cluster.lead(101, (101,))
    asked = cluster.ask(102)._replace(broker_epoch=7777)
    assert not cluster.serve(asked).error, "newer than the metadata this leader knows"
    cluster.append(101, b"a")
    assert cluster[101].high_watermark == 1
    assert not cluster[101].proposals


def test_the_high_watermark_goes_on_when_a_follower_out_of_sync_has_been_silent_for_long(
    cluster: Cluster,
) -> None:
    cluster.lead(101, (101,))
    cluster.fetch_well(102)
    cluster[101].proposals.clear()
    cluster[101].leader.in_sync.revert()
    cluster.append(101, b"a")
    assert cluster[101].high_watermark == 0
    cluster.pass_ms(LAG_MAX_MS + 1)
    cluster[101].leader.shrink_if_due(cluster.now)
    assert cluster[101].high_watermark == 1


def test_a_diverging_fetch_changes_nothing(cluster: Cluster) -> None:
    cluster.lead(101)
    cluster.append(101, b"a", b"b")
    cluster.fetch_well(102)
    cluster.lead(100)
    cluster.append(100, b"c")
    told = cluster.serve(cluster.ask(102))
    assert told.diverging_epoch == (1, 0), "epoch 1 wrote nothing here"
    assert cluster[100].leader.followers[102].end_offset == -1


# Fetches of followers


def test_a_fetch_of_an_earlier_incarnation_is_refused_and_changes_nothing(
    cluster: Cluster,
) -> None:
    cluster.lead(101)
    leader = cluster[101].leader
    refused = leader.follower_fetched(FollowerFetch(102, 101, 0, 0, 0), cluster.now)
    assert refused is not None
    assert refused.code is ErrorCode.not_leader_or_follower
    assert leader.followers[102].end_offset == -1
    unnamed = FollowerFetch(102, -1, 0, 0, 0)
    assert leader.follower_fetched(unnamed, cluster.now) is None
    assert leader.followers[102].end_offset == 0


def test_a_fetch_of_a_broker_without_a_replica_is_refused(cluster: Cluster) -> None:
    cluster.lead(101)
    leader = cluster[101].leader
    refused = leader.follower_fetched(FollowerFetch(103, -1, 0, 0, 0), cluster.now)
    assert refused is not None
    assert refused.code is ErrorCode.not_leader_or_follower


# Deleting records, reading from followers


def test_the_low_watermark_is_the_smallest_start_of_the_live_replicas(cluster: Cluster) -> None:
    cluster.lead(101)
    cluster.append(101, b"a", b"b")
    cluster.settle(100, 102)
    partition, leader = cluster[101].partition, cluster[101].leader
    partition.raise_start_to(1)
    told: list[ErrorCode] = []
    leader.wait_for_starts(1, told.append)
    assert (partition.log.start_offset, leader.low_watermark()) == (1, 0)
    cluster.fetch_well(100, 100)
    assert cluster[100].log.start_offset == 1, "a follower takes over its leader's log start"
    assert (leader.low_watermark(), told) == (0, [])
    cluster.controller.fence(102)
    cluster.tell(101)
    assert (leader.low_watermark(), told) == (1, [ErrorCode.none])


def test_a_deletion_waits_for_a_follower_not_heard_of(cluster: Cluster) -> None:
    cluster.lead(101)
    told: list[ErrorCode] = []
    leader = cluster[101].leader
    leader.wait_for_starts(0, told.append)
    leader.look_again(cluster.now)
    assert (leader.low_watermark(), told) == (-1, [])
    cluster.fetch_well(100, 102)
    assert (leader.low_watermark(), told) == (0, [ErrorCode.none])


def test_consumers_may_read_from_in_sync_followers_that_hold_the_offset(cluster: Cluster) -> None:
    cluster.lead(101, (100, 101))
    cluster.append(101, b"a", b"b")
    cluster.fetch_well(100, 100, 102)
    leader = cluster[101].leader
    found = leader.read_candidates(1, cluster.now)
    assert [(candidate.broker_id, candidate.end_offset) for candidate in found] == [
        (101, 2),
        (100, 2),
    ]
    cluster.append(101, b"c")
    assert [found.broker_id for found in leader.read_candidates(3, cluster.now)] == [101]


# Those who wait


def test_followers_wait_for_the_end_of_the_log_and_consumers_for_the_high_watermark(
    bench: PartitionBench,
) -> None:
    bench.lead(0, 101)
    consumer, follower = bench.watch(), bench.watch(wants_log_end=True)
    bench.append(b"a")
    bench.append(b"b")
    size = bench.partition.log.size_bytes // 2
    assert (consumer.told, follower.told, follower.news) == ([], [size, size], 0)
    bench.leader.follower_fetched(FollowerFetch(101, -1, 2, 0, 2), bench.now)
    assert (consumer.told, follower.told, follower.news) == ([2 * size], [size, size], 1)
    assert len(bench.partition.watchers) == 2
    bench.partition.watchers.remove(follower)
    bench.append(b"c")
    assert follower.told == [size, size]


def test_a_high_watermark_that_moves_over_records_of_an_earlier_epoch_wakes_its_consumers(
    bench: PartitionBench,
) -> None:
    bench.lead(0, 101)
    bench.append(b"a")
    bench.lead(1, 101)
    consumer = bench.watch()
    bench.leader.follower_fetched(FollowerFetch(101, -1, 1, 0, 1), bench.now)
    assert consumer.told == [0]


def test_an_answer_carries_the_high_watermark_as_it_is_after_the_fetch(cluster: Cluster) -> None:
    cluster.lead(101, (100, 101))
    cluster.append(101, b"a")
    assert isinstance(cluster.fetch(100), Progress)
    assert cluster[100].high_watermark == 0
    assert cluster.serve(cluster.ask(100)).high_watermark == 1
