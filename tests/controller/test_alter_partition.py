"""A leader proposes in-sync replicas; the controller takes or refuses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from tidelog.controller.alter_partition import AlteredPartition, IsrProposal, ProposedIsrMember
from tidelog.controller.records import (
    RECOVERED,
    RECOVERING,
)
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import PartitionChangeRecord

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    """Four live brokers; three of them hold the topic, which needs two in sync."""
    made = new_cluster(min_insync_replicas="2")
    made.start(100, 101, 102, 103)
    made.create("orders", (100, 101, 102))
    return made


def code(outcome: object) -> ErrorCode:
    assert isinstance(outcome, Refusal), outcome
    return outcome.code


def test_a_leader_may_drop_a_follower_and_keeps_its_epoch(cluster: Cluster) -> None:
    assert cluster.propose((100, 102)) == AlteredPartition(
        leader=100, leader_epoch=0, partition_epoch=1, isr=(100, 102), recovery_state=RECOVERED
    )
    assert cluster.lead_isr_elr() == (100, (100, 102), ())
    assert cluster.last_isr_change().why == "leader 100 drops 101 from the ISR"


def test_a_follower_that_caught_up_comes_back(cluster: Cluster) -> None:
    cluster.propose((100, 102))

    cluster.propose((100, 101, 102))

    assert cluster.lead_isr_elr() == (100, (100, 101, 102), ())
    assert cluster.last_isr_change().why == "leader 100 takes 101 into the ISR"


def test_who_is_dropped_below_the_minimum_stays_eligible_until_it_is_reached_again(
    cluster: Cluster,
) -> None:
    cluster.propose((100,))
    assert cluster.lead_isr_elr() == (100, (100,), (101, 102))

    cluster.propose((100, 102))
    assert cluster.lead_isr_elr() == (100, (100, 102), ())


def test_the_same_isr_again_writes_nothing_and_is_confirmed(cluster: Cluster) -> None:
    offset = cluster.next_offset

    assert cluster.propose((100, 101, 102)) == AlteredPartition(
        leader=100,
        leader_epoch=0,
        partition_epoch=0,
        isr=(100, 101, 102),
        recovery_state=RECOVERED,
    )
    assert cluster.next_offset == offset


def test_a_stale_sender_gets_one_error_for_all(cluster: Cluster) -> None:
    assert code(cluster.propose((100,), broker_epoch=0)) is ErrorCode.stale_broker_epoch
    assert code(cluster.controller.alter_partition(77, 5, []).reply) is (
        ErrorCode.stale_broker_epoch
    )


EPOCH_LATER: dict[str, Any] = {"leader_epoch": 9}
PARTITION_EPOCH_LATER: dict[str, Any] = {"partition_epoch": 9}
EPOCH_EARLIER: dict[str, Any] = {"leader_epoch": -1}
PARTITION_EPOCH_EARLIER: dict[str, Any] = {"partition_epoch": -1}


@pytest.mark.parametrize(
    ("said", "isr", "error"),
    [
        ({"topic_id": UUID(int=9)} | EPOCH_LATER, (77,), ErrorCode.unknown_topic_id),
        ({"partition": 1} | EPOCH_LATER, (77,), ErrorCode.unknown_topic_or_partition),
        (EPOCH_LATER | PARTITION_EPOCH_EARLIER, (77,), ErrorCode.not_controller),
        (PARTITION_EPOCH_LATER | EPOCH_EARLIER, (77,), ErrorCode.not_controller),
        (EPOCH_EARLIER | {"sender": 101}, (77,), ErrorCode.fenced_leader_epoch),
        ({"sender": 101} | PARTITION_EPOCH_EARLIER, (77,), ErrorCode.invalid_request),
        (PARTITION_EPOCH_EARLIER, (77,), ErrorCode.invalid_update_version),
        ({}, (100, 103), ErrorCode.invalid_request),
        ({}, (), ErrorCode.invalid_request),
        ({}, (101, 102), ErrorCode.invalid_request),
        ({}, (100, 100), ErrorCode.invalid_request),
        ({"recovery_state": RECOVERING}, (100, 101), ErrorCode.invalid_request),
        ({"recovery_state": RECOVERING}, (100,), ErrorCode.invalid_request),
        ({"recovery_state": 7}, (100,), ErrorCode.invalid_request),
    ],
)
def test_the_first_check_that_fails_names_the_error(
    cluster: Cluster, said: dict[str, Any], isr: tuple[int, ...], error: ErrorCode
) -> None:
    before = cluster.image.digest()

    assert code(cluster.propose(isr, **said)) is error
    assert cluster.image.digest() == before


def test_a_fenced_replica_cannot_be_in_sync(cluster: Cluster) -> None:
    cluster.fence(101)

    assert code(cluster.propose((100, 101, 102))) is ErrorCode.ineligible_replica


def test_a_replica_that_shuts_down_cannot_be_in_sync(cluster: Cluster) -> None:
    cluster.create("others", (101, 100))
    cluster.beat(101, want_shut_down=True)

    refusal = cluster.propose((100, 101, 102))
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.why) == (
        ErrorCode.ineligible_replica,
        "Broker 101 is shutting down.",
    )


def test_a_replica_in_an_offline_directory_cannot_be_in_sync(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.start(100, 101, 102, directories=2)
    cluster.create("orders", (100, 101, 102))
    _, bad = cluster.image.brokers[101].log_dirs
    first, _, third = cluster.partition("orders").directories
    topic_id = cluster.image.topics_by_name["orders"].topic_id
    cluster.replay(
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, directories=(first, bad, third))
    )
    cluster.beat(101, offline_log_dirs=(bad,))
    assert cluster.partition("orders").isr == (100, 102)

    refusal = cluster.propose((100, 101, 102))
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.why) == (
        ErrorCode.ineligible_replica,
        "Broker 101 has its replica in a directory that is offline.",
    )


def test_an_unregistered_replica_cannot_be_in_sync(cluster: Cluster) -> None:
    cluster.do(cluster.controller.unregister_broker(101))

    assert code(cluster.propose((100, 101, 102))) is ErrorCode.ineligible_replica


def test_a_member_must_be_the_incarnation_the_leader_saw(cluster: Cluster) -> None:
    seen = cluster.image.brokers[101].broker_epoch
    cluster.wait(9000)
    for broker_id in (100, 102):
        cluster.beat(broker_id)
    cluster.restart(101)
    cluster.beat(101)
    now = cluster.image.brokers[101].broker_epoch

    old = cluster.propose((100, ProposedIsrMember(101, seen), 102))
    assert code(old) is ErrorCode.ineligible_replica
    new = cluster.propose((100, ProposedIsrMember(101, now), 102))
    assert isinstance(new, AlteredPartition)
    assert new.isr == (100, 101, 102)


def test_a_request_that_names_no_broker_epochs_is_taken_at_its_word(cluster: Cluster) -> None:
    cluster.propose((100, 102))

    assert isinstance(cluster.propose((100, ProposedIsrMember(101, -1), 102)), AlteredPartition)


def test_a_recovering_leader_says_when_it_has_recovered(new_cluster: NewCluster) -> None:
    cluster = new_cluster(elr=False)
    cluster.start(100, 101)
    cluster.create("orders", (100, 101), configs={"unclean.leader.election.enable": "true"})
    cluster.propose((100,))
    cluster.fence(100)
    assert cluster.partition("orders").recovery_state == RECOVERING
    cluster.beat(100)

    alone = cluster.propose((101,), recovery_state=RECOVERING)
    assert isinstance(alone, AlteredPartition)
    assert alone.recovery_state == RECOVERING
    early = cluster.propose((101, 100), recovery_state=RECOVERING)
    assert code(early) is ErrorCode.invalid_request
    done = cluster.propose((101, 100), recovery_state=RECOVERED)
    assert isinstance(done, AlteredPartition)
    assert (done.isr, done.recovery_state) == ((101, 100), RECOVERED)
    assert cluster.last_isr_change().why == "leader 101 takes 100 into the ISR and has recovered"


def test_the_end_of_a_reassignment_may_elect_another_leader(cluster: Cluster) -> None:
    cluster.reassign((103, 101, 102))
    topic_id = cluster.image.topics_by_name["orders"].topic_id
    partition = cluster.partition("orders")
    proposal = IsrProposal(
        0,
        partition.leader_epoch,
        partition.partition_epoch,
        tuple(ProposedIsrMember(broker_id) for broker_id in (100, 101, 102, 103)),
    )
    epoch = cluster.image.brokers[100].broker_epoch
    decision = cluster.controller.alter_partition(100, epoch, [(topic_id, [proposal])])

    assert isinstance(decision.reply, list)
    [(_, [(_, outcome)])] = decision.reply
    assert code(outcome) is ErrorCode.new_leader_elected
    assert [type(record) for record in decision.records] == [PartitionChangeRecord]
    cluster.do(decision)
    assert cluster.lead_isr_elr() == (103, (101, 102, 103), ())
    change = cluster.last_leader_change()
    assert (change.old, change.new, change.epoch) == (100, 103, 1)
    assert change.why == (
        "leader 100 takes 103 into the ISR; 103 is the first live in-sync replica"
    )


def test_the_end_of_a_reassignment_gives_a_leader_that_stays_a_new_epoch(
    cluster: Cluster,
) -> None:
    cluster.reassign((100, 101, 103))

    outcome = cluster.propose((100, 101, 102, 103))

    assert outcome == AlteredPartition(
        leader=100,
        leader_epoch=1,
        partition_epoch=2,
        isr=(100, 101, 103),
        recovery_state=RECOVERED,
    )


def test_a_second_proposal_in_one_request_is_overtaken_by_the_first(cluster: Cluster) -> None:
    topic_id = cluster.image.topics_by_name["orders"].topic_id
    epoch = cluster.image.brokers[100].broker_epoch
    shrink = IsrProposal(0, 0, 0, (ProposedIsrMember(100), ProposedIsrMember(101)))
    reply = cluster.do(
        cluster.controller.alter_partition(100, epoch, [(topic_id, [shrink, shrink])])
    )

    assert isinstance(reply, list)
    [(_, [(_, first), (_, second)])] = reply
    assert isinstance(first, AlteredPartition)
    assert code(second) is ErrorCode.invalid_update_version


def test_a_refused_partition_does_not_hold_the_others_up(cluster: Cluster) -> None:
    cluster.create("others", (100, 101))
    topic_id = cluster.image.topics_by_name["others"].topic_id
    epoch = cluster.image.brokers[100].broker_epoch
    shrink = IsrProposal(0, 0, 0, (ProposedIsrMember(100),))
    reply = cluster.do(
        cluster.controller.alter_partition(
            100, epoch, [(UUID(int=9), [shrink]), (topic_id, [shrink])]
        )
    )

    assert isinstance(reply, list)
    [(_, [(_, unknown)]), (_, [(_, taken)])] = reply
    assert code(unknown) is ErrorCode.unknown_topic_id
    assert isinstance(taken, AlteredPartition)
    assert cluster.lead_isr_elr("others") == (100, (100,), (101,))
