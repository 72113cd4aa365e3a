"""What brokers and operators ask of the controller over the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from tidelog.controller.alter_partition import AlteredPartition, IsrProposal, ProposedIsrMember
from tidelog.controller.directories import AssignedReplicas, ReplicaDirectory
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.observe.cluster_events import (
    BrokerFenced,
    BrokerUnregistered,
    InSyncReplicasDecided,
    LeaderElected,
)
from tidelog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Cluster, NewCluster

INCARNATION = UUID(int=4711)
DIRECTORY = UUID(int=12345)
UNKNOWN = UUID(int=999)


def registration(cluster: Cluster, **changes: Any) -> dict[str, Any]:
    known = cluster[100].image.brokers[100]
    fields: dict[str, Any] = {
        "broker_id": 107,
        "cluster_id": cluster[100].node.cluster.cluster_id,
        "incarnation_id": INCARNATION,
        "listeners": [
            {"name": "PLAINTEXT", "host": "elsewhere", "port": 9092, "security_protocol": 0}
        ],
        "features": [
            {
                "name": feature.name,
                "min_supported_version": feature.min_supported_version,
                "max_supported_version": feature.max_supported_version,
            }
            for feature in known.features
        ],
        "rack": "a",
        "log_dirs": [DIRECTORY],
        "previous_broker_epoch": -1,
    }
    return {**fields, **changes}


def beat(epoch: int, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "broker_id": 107,
        "broker_epoch": epoch,
        "current_metadata_offset": 1 << 40,
        "want_fence": False,
        "want_shut_down": False,
        "offline_log_dirs": [],
    }
    return {**fields, **changes}


# Registration and heartbeats


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_broker_registers_fenced_and_is_unfenced_by_a_heartbeat(
    cluster: Cluster, version: int
) -> None:
    client = cluster.client(100, "CONTROLLER")
    answer = client.ask(ApiKey.BROKER_REGISTRATION, version, **registration(cluster))
    assert answer.error_code == 0
    registered = cluster[100].image.brokers[107]
    assert registered.broker_epoch == answer.broker_epoch
    assert registered.fenced
    assert (registered.rack, registered.log_dirs) == ("a", (DIRECTORY,))
    assert registered.endpoint("PLAINTEXT") is not None
    epoch = answer.broker_epoch
    behind = client.ask(ApiKey.BROKER_HEARTBEAT, 1, **beat(epoch, current_metadata_offset=1))
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    there = client.ask(ApiKey.BROKER_HEARTBEAT, 1, **beat(epoch))
    assert (there.error_code, there.is_caught_up, there.is_fenced) == (0, True, False)
    assert not cluster[100].image.brokers[107].fenced


@pytest.mark.parametrize("version", [0, 1])
def test_a_registration_without_directories_is_refused(cluster: Cluster, version: int) -> None:
    client = cluster.client(100, "CONTROLLER")
    answer = client.ask(ApiKey.BROKER_REGISTRATION, version, **registration(cluster))
    assert answer.error_code == ErrorCode.invalid_registration


def test_another_incarnation_must_wait_for_the_live_one(cluster: Cluster) -> None:
    first, second = cluster.client(100, "CONTROLLER"), cluster.client(100, "CONTROLLER")
    first.ask(ApiKey.BROKER_REGISTRATION, 4, **registration(cluster))
    other = registration(cluster, incarnation_id=UUID(int=4712))
    refused = second.ask(ApiKey.BROKER_REGISTRATION, 4, **other)
    assert refused.error_code == ErrorCode.duplicate_broker_registration
    first.leave()
    cluster.wait(250)
    assert second.ask(ApiKey.BROKER_REGISTRATION, 4, **other).error_code == 0


def test_a_heartbeat_of_another_epoch_or_of_nobody_is_stale(cluster: Cluster) -> None:
    client = cluster.client(100, "CONTROLLER")
    epoch = client.ask(ApiKey.BROKER_REGISTRATION, 4, **registration(cluster)).broker_epoch
    for stale in (beat(epoch + 1), beat(epoch, broker_id=108)):
        answer = client.ask(ApiKey.BROKER_HEARTBEAT, 1, **stale)
        assert answer.error_code == ErrorCode.stale_broker_epoch


def test_a_stale_heartbeat_does_not_stand_for_the_broker(cluster: Cluster) -> None:
    stale = cluster.client(100, "CONTROLLER")
    stale.ask(ApiKey.BROKER_HEARTBEAT, 1, **beat(1, broker_id=101))
    stale.leave()
    cluster.wait(1000)
    assert cluster[100].of_kind(BrokerFenced) == []


def test_a_broker_that_asks_to_be_fenced_is(cluster: Cluster) -> None:
    client = cluster.client(100, "CONTROLLER")
    epoch = client.ask(ApiKey.BROKER_REGISTRATION, 4, **registration(cluster)).broker_epoch
    client.ask(ApiKey.BROKER_HEARTBEAT, 1, **beat(epoch))
    assert client.ask(ApiKey.BROKER_HEARTBEAT, 1, **beat(epoch, want_fence=True)).is_fenced
    assert cluster[100].of_kind(BrokerFenced)[-1].cause == "it asked to be fenced"


# In-sync sets


def led_by_101(cluster: Cluster) -> tuple[UUID, int, Any]:
    """A partition that 101 leads."""
    topic = cluster[100].image.topics_by_name["orders"]
    return next(
        (topic.topic_id, index, partition)
        for index, partition in topic.partitions.items()
        if partition.leader == 101
    )


def proposal(cluster: Cluster, **changes: Any) -> dict[str, Any]:
    topic_id, index, partition = led_by_101(cluster)
    fields: dict[str, Any] = {
        "partition_index": index,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "new_isr": [101],
        "new_isr_with_epochs": [{"broker_id": 101, "broker_epoch": -1}],
        "leader_recovery_state": 0,
    }
    return {
        "broker_id": 101,
        "broker_epoch": cluster[100].image.brokers[101].broker_epoch,
        "topics": [{"topic_id": topic_id, "partitions": [{**fields, **changes}]}],
    }


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_changes_the_in_sync_set_of_its_partition(cluster: Cluster, version: int) -> None:
    cluster.create_topic("orders", 4)
    topic_id, index, before = led_by_101(cluster)
    answer = cluster.client(100, "CONTROLLER").ask(
        ApiKey.ALTER_PARTITION, version, **proposal(cluster)
    )
    [partition] = answer.topics[0].partitions
    assert (answer.error_code, partition.error_code) == (0, 0)
    assert (partition.leader_id, tuple(partition.isr)) == (101, (101,))
    assert partition.partition_epoch == before.partition_epoch + 1
    after = cluster[100].image.topics_by_id[topic_id].partitions[index]
    assert after.isr == (101,)
    decided = cluster[100].of_kind(InSyncReplicasDecided)[-1]
    assert (decided.in_sync, decided.in_sync_before) == ((101,), before.isr)
    assert "leader 101 drops 100" in decided.cause


def test_a_proposal_from_the_past_is_refused_for_itself(cluster: Cluster) -> None:
    cluster.create_topic("orders", 4)
    answer = cluster.client(100, "CONTROLLER").ask(
        ApiKey.ALTER_PARTITION, 3, **proposal(cluster, leader_epoch=-1)
    )
    [partition] = answer.topics[0].partitions
    assert (answer.error_code, partition.error_code) == (0, ErrorCode.fenced_leader_epoch)


def test_a_stale_sender_is_refused_as_a_whole(cluster: Cluster) -> None:
    cluster.create_topic("orders", 4)
    stale = {**proposal(cluster), "broker_epoch": 0}
    answer = cluster.client(100, "CONTROLLER").ask(ApiKey.ALTER_PARTITION, 3, **stale)
    assert answer.error_code == ErrorCode.stale_broker_epoch
    assert answer.topics == ()


@pytest.mark.parametrize("leader", [100, 101])
def test_a_channel_to_the_controller_gives_the_same_answers_near_and_far(
    cluster: Cluster, leader: int
) -> None:
    topic_id = cluster.create_topic("orders", 4)
    partitions = cluster[100].image.topics_by_id[topic_id].partitions
    index, partition = next(each for each in partitions.items() if each[1].leader == leader)
    wish = IsrProposal(
        partition=index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=(ProposedIsrMember(leader, cluster[100].image.brokers[leader].broker_epoch),),
    )
    outcomes: list[Any] = []

    def answered(outcome: Any, now: Now) -> None:
        outcomes.append(outcome)

    control = cluster[leader].node.rooms.control.channel
    proposals = [(topic_id, [wish]), (UNKNOWN, [wish])]
    control.alter_partitions(cluster.now, proposals, answered)
    cluster[leader].carry_out(cluster[leader].node.rooms.base.runtime.take_effects())
    cluster.wait(10)
    [[altered, unknown]] = outcomes
    assert altered == (
        topic_id,
        [
            (
                index,
                AlteredPartition(
                    leader=leader,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch + 1,
                    isr=(leader,),
                    recovery_state=0,
                ),
            )
        ],
    )
    [(_, refusal)] = unknown[1]
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.unknown_topic_id


def test_a_channel_without_a_controller_says_that_nobody_can_tell(cluster: Cluster) -> None:
    cluster[100].kill()
    outcomes: list[Any] = []
    rooms = cluster[101].node.rooms
    rooms.control.channel.alter_partitions(
        cluster.now, [(UNKNOWN, [])], lambda outcome, now: outcomes.append(outcome)
    )
    cluster[101].carry_out(rooms.base.runtime.take_effects())
    cluster.wait(100)
    assert [outcome.code for outcome in outcomes] == [ErrorCode.network_exception]


def test_a_broker_hears_for_each_replica_whether_its_place_was_noted(cluster: Cluster) -> None:
    topic_id = cluster.create_topic("orders", factor=2)
    outcome: list[AssignedReplicas | Refusal] = []
    rooms = cluster[101].node.rooms
    directory_id = rooms.base.directories[0].identity.directory_id
    known, unknown = (ReplicaDirectory(directory_id, each, 0) for each in (topic_id, UNKNOWN))
    rooms.control.channel.assign_directories(
        cluster.now, [known, unknown], lambda told, now: outcome.append(told)
    )
    cluster[101].carry_out(rooms.base.runtime.take_effects())
    cluster.wait(100)
    [told] = outcome
    assert not isinstance(told, Refusal)
    codes = {place: None if refusal is None else refusal.code for place, refusal in told}
    assert codes == {known: None, unknown: ErrorCode.unknown_topic_id}


# Elections and reassignments


@pytest.mark.parametrize("via", [100, 101])
def test_leadership_goes_back_to_the_preferred_replica_when_somebody_asks(
    cluster: Cluster, via: int
) -> None:
    cluster.create_topic("orders", 4)
    cluster[101].kill()
    cluster.wait(300)
    cluster.start(101)
    cluster.wait(2000)  # until it is in sync again
    partitions = cluster[100].image.topics_by_name["orders"].partitions
    away = sorted(i for i, each in partitions.items() if each.leader != each.replicas[0])
    assert away
    answer = cluster.client(via).ask(
        ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=None, timeout=1000
    )
    assert answer.error_code == 0
    [result] = answer.replica_election_results
    assert sorted(each.partition_id for each in result.partition_result) == away
    partitions = cluster[100].image.topics_by_name["orders"].partitions
    assert all(each.leader == each.replicas[0] for each in partitions.values())
    assert "a preferred election was asked for" in cluster[100].of_kind(LeaderElected)[-1].cause


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_election_that_is_not_needed_is_refused(cluster: Cluster, version: int) -> None:
    cluster.create_topic("orders")
    answer = cluster.client(101).ask(
        ApiKey.ELECT_LEADERS,
        version,
        election_type=0,
        topic_partitions=[{"topic": "orders", "partitions": [0, 7]}],
        timeout=1000,
    )
    [result] = answer.replica_election_results
    codes = [each.error_code for each in result.partition_result]
    assert codes == [ErrorCode.election_not_needed, ErrorCode.unknown_topic_or_partition]


def test_a_partition_is_moved_and_the_move_is_listed_while_it_lasts(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(3)
    cluster.start()
    cluster.create_topic("orders", 1, factor=1)
    [source] = cluster[100].image.topics_by_name["orders"].partitions[0].replicas
    target = next(node_id for node_id in (101, 102) if node_id != source)
    cluster[target].kill()  # so that it takes a while
    client = cluster.client(100)
    move = {"name": "orders", "partitions": [{"partition_index": 0, "replicas": [target]}]}
    answer = client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, topics=[move], timeout=1000)
    assert answer.error_code == 0
    assert [each.error_code for each in answer.responses[0].partitions] == [0]
    listed = client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout=1000)
    [ongoing] = listed.topics[0].partitions
    assert set(ongoing.replicas) == {source, target}
    assert ongoing.adding_replicas == (target,)
    assert ongoing.removing_replicas == (source,)
    cancel = {"name": "orders", "partitions": [{"partition_index": 0, "replicas": None}]}
    answer = client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, topics=[cancel], timeout=1000)
    assert [each.error_code for each in answer.responses[0].partitions] == [0]
    listed = client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout=1000)
    assert listed.topics == ()


def test_reassignments_are_passed_on_and_refused_one_by_one(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    wishes = [
        {"partition_index": 0, "replicas": [100, 999]},
        {"partition_index": 5, "replicas": [100]},
        {"partition_index": 0, "replicas": None},
    ]
    answer = cluster.client(101).ask(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        1,
        topics=[{"name": "orders", "partitions": wishes}],
        timeout=1000,
    )
    assert [each.error_code for each in answer.responses[0].partitions] == [
        ErrorCode.invalid_replica_assignment,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.no_reassignment_in_progress,
    ]


def test_leaders_return_to_preferred_replicas_by_themselves(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2, leader_imbalance_check_interval_seconds="10")
    cluster.start()
    cluster.create_topic("orders", 4)
    cluster[101].kill()
    cluster.wait(300)
    cluster.start(101)
    cluster.wait(15_000)
    partitions = cluster[100].image.topics_by_name["orders"].partitions.values()
    assert all(partition.leader == partition.replicas[0] for partition in partitions)
    assert "prefer 101" in cluster[100].of_kind(LeaderElected)[-1].cause


# Unregistering


def test_a_broker_that_will_not_come_back_is_forgotten(cluster: Cluster) -> None:
    cluster.create_topic("orders", 2)
    epoch = cluster[100].image.brokers[101].broker_epoch
    cluster[101].kill()
    cluster.wait(300)
    answer = cluster.client(100).ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=101)
    assert answer.error_code == 0
    assert 101 not in cluster[100].image.brokers
    [gone] = cluster[100].of_kind(BrokerUnregistered)
    assert (gone.broker_id, gone.broker_epoch) == (101, epoch)
    assert gone.cause == "somebody asked for it"
    again = cluster.client(100).ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=101)
    assert again.error_code == ErrorCode.broker_id_not_registered
    assert again.error_message


def test_a_live_broker_that_was_forgotten_joins_anew(cluster: Cluster) -> None:
    before = cluster[101].node.cluster.broker_epoch
    cluster.client(101).ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=101)
    cluster.wait(5000)
    registered = cluster[100].image.brokers[101]
    assert registered.broker_epoch > before
    assert not registered.fenced
    assert cluster[101].node.cluster.broker_epoch == registered.broker_epoch
