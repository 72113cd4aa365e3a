"""ApiVersions, UpdateFeatures and DescribeQuorum: what the node and its cluster can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.node.node_bench import CLUSTER_ID, NODE_ID
from tests.protocol.kio_messages.entity_messages import decode_response, request_header

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC
from tidelog.protocol import codec
from tidelog.protocol.apis import SUPPORTED, ApiKey, ListenerScope
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

ELR = "eligible.leader.replicas.version"
GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"
KRAFT_VERSION = "kraft.version"
METADATA_VERSION = "metadata.version"


def ask(
    peer: Peer,
    version: int,
    name: str = "test",
    number: str = "1.0",
    cluster_id: str | None = None,
    node_id: int = -1,
) -> ApiVersionsResponse:
    asked = ApiVersionsRequest(
        client_software_name=name,
        client_software_version=number,
        cluster_id=cluster_id,
        node_id=node_id,
    )
    peer.send_frame(codec.encode_request(asked, version, 1, "test"))
    return codec.decode_response(ApiVersionsResponse, version, peer.answer())[1]


@pytest.mark.parametrize("version", range(6))
def test_every_api_of_the_listener_is_listed_with_its_versions(
    bench: NodeBench, version: int
) -> None:
    for listener, scope in (
        ("PLAINTEXT", ListenerScope.BROKER),
        ("CONTROLLER", ListenerScope.CONTROLLER),
    ):
        answer = ask(bench.connect(listener), version)
        listed = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert answer.error_code == 0
        assert listed == {
            key: (served.min, served.max)
            for key, served in SUPPORTED.items()
            if served.scope & scope
        }


def test_produce_is_listed_from_version_0_on(peer: Peer) -> None:
    listed = {each.api_key: each.min_version for each in ask(peer, 0).api_keys}
    assert listed[ApiKey.PRODUCE] == 0


@pytest.mark.parametrize("version", [6, 99])
def test_a_version_above_ours_is_answered_in_version_0_with_our_range(
    peer: Peer, version: int
) -> None:
    peer.send_frame(request_header(ApiKey.API_VERSIONS, version, 77, "new", True) + b"\xff\xff")
    correlation_id, answer = decode_response(ApiKey.API_VERSIONS, 0, peer.answer())
    assert (correlation_id, answer.error_code) == (77, ErrorCode.unsupported_version)
    [only] = answer.api_keys
    assert (only.api_key, only.min_version, only.max_version) == (18, 0, 5)
    assert peer.closed is None
    assert ask(peer, 5).error_code == 0


@pytest.mark.parametrize(
    ("name", "number"), [("", "1"), ("a", ""), ("-a", "1"), ("a", "1-"), ("a b", "1"), ("ä", "1")]
)
def test_software_names_are_letters_digits_dots_and_dashes(
    peer: Peer, name: str, number: str
) -> None:
    answer = ask(peer, 3, name, number)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.invalid_request, ())


@pytest.mark.parametrize("name", ["a", "apache-kafka-java", "A.9-z"])
def test_ordinary_software_names_are_welcome(peer: Peer, name: str) -> None:
    assert ask(peer, 3, name, "3.9.1").error_code == 0


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_a_client_that_means_this_node_of_this_cluster_is_welcome(
    bench: NodeBench, listener: str
) -> None:
    answer = ask(bench.connect(listener), 5, cluster_id=CLUSTER_ID, node_id=NODE_ID)
    assert answer.error_code is ErrorCode.none
    assert answer.api_keys


@pytest.mark.parametrize(
    ("cluster_id", "node_id"), [("another", NODE_ID), (CLUSTER_ID, NODE_ID + 1), ("", NODE_ID)]
)
def test_a_client_that_means_another_node_begins_again_with_its_bootstrap_servers(
    peer: Peer, cluster_id: str, node_id: int
) -> None:
    answer = ask(peer, 5, cluster_id=cluster_id, node_id=node_id)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.rebootstrap_required, ())
    assert peer.closed is None


@pytest.mark.parametrize(("cluster_id", "node_id"), [(None, NODE_ID), (CLUSTER_ID, -1)])
def test_a_cluster_and_a_node_are_meant_together_or_not_at_all(
    peer: Peer, cluster_id: str | None, node_id: int
) -> None:
    answer = ask(peer, 5, cluster_id=cluster_id, node_id=node_id)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.invalid_request, ())


def test_before_version_5_nobody_says_which_node_is_meant(peer: Peer) -> None:
    assert ask(peer, 4, cluster_id="another", node_id=7).error_code is ErrorCode.none


def test_features_that_begin_at_0_are_listed_from_version_4_on(peer: Peer) -> None:
    early = {each.name for each in ask(peer, 3).supported_features}
    late = {each.name: each for each in ask(peer, 4).supported_features}
    assert early == {METADATA_VERSION}
    assert set(late) == {METADATA_VERSION, ELR, GROUP_VERSION, TRANSACTION_VERSION, KRAFT_VERSION}
    assert (late[ELR].min_version, late[ELR].max_version) == (0, 1)


def test_finalized_features_come_with_the_offset_at_which_they_were_true(
    bench: NodeBench, peer: Peer
) -> None:
    before = ask(peer, 3)
    assert {each.name: each.max_version_level for each in before.finalized_features} == {
        METADATA_VERSION: 30,
        ELR: 1,
        GROUP_VERSION: 1,
        TRANSACTION_VERSION: 2,
        KRAFT_VERSION: 1,
    }
    assert before.finalized_features_epoch == bench.node.cluster.image.end_offset - 1
    bench.create_topic("orders")
    assert ask(peer, 3).finalized_features_epoch > before.finalized_features_epoch


# Requests that nobody serves


@pytest.mark.parametrize(
    ("key", "version"), [(4, 0), (9999, 0), (ApiKey.SHARE_FETCH, 1), (ApiKey.METADATA, 14)]
)
def test_an_api_or_version_that_is_not_served_closes_the_connection(
    bench: NodeBench, key: int, version: int
) -> None:
    peer = bench.connect()
    peer.send_frame(request_header(key, version, 1, "test", False))
    assert peer.closed is not None
    assert bench.connect().ask(ApiKey.METADATA, 1, topics=[]).topics == ()


# UpdateFeatures


def update(peer: Peer, version: int, feature: str, level: int, **how: Any) -> Any:
    fields: dict[str, Any] = {"feature": feature, "max_version_level": level}
    down = how.get("down", False)
    fields |= {"allow_downgrade": down} if version == 0 else {"upgrade_type": 2 if down else 1}
    more = {} if version == 0 else {"validate_only": how.get("validate_only", False)}
    return peer.ask(ApiKey.UPDATE_FEATURES, version, timeout=1000, feature_updates=[fields], **more)


@pytest.mark.parametrize("version", range(3))
def test_a_feature_goes_down_and_up_again(bench: NodeBench, peer: Peer, version: int) -> None:
    features = bench.node.cluster.image.features
    refused = update(peer, version, ELR, 0)
    assert refused.error_code == ErrorCode.invalid_update_version
    assert refused.error_message
    assert features[ELR] == 1
    if version >= 1:
        assert update(peer, version, ELR, 0, down=True, validate_only=True).error_code == 0
        assert features[ELR] == 1
    answer = update(peer, version, ELR, 0, down=True)
    assert answer.error_code == 0
    if version < 2:
        [result] = answer.results
        assert (result.feature, result.error_code, result.error_message) == (ELR, 0, None)
    assert ELR not in features
    assert update(peer, version, ELR, 1).error_code == 0
    assert features[ELR] == 1


def test_a_level_that_a_node_does_not_support_is_refused(peer: Peer) -> None:
    refused = update(peer, 1, METADATA_VERSION, 31)
    assert refused.error_code == ErrorCode.invalid_update_version
    assert refused.results == ()


# DescribeQuorum


def quorum(peer: Peer, version: int, topic: str = METADATA_TOPIC, index: int = 0) -> Any:
    return peer.ask(
        ApiKey.DESCRIBE_QUORUM,
        version,
        topics=[{"topic_name": topic, "partitions": [{"partition_index": index}]}],
    )


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_of_one_is_described(bench: NodeBench, peer: Peer, version: int) -> None:
    answer = quorum(peer, version)
    [[partition]] = [topic.partitions for topic in answer.topics]
    assert (answer.error_code, partition.error_code) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch) == (100, 1)
    [voter] = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (100, partition.high_watermark)
    assert partition.observers == ()
    if version >= 1:
        assert voter.last_fetch_timestamp is not None
    if version >= 2:
        home = bench.node.rooms.base.directories[0].identity.directory_id
        assert voter.replica_directory_id == home
        [node] = answer.nodes
        [listener] = node.listeners
        assert (node.node_id, listener.name, listener.port) == (100, "CONTROLLER", 9093)


def test_there_is_no_other_quorum(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders")
    for topic, index in (("orders", 0), (METADATA_TOPIC, 1)):
        [[partition]] = [each.partitions for each in quorum(peer, 2, topic, index).topics]
        assert partition.error_code == ErrorCode.unknown_topic_or_partition
