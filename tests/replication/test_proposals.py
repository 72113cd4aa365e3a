"""How replicas join and leave the in-sync set (AlterPartition, the leader's side)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.observe.replication_events import InSyncReplicasChanged, InSyncReplicasProposed
from tidelog.replication.messages import InSyncReplicasAltered, ProposalFate, ProposedMember

if TYPE_CHECKING:
    from tests.replication.cluster import Cluster

    from tidelog.replication.messages import ProposeInSyncReplicas

LAG_MAX_MS = 30_000


@pytest.fixture
def joining(cluster: Cluster) -> Cluster:
    """101 leads with 100 in sync; 102 has caught up and is proposed."""
    cluster.lead(101, (100, 101))
    cluster.append(101, b"a")
    cluster.settle(100, 102)
    assert len(cluster[101].proposals) == 1
    return cluster


def proposal_of(cluster: Cluster) -> ProposeInSyncReplicas:
    proposal = cluster[101].leader.in_sync.pending
    assert proposal is not None
    return proposal


# Joining


def test_a_follower_that_caught_up_is_proposed_with_the_incarnation_that_fetched(
    joining: Cluster,
) -> None:
    proposal = proposal_of(joining)
    leadership = joining.controller.leadership
    assert proposal.leader_epoch == leadership.leader_epoch
    assert proposal.partition_epoch == leadership.partition_epoch
    assert proposal.members == (
        ProposedMember(100, 100),
        ProposedMember(101, 101),
        ProposedMember(102, 102),
    )
    [told] = [e for e in joining[101].events if isinstance(e, InSyncReplicasProposed)]
    assert (told.in_sync, told.proposed) == ((100, 101), (100, 101, 102))
    assert (
        told.cause == "102 has caught up: it holds everything below 0, the high watermark is at 0"
    )


def test_a_member_not_heard_of_in_this_epoch_is_proposed_without_its_incarnation(
    cluster: Cluster,
) -> None:
    cluster.lead(101, (100, 101))
    cluster.fetch_well(102)
    assert proposal_of(cluster).members[0] == ProposedMember(100, -1)


def test_a_follower_below_the_high_watermark_does_not_join(cluster: Cluster) -> None:
    cluster.lead(101, (101,))
    cluster.append(101, b"a")
    cluster.fetch_well(102)
    assert cluster[101].leader.in_sync.pending is None, (
        "it asked for offset 0, the high watermark is at 1"
    )
    cluster.fetch_well(102)
    assert proposal_of(cluster).ids == (101, 102)


def test_a_follower_below_the_start_of_the_epoch_does_not_join(cluster: Cluster) -> None:
    cluster.lead(101)
    cluster.append(101, b"a", b"b")
    cluster.fetch_well(100)
    cluster.lead(100, (100, 101))
    assert (cluster[100].high_watermark, cluster[100].leader.epoch_start_offset) == (0, 2)
    cluster.fetch_well(102)
    assert cluster[100].leader.in_sync.pending is None, (
        "at the high watermark, but the high watermark may be too low"
    )
    cluster.fetch_well(102)
    assert cluster[100].leader.in_sync.pending is not None


@pytest.mark.parametrize("why", ["fenced", "incarnation", "unregistered"])
def test_a_follower_joins_only_alive_and_in_the_incarnation_the_metadata_knows(
    cluster: Cluster, why: str
) -> None:
    cluster.lead(101, (100, 101))
    asked = cluster.ask(102)
    match why:
        case "fenced":
            cluster.controller.fence(102)
            cluster.tell(101)
        case "incarnation":
            asked = asked._replace(broker_epoch=103)
        case _:
            cluster[101].knows = {}
    assert not cluster.serve(asked).error
    assert cluster[101].leader.in_sync.pending is None


def test_a_proposed_follower_counts_for_the_high_watermark_before_the_controller_answers(
    joining: Cluster,
) -> None:
    joining.append(101, b"b")
    joining.fetch_well(100, 100)
    assert joining[101].high_watermark == 1, "102 may be in sync already"
    joining.fetch_well(102, 102)
    assert joining[101].high_watermark == 2


# Leaving


def test_members_that_fell_behind_for_too_long_are_proposed_to_leave_but_count_until_then(
    cluster: Cluster,
) -> None:
    cluster.lead(101)
    cluster.append(101, b"a")
    cluster.pass_ms(LAG_MAX_MS + 1)
    cluster.fetch_well(100, 100)
    cluster[101].leader.shrink_if_due(cluster.now)
    assert proposal_of(cluster).ids == (100, 101)
    assert proposal_of(cluster).cause == "102 was silent in this epoch"
    assert cluster[101].high_watermark == 0, "the controller may still elect 102"
    assert cluster.decide(101) is ProposalFate.COMMITTED
    assert cluster[101].high_watermark == 1
    [changed] = [e for e in cluster[101].events if isinstance(e, InSyncReplicasChanged)]
    assert (changed.in_sync_before, changed.in_sync) == ((100, 101, 102), (100, 101))


def test_a_member_that_has_everything_stays_however_long_it_is_silent(cluster: Cluster) -> None:
    cluster.lead(101)
    cluster.append(101, b"a")
    cluster.settle(100, 102)
    cluster.pass_ms(10 * LAG_MAX_MS)
    cluster[101].leader.shrink_if_due(cluster.now)
    assert cluster[101].leader.in_sync.pending is None
    cluster.append(101, b"b")
    cluster.fetch_well(100, 100)
    cluster[101].leader.shrink_if_due(cluster.now)
    assert proposal_of(cluster).cause == ("102 is at 1 of 2 and was last caught up 300000 ms ago")


def test_nobody_is_proposed_while_a_proposal_is_under_way(joining: Cluster) -> None:
    before = proposal_of(joining)
    joining.append(101, b"b")
    joining.pass_ms(LAG_MAX_MS + 1)
    joining[101].leader.shrink_if_due(joining.now)
    assert joining[101].leader.in_sync.pending is before
    assert len(joining[101].proposals) == 1


# Answers


@pytest.mark.parametrize(
    ("code", "fate", "still_pending"),
    [
        (ErrorCode.ineligible_replica, ProposalFate.REVERTED, False),
        (ErrorCode.operation_not_attempted, ProposalFate.REVERTED, False),
        (ErrorCode.unknown_topic_or_partition, ProposalFate.AWAITS_METADATA, True),
        (ErrorCode.unknown_topic_id, ProposalFate.AWAITS_METADATA, True),
        (ErrorCode.fenced_leader_epoch, ProposalFate.AWAITS_METADATA, True),
        (ErrorCode.invalid_update_version, ProposalFate.AWAITS_METADATA, True),
        (ErrorCode.invalid_request, ProposalFate.AWAITS_METADATA, True),
        (ErrorCode.new_leader_elected, ProposalFate.AWAITS_METADATA, True),
        (ErrorCode.not_controller, ProposalFate.RETRY, True),
        (ErrorCode.unknown_server_error, ProposalFate.RETRY, True),
    ],
)
def test_a_proposal_is_given_up_only_when_it_was_surely_not_applied(
    joining: Cluster, code: ErrorCode, fate: ProposalFate, still_pending: bool
) -> None:
    broker, proposal = joining[101], proposal_of(joining)
    outcome = Refusal(code, "refused")
    assert broker.leader.proposal_answered(proposal, outcome, joining.now) is fate
    assert (broker.leader.in_sync.pending is proposal) is still_pending
    assert broker.leader.in_sync.committed == {100, 101}
    assert (broker.leader.in_sync.maximal == {100, 101, 102}) is still_pending


def test_metadata_of_the_same_partition_epoch_leaves_a_proposal_standing(
    joining: Cluster,
) -> None:
    """It says nothing of the proposal, which may yet be applied: both sets count on."""
    broker, proposal = joining[101], proposal_of(joining)
    broker.partition.apply(broker.partition.leadership, joining.now)
    assert broker.leader.in_sync.pending is proposal
    assert broker.leader.in_sync.maximal == {100, 101, 102}


def test_a_proposal_that_was_not_taken_no_longer_holds_the_high_watermark(joining: Cluster) -> None:
    joining.append(101, b"b")
    joining.fetch_well(100, 100)
    joining.controller.fence(102)
    joining[101].knows = joining.controller.now.brokers
    assert joining[101].high_watermark == 1
    assert joining.decide(101) is ProposalFate.REVERTED
    assert joining[101].high_watermark == 2


def test_a_taken_proposal_brings_the_partition_epoch_that_metadata_brings_later(
    joining: Cluster,
) -> None:
    broker, proposal = joining[101], proposal_of(joining)
    outcome = joining.controller.decide(101, proposal)
    assert isinstance(outcome, InSyncReplicasAltered)
    assert broker.leader.proposal_answered(proposal, outcome, joining.now) is ProposalFate.COMMITTED
    assert broker.partition.leadership.in_sync == (100, 101, 102)
    assert broker.partition.leadership.partition_epoch == outcome.partition_epoch
    older = broker.partition.leadership._replace(partition_epoch=outcome.partition_epoch - 1)
    assert not broker.partition.apply(older._replace(in_sync=(100, 101)), joining.now)
    assert broker.leader.in_sync.committed == {100, 101, 102}


@pytest.mark.parametrize(("epochs_on", "versions_on"), [(1, 1), (0, -1)])
def test_an_answer_of_another_epoch_or_an_older_state_waits_for_metadata(
    joining: Cluster, epochs_on: int, versions_on: int
) -> None:
    broker, proposal = joining[101], proposal_of(joining)
    outcome = InSyncReplicasAltered(
        proposal.leader_epoch + epochs_on, proposal.partition_epoch + versions_on, proposal.ids
    )
    fate = broker.leader.proposal_answered(proposal, outcome, joining.now)
    assert fate is ProposalFate.AWAITS_METADATA
    assert broker.leader.in_sync.pending is proposal


def test_an_answer_that_changes_nothing_still_ends_the_proposal(joining: Cluster) -> None:
    broker, proposal = joining[101], proposal_of(joining)
    outcome = InSyncReplicasAltered(
        proposal.leader_epoch, proposal.partition_epoch, (100, 101, 102)
    )
    assert broker.leader.proposal_answered(proposal, outcome, joining.now) is ProposalFate.COMMITTED
    assert broker.leader.in_sync.pending is None


def test_newer_metadata_settles_a_proposal_and_its_answer_comes_too_late(
    joining: Cluster,
) -> None:
    broker, proposal = joining[101], proposal_of(joining)
    outcome = joining.controller.decide(101, proposal)
    joining.tell(101)
    assert broker.leader.in_sync.pending is None
    assert broker.leader.in_sync.committed == {100, 101, 102}
    [changed] = [e for e in joining[101].events if isinstance(e, InSyncReplicasChanged)]
    assert changed.cause.startswith("102 has caught up"), "the cause is ours all the same"
    joining.append(101, b"b")
    joining.pass_ms(LAG_MAX_MS + 1)
    broker.leader.shrink_if_due(joining.now)
    pending = proposal_of(joining)
    assert broker.leader.proposal_answered(proposal, outcome, joining.now) is ProposalFate.OVERTAKEN
    assert broker.leader.in_sync.pending is pending


def test_metadata_that_is_already_known_leaves_a_later_proposal_alone(joining: Cluster) -> None:
    broker, proposal = joining[101], proposal_of(joining)
    outcome = joining.controller.decide(101, proposal)
    broker.leader.proposal_answered(proposal, outcome, joining.now)
    joining.append(101, b"b")
    joining.fetch_well(100, 100)
    joining.pass_ms(LAG_MAX_MS + 1)
    broker.leader.shrink_if_due(joining.now)
    pending = proposal_of(joining)
    joining.tell(101)
    assert broker.leader.in_sync.pending is pending
    assert joining[101].high_watermark == 1


def test_a_new_epoch_forgets_the_proposals_of_the_one_before(joining: Cluster) -> None:
    broker, proposal = joining[101], proposal_of(joining)
    before = broker.leader
    outcome = joining.controller.decide(101, proposal)
    assert before.stands_by(proposal)
    joining.lead(101, (100, 101))
    assert not before.stands_by(proposal)
    assert broker.leader.in_sync.pending is None
    for leader in (before, broker.leader):
        fate = leader.proposal_answered(proposal, outcome, joining.now)
        assert fate is ProposalFate.OVERTAKEN
    joining.lead(100)
    assert before.proposal_answered(proposal, outcome, joining.now) is ProposalFate.OVERTAKEN
    assert broker.partition.leadership.leader == 100
