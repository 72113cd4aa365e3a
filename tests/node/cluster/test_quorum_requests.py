"""What voters, and tools that change them, say on the controller listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.controller.features import KRAFT_VERSION, NODE_FEATURES, LevelRange
from tidelog.model.errors import ErrorCode
from tidelog.node.api import api_versions
from tidelog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Client, Cluster, Machine, NewCluster

METADATA = "__cluster_metadata"


@pytest.fixture
def trio(new_cluster: NewCluster) -> Cluster:
    three = new_cluster(3, controllers=3)
    three.start()
    return three


def leader(cluster: Cluster) -> Machine:
    return next(each for each in cluster.machines.values() if each.node.quorum.is_leader)


def follower(cluster: Cluster) -> Machine:
    return next(each for each in cluster.machines.values() if not each.node.quorum.is_leader)


def controller_client(cluster: Cluster, machine: Machine) -> Client:
    return cluster.client(machine.node_id, "CONTROLLER")


def vote(asked: Machine, **how: Any) -> dict[str, Any]:
    """A candidate that has everything asks for a vote in the next epoch."""
    quorum = asked.node.quorum
    partition = {
        "partition_index": 0,
        "replica_epoch": quorum.epoch + 1,
        "replica_id": 102 if asked.node_id != 102 else 101,
        "last_offset_epoch": quorum.epoch,
        "last_offset": quorum.log.end_offset + 1000,
        **how,
    }
    return {"topics": [{"topic_name": METADATA, "partitions": [partition]}]}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_vote_is_given_in_every_version(trio: Cluster, version: int) -> None:
    asked = follower(trio)
    answer = controller_client(trio, asked).ask(ApiKey.VOTE, version, **vote(asked))
    [partition] = answer.topics[0].partitions
    assert (partition.error_code, partition.vote_granted) == (0, True)
    assert partition.leader_id == -1


def test_a_vote_is_not_given_to_somebody_who_has_less(trio: Cluster) -> None:
    asked = follower(trio)
    request = vote(asked, last_offset=1)
    [partition] = controller_client(trio, asked).ask(ApiKey.VOTE, 2, **request).topics[0].partitions
    assert (partition.error_code, partition.vote_granted) == (0, False)


def test_a_pre_vote_against_a_leader_that_is_there_is_refused_and_changes_nothing(
    trio: Cluster,
) -> None:
    asked = follower(trio)
    epoch = asked.node.quorum.epoch
    request = vote(asked, replica_epoch=epoch, pre_vote=True)
    answer = controller_client(trio, asked).ask(ApiKey.VOTE, 2, **request)
    [partition] = answer.topics[0].partitions
    assert not partition.vote_granted
    assert (partition.leader_id, partition.leader_epoch) == (leader(trio).node_id, epoch)
    [endpoint] = answer.node_endpoints
    assert (endpoint.node_id, endpoint.port) == (leader(trio).node_id, 9093)


@pytest.mark.parametrize("api", [ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH])
def test_another_cluster_and_another_topic_are_refused(trio: Cluster, api: ApiKey) -> None:
    client = controller_client(trio, follower(trio))
    answer = client.ask(api, 1, cluster_id="another", topics=[])
    assert answer.error_code == ErrorCode.inconsistent_cluster_id
    assert client.ask(api, 1, topics=[]).error_code == ErrorCode.invalid_request


def test_a_leader_of_the_past_is_fenced(trio: Cluster) -> None:
    asked = follower(trio)
    past = {"partition_index": 0, "leader_id": 100, "leader_epoch": 0}
    client = controller_client(trio, asked)
    for api in (ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH):
        topics = [{"topic_name": METADATA, "partitions": [past]}]
        [partition] = client.ask(api, 0, topics=topics).topics[0].partitions
        assert partition.error_code == ErrorCode.fenced_leader_epoch
        assert partition.leader_epoch == asked.node.quorum.epoch


def test_only_the_leader_describes_the_quorum_on_a_controller_listener(trio: Cluster) -> None:
    topics = [{"topic_name": METADATA, "partitions": [{"partition_index": 0}]}]
    answer = controller_client(trio, leader(trio)).ask(ApiKey.DESCRIBE_QUORUM, 2, topics=topics)
    [partition] = answer.topics[0].partitions
    assert [voter.replica_id for voter in partition.current_voters] == [100, 101, 102]
    assert [node.node_id for node in answer.nodes] == [100, 101, 102]
    refused = controller_client(trio, follower(trio)).ask(ApiKey.DESCRIBE_QUORUM, 2, topics=topics)
    assert refused.error_code == ErrorCode.not_controller


def test_a_voter_is_removed_and_added_again_through_any_broker(trio: Cluster) -> None:
    gone = follower(trio)
    key = gone.node.quorum.identity
    through = next(each for each in trio.machines if each != gone.node_id)
    client = trio.client(through)
    who = {"cluster_id": None, "voter_id": key.id, "voter_directory_id": key.directory_id}
    assert client.ask(ApiKey.REMOVE_RAFT_VOTER, 0, **who).error_code == 0
    assert key.id not in leader(trio).node.quorum.voters.voter_ids
    trio.wait(1000)
    listeners = [{"name": "CONTROLLER", "host": gone.host, "port": 9093}]
    joining = {**who, "timeout": 1000, "listeners": listeners}
    assert client.ask(ApiKey.ADD_RAFT_VOTER, 1, **joining).error_code == 0
    assert leader(trio).node.quorum.voters.voter_ids == (100, 101, 102)
    again = client.ask(ApiKey.ADD_RAFT_VOTER, 1, **joining)
    assert again.error_code == ErrorCode.duplicate_voter


def test_a_node_that_cannot_be_reached_or_is_no_controller_gets_no_vote(trio: Cluster) -> None:
    client, gone = trio.client(leader(trio).node_id), follower(trio)
    key = gone.node.quorum.identity
    who = {"cluster_id": None, "voter_id": key.id, "voter_directory_id": key.directory_id}
    client.ask(ApiKey.REMOVE_RAFT_VOTER, 0, **who)
    trio.wait(1000)
    nowhere = [{"name": "CONTROLLER", "host": gone.host, "port": 9099}]
    refused = client.ask(ApiKey.ADD_RAFT_VOTER, 1, **who, timeout=1000, listeners=nowhere)
    assert refused.error_code == ErrorCode.request_timed_out
    assert "could not be reached" in refused.error_message

    there = [{"name": "CONTROLLER", "host": gone.host, "port": 9093}]
    stranger = {**who, "voter_id": 7, "timeout": 1000, "listeners": there}
    assert client.ask(ApiKey.ADD_RAFT_VOTER, 1, **stranger).error_code == ErrorCode.invalid_request
    assert key.id not in leader(trio).node.quorum.voters.voter_ids


def removed_voter(trio: Cluster) -> tuple[Machine, dict[str, Any]]:
    """A controller without a vote, and what one has to say to give it one."""
    gone = follower(trio)
    key = gone.node.quorum.identity
    who = {"cluster_id": None, "voter_id": key.id, "voter_directory_id": key.directory_id}
    assert trio.client(leader(trio).node_id).ask(ApiKey.REMOVE_RAFT_VOTER, 0, **who).error_code == 0
    trio.wait(1000)
    listeners = [{"name": "CONTROLLER", "host": gone.host, "port": 9093}]
    return gone, {**who, "timeout": 1000, "listeners": listeners}


def test_a_node_that_does_not_support_the_version_of_the_quorum_gets_no_vote(
    trio: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, joining = removed_voter(trio)
    older = {**NODE_FEATURES, KRAFT_VERSION: LevelRange(0, 0)}
    monkeypatch.setattr(api_versions, "NODE_FEATURES", older)

    refused = trio.client(leader(trio).node_id).ask(ApiKey.ADD_RAFT_VOTER, 1, **joining)

    assert refused.error_code == ErrorCode.invalid_request
    assert refused.error_message == f"Node {gone.node_id} does not support kraft.version 1."
    assert gone.node_id not in leader(trio).node.quorum.voters.voter_ids


def test_a_leader_that_lost_its_lead_while_it_looked_at_a_node_gives_it_no_vote(
    trio: Cluster,
) -> None:
    gone, joining = removed_voter(trio)
    before = leader(trio)
    gone.is_paused = True
    client = controller_client(trio, before)
    client.send(ApiKey.ADD_RAFT_VOTER, 1, **joining)
    trio.settle()
    other = next(each for each in trio.machines if each not in (gone.node_id, before.node_id))
    later = vote(before, replica_id=other)
    controller_client(trio, before).ask(ApiKey.VOTE, 2, **later)
    assert not before.node.quorum.is_leader

    gone.is_paused = False
    trio.wait_until(lambda: bool(client.frames), 1000)

    _, refused = decode_response(ApiKey.ADD_RAFT_VOTER, 1, client.frames[0])
    assert refused.error_code == ErrorCode.not_controller
    assert refused.error_message == "Another node is the active controller by now."


def test_a_leader_that_loses_its_lead_before_a_vote_is_committed_passes_the_request_on(
    trio: Cluster,
) -> None:
    gone, joining = removed_voter(trio)
    before = leader(trio)
    other = next(each for each in trio.machines.values() if each not in (gone, before))
    client = trio.client(before.node_id)
    before.holds_jobs = other.is_paused = True
    client.send(ApiKey.ADD_RAFT_VOTER, 1, **joining)
    trio.wait_until(lambda: gone.node_id in before.node.quorum.voters.voter_ids, 1000)
    controller_client(trio, before).send(ApiKey.VOTE, 2, **vote(before, replica_id=other.node_id))
    trio.settle()
    assert not before.node.quorum.is_leader and not client.frames

    before.holds_jobs = other.is_paused = False
    before.release_jobs()
    trio.wait_until(lambda: bool(client.frames), 10_000)

    _, answer = decode_response(ApiKey.ADD_RAFT_VOTER, 1, client.frames[0])
    assert leader(trio) is not before
    assert answer.error_message == f"Node {gone.node_id} votes already."


def test_a_removed_leader_hands_over_and_follows(trio: Cluster) -> None:
    before = leader(trio)
    key = before.node.quorum.identity
    who = {"cluster_id": None, "voter_id": key.id, "voter_directory_id": key.directory_id}
    assert trio.client(before.node_id).ask(ApiKey.REMOVE_RAFT_VOTER, 0, **who).error_code == 0
    trio.wait(5000)
    after = leader(trio)
    assert after is not before
    assert before.node.rooms.control.channel.leader_id == after.node_id
    assert before.image.end_offset == after.image.end_offset


def test_a_voter_that_says_where_it_listens_is_described_anew(trio: Cluster) -> None:
    moved = follower(trio).node.quorum
    fields = {
        "cluster_id": None,
        "current_leader_epoch": moved.epoch,
        "voter_id": moved.identity.id,
        "voter_directory_id": moved.identity.directory_id,
        "listeners": [{"name": "CONTROLLER", "host": "elsewhere", "port": 19093}],
        "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
    }
    answer = controller_client(trio, leader(trio)).ask(ApiKey.UPDATE_RAFT_VOTER, 0, **fields)
    assert answer.error_code == 0
    trio.wait(20)
    trio.wait(2100)
    voter = leader(trio).node.quorum.voters.by_id(moved.identity.id)
    assert voter is not None
    assert voter.endpoints == moved.endpoints, "the voter itself set that right"
