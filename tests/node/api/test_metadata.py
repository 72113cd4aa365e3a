"""Metadata: what each version lists, and topics that come into being by being asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.stored.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisteredEndpoint,
)

if TYPE_CHECKING:
    from tests.node.conftest import NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

ALL_VERSIONS = range(14)
NOT_ASKED = -(2**31)


def metadata(
    peer: Peer,
    version: int,
    *names: str,
    ids: tuple[UUID, ...] = (),
    everything: bool = False,
    create: bool = False,
    **more: Any,
) -> Any:
    topics: list[dict[str, Any]] | None = [{"name": name} for name in names]
    assert topics is not None
    topics += [{"name": None, "topic_id": topic_id} for topic_id in ids]
    if everything:
        topics = None
    return peer.ask(
        ApiKey.METADATA, version, topics=topics, allow_auto_topic_creation=create, **more
    )


def errors(answer: Any) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in answer.topics}


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_a_topic_is_listed_with_its_partitions_leaders_and_replicas(
    bench: NodeBench, peer: Peer, version: int
) -> None:
    topic_id = bench.create_topic("orders", 2)
    answer = metadata(peer, version, "orders")

    [broker] = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (100, "localhost", 9092)
    assert getattr(answer, "controller_id", 100) == 100
    assert getattr(answer, "error_code", 0) == 0
    if version >= 2:
        assert answer.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    [topic] = answer.topics
    assert (topic.error_code, topic.name) == (0, "orders")
    assert getattr(topic, "topic_id", topic_id) == topic_id
    assert hasattr(topic, "topic_id") == (version >= 10)
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id) == (0, 100)
        assert list(partition.replica_nodes) == list(partition.isr_nodes) == [100]
        assert getattr(partition, "leader_epoch", 0) == 0
        assert tuple(getattr(partition, "offline_replicas", ())) == ()


def test_no_list_means_all_topics_and_an_empty_one_none_except_in_version_0(
    bench: NodeBench, peer: Peer
) -> None:
    bench.create_topic("orders")
    bench.create_topic("clicks")
    assert errors(metadata(peer, 0)) == {"clicks": 0, "orders": 0}
    for version in ALL_VERSIONS[1:]:
        assert errors(metadata(peer, version)) == {}
        assert errors(metadata(peer, version, everything=True)) == {"clicks": 0, "orders": 0}


@pytest.mark.parametrize("version", [12, 13])
def test_from_version_12_on_a_topic_can_be_asked_for_by_id(
    bench: NodeBench, peer: Peer, version: int
) -> None:
    topic_id = bench.create_topic("orders")
    known, unknown = metadata(peer, version, ids=(topic_id, UUID(int=7))).topics
    assert (known.name, known.error_code) == ("orders", 0)
    assert (unknown.name, unknown.topic_id) == (None, UUID(int=7))
    assert unknown.error_code == ErrorCode.unknown_topic_id


@pytest.mark.parametrize("version", [10, 11])
def test_versions_10_and_11_have_ids_in_their_answers_only(
    bench: NodeBench, peer: Peer, version: int
) -> None:
    topic_id = bench.create_topic("orders")
    for asked in ({"name": "orders", "topic_id": topic_id}, {"name": None, "topic_id": topic_id}):
        answer = peer.ask(ApiKey.METADATA, version, topics=[asked], allow_auto_topic_creation=False)
        [topic] = answer.topics
        assert topic.error_code == ErrorCode.invalid_request


def test_a_topic_named_twice_is_listed_once(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders")
    assert len(metadata(peer, 12, "orders", "orders").topics) == 1


def test_internal_topics_are_marked(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("__consumer_offsets")
    known, missing = metadata(peer, 12, "__consumer_offsets", "__transaction_state").topics
    assert (known.is_internal, missing.is_internal) == (True, True)


def test_operations_are_told_only_to_those_who_ask(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders")
    silent = metadata(peer, 10, "orders")
    asked = metadata(
        peer,
        10,
        "orders",
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert silent.cluster_authorized_operations == NOT_ASKED
    assert silent.topics[0].topic_authorized_operations == NOT_ASKED
    assert asked.cluster_authorized_operations > 0
    assert asked.topics[0].topic_authorized_operations > 0


# Topics that do not exist


def test_a_missing_topic_is_created_for_those_who_allow_it(bench: NodeBench, peer: Peer) -> None:
    assert errors(metadata(peer, 12, "orders")) == {"orders": ErrorCode.unknown_topic_or_partition}
    [topic] = metadata(peer, 12, "orders", create=True).topics
    assert (topic.error_code, topic.partitions[0].leader_id) == (0, 100)


@pytest.mark.parametrize("version", range(4))
def test_below_version_4_every_client_allows_it(peer: Peer, version: int) -> None:
    answer = peer.ask(ApiKey.METADATA, version, topics=[{"name": "orders"}])
    assert errors(answer) == {"orders": 0}


def test_nothing_is_created_when_the_broker_does_not_allow_it(new_bench: NewBench) -> None:
    peer = new_bench(auto_create_topics_enable="false").connect()
    answer = metadata(peer, 12, "orders", create=True)
    assert errors(answer) == {"orders": ErrorCode.unknown_topic_or_partition}


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("name", ["no spaces", "", ".", "x" * 250])
def test_a_name_that_no_topic_can_have_is_invalid(peer: Peer, name: str, create: bool) -> None:
    answer = metadata(peer, 12, name, "orders", create=create)
    assert errors(answer)[name] == ErrorCode.invalid_topic_exception
    assert errors(answer)["orders"] == (0 if create else ErrorCode.unknown_topic_or_partition)


def test_a_missing_topic_named_twice_is_created_once(peer: Peer) -> None:
    assert errors(metadata(peer, 12, "orders", "orders", create=True)) == {"orders": 0}


def test_two_clients_that_ask_for_the_same_missing_topic_both_get_it(bench: NodeBench) -> None:
    first, second = bench.connect(), bench.connect()
    bench.holds_jobs = True
    for peer in (first, second):
        peer.send(ApiKey.METADATA, 12, topics=[{"name": "orders"}], allow_auto_topic_creation=True)
    assert first.frames == second.frames == [], "nothing is told before it is committed"
    bench.run_jobs()
    for peer in (first, second):
        _, answer = decode_response(ApiKey.METADATA, 12, peer.answer())
        assert errors(answer) == {"orders": 0}


# Brokers


def replay(bench: NodeBench, *records: Any) -> None:
    """Let the broker learn something from the metadata log."""
    image = bench.node.cluster.image
    for record in records:
        image.replay(record, image.end_offset)


@pytest.fixture
def second_broker(bench: NodeBench) -> NodeBench:
    """Broker 101 leads orders-0; it has no listener for clients."""
    topic_id = bench.create_topic("orders")
    replay(
        bench,
        RegisterBrokerRecord(
            broker_id=101,
            incarnation_id=UUID(int=1),
            broker_epoch=5,
            end_points=(
                RegisteredEndpoint(name="INSIDE", host="inside", port=9094, security_protocol=0),
            ),
            features=(),
            rack="r1",
            fenced=False,
            log_dirs=(UUID(int=1000),),
        ),
        PartitionChangeRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=(101, 100),
            isr=(101,),
            leader=101,
            directories=(UUID(int=1000), UUID(int=1001)),
        ),
    )
    return bench


@pytest.mark.parametrize("version", [5, 6])
def test_a_leader_that_the_client_cannot_reach_is_no_leader(
    second_broker: NodeBench, peer: Peer, version: int
) -> None:
    answer = metadata(peer, version, "orders")
    [partition] = answer.topics[0].partitions
    expected = ErrorCode.listener_not_found if version >= 6 else ErrorCode.leader_not_available
    assert (partition.error_code, partition.leader_id) == (expected, -1)
    assert [broker.node_id for broker in answer.brokers] == [100]
    assert answer.controller_id == 100, "somebody the client can reach"


def test_a_fenced_broker_is_left_out_and_its_replicas_are_offline(
    second_broker: NodeBench, peer: Peer
) -> None:
    replay(second_broker, BrokerRegistrationChangeRecord(broker_id=101, broker_epoch=5, fenced=1))
    [partition] = metadata(peer, 12, "orders").topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.leader_not_available, -1)
    assert list(partition.offline_replicas) == [101]


def test_a_partition_without_leader_says_so(second_broker: NodeBench, peer: Peer) -> None:
    topic_id = second_broker.node.cluster.image.topics_by_name["orders"].topic_id
    replay(second_broker, PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=-1))
    [partition] = metadata(peer, 12, "orders").topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.leader_not_available, -1)
    assert partition.leader_epoch == 2


def test_clients_of_each_listener_get_its_addresses(new_bench: NewBench) -> None:
    bench = new_bench(
        listeners="INSIDE://in:1,OUTSIDE://out:2,CONTROLLER://localhost:9093",
        inter_broker_listener_name="INSIDE",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    for listener, address in (("INSIDE", ("in", 1)), ("OUTSIDE", ("out", 2))):
        [broker] = metadata(bench.connect(listener), 12).brokers
        assert (broker.host, broker.port) == address


def test_metadata_is_not_served_on_the_controller_listener(bench: NodeBench) -> None:
    peer = bench.connect("CONTROLLER")
    peer.send(ApiKey.METADATA, 12, topics=None, allow_auto_topic_creation=False)
    assert peer.closed is not None
