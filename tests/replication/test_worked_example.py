"""The worked example: 101 fails, 100 leads with a low high watermark, 102 diverges, 101 is back.

Told step by step with the numbers of the story of the protocol: what each broker holds, what the
leader has committed, and what travels between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.observe.events import LogTruncated
from tidelog.observe.replication_events import InSyncReplicasChanged
from tidelog.replication.messages import FetchState, Progress, ProposalFate

if TYPE_CHECKING:
    from tests.replication.cluster import Broker, Cluster


def ends(cluster: Cluster) -> tuple[int, ...]:
    return tuple(broker.log.end_offset for broker in cluster.brokers.values())


def high_watermarks(cluster: Cluster) -> tuple[int, ...]:
    return tuple(broker.high_watermark for broker in cluster.brokers.values())


def epochs(broker: Broker) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in broker.log.epochs.entries]


@pytest.fixture
def story(cluster: Cluster) -> Cluster:
    """Broker 101 leads in epoch 1; 100 lacks its last two records, and what it has committed."""
    cluster.lead(101)
    cluster.append(101, b"0", b"1")
    cluster.fetch_well(100, 102)
    assert ends(cluster) == (2, 2, 2)
    assert high_watermarks(cluster) == (0, 0, 0), "holding records tells the leader nothing yet"
    cluster.fetch_well(100, 102)
    assert high_watermarks(cluster) == (0, 2, 2), (
        "the next fetches do; 100 was answered before 102 asked"
    )
    cluster.append(101, b"2", b"3")
    cluster.fetch_well(102)
    assert ends(cluster) == (2, 4, 4)
    assert high_watermarks(cluster) == (0, 2, 2), "100 does not hold offsets 2 and 3"
    return cluster


def fail_101(cluster: Cluster) -> None:
    cluster[101].crash()
    cluster.controller.fence(101)
    cluster.tell()


def test_the_first_in_sync_replica_takes_over_with_a_high_watermark_that_is_too_low(
    story: Cluster,
) -> None:
    fail_101(story)
    leadership = story.controller.leadership
    assert (leadership.leader, leadership.leader_epoch) == (100, 2)
    assert leadership.in_sync == (100, 102), "still enough, but one is missing"
    leader = story[100].leader
    assert leader.epoch_start_offset == 2
    assert story[100].high_watermark == 0, "it never heard of the high watermark 2"
    assert leader.is_high_watermark_behind_epoch
    assert leader.is_not_available_yet(2), "a consumer that read on from 101 waits a moment"
    assert not leader.is_not_available_yet(0)
    assert not leader.is_not_available_yet(3), "nobody can have read what this leader lacks"


def test_a_follower_with_records_of_an_ended_epoch_cuts_them_and_is_reconciled(
    story: Cluster,
) -> None:
    fail_101(story)
    story.append(100, b"two")

    asked = story.ask(102)
    assert asked.state == FetchState(
        fetch_offset=4, leader_epoch=2, last_fetched_epoch=1, log_start_offset=0
    )
    told = story.serve(asked)
    assert (told.error, told.diverging_epoch, told.records) == (ErrorCode.none, (1, 2), None)
    assert story[100].high_watermark == 0, "a fetch that diverges proves nothing"

    assert story.hear(102, told) == Progress(truncated=True)
    [cut] = [event for event in story[102].events if isinstance(event, LogTruncated)]
    assert (cut.end_offset_before, cut.end_offset) == (4, 2)
    assert cut.cause == "epoch 1 ends at 2 in the log of leader 100"
    assert story.ask(102).state == FetchState(2, 2, 1, 0)

    story.fetch_well(102)
    assert epochs(story[102]) == [(1, 0), (2, 2)]
    assert story[100].high_watermark == 2, "its corrected fetch acknowledged offsets 0 and 1"
    assert not story[100].leader.is_not_available_yet(2), "the consumer goes on"
    assert story[102].log.end_offset == 3

    story.fetch_well(102)
    assert story[100].high_watermark == 3, "and the next one acknowledged the record of epoch 2"
    assert list(story[102].batches()) == list(story[100].batches())


def test_the_failed_leader_comes_back_reconciles_joins_and_leads_again(story: Cluster) -> None:
    fail_101(story)
    story.append(100, b"two")
    story.settle(102)

    story[101].start(checkpointed_high_watermark=2, now=story.now)
    story[101].broker_epoch = story.controller.register(101)
    story.tell()
    assert story.serve(story.ask(101)).diverging_epoch == (1, 2)
    story.fetch_well(101)
    assert story[101].log.end_offset == 2
    assert story[101].high_watermark == 2, "what was committed stays"
    story.fetch_well(101, 101)
    assert not story[100].proposals, "caught up, but fenced until the controller hears of it"

    story.controller.unfence(101)
    story.tell()
    story.fetch_well(101)
    [proposal] = story[100].proposals
    assert proposal.ids == (100, 101, 102)
    assert story.decide(100) is ProposalFate.COMMITTED
    [changed] = [e for e in story[100].events if isinstance(e, InSyncReplicasChanged)]
    assert (changed.in_sync_before, changed.in_sync) == ((100, 102), (100, 101, 102))
    assert changed.cause.startswith("101 has caught up")

    story.controller.move_to(101)
    story.tell()
    assert story.controller.leadership.leader_epoch == 3
    story.append(101, b"three")
    story.settle(100, 102)
    assert ends(story) == (4, 4, 4)
    assert high_watermarks(story) == (4, 4, 4)
    assert epochs(story[101]) == [(1, 0), (2, 2), (3, 3)]
    assert list(story[100].batches()) == list(story[101].batches()) == list(story[102].batches())


def test_nobody_leads_when_every_replica_in_sync_has_failed(story: Cluster) -> None:
    for broker_id in (101, 100, 102):
        story[broker_id].crash()
        story.controller.fence(broker_id)
    assert story.controller.leadership.leader == NO_LEADER
