"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, as clients meet them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.node.node_bench import NodeBench
from tests.node.peer import Peer

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.primitives import uvarint

GROUP, BROKER = 32, 4


def versions(api: ApiKey) -> list[int]:
    return list(range(SUPPORTED[api].min, SUPPORTED[api].max + 1))


@pytest.fixture
def peer(new_bench: Callable[..., NodeBench]) -> Peer:
    """A client that has found its coordinator."""
    bench = new_bench(offsets_topic_num_partitions="4", offsets_topic_replication_factor="1")
    bench.create_topic("orders", partitions=2)
    client = bench.connect()
    for _ in range(2):
        client.ask(ApiKey.FIND_COORDINATOR, 1, key="group", key_type=0)
    return client


def heartbeat(peer: Peer, version: int = 1, **fields: Any) -> Any:
    beat = {
        "group_id": "group",
        "member_id": "member-1",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": ["orders"],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
        **fields,
    }
    return peer.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, **beat)


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_HEARTBEAT))
def test_members_of_the_consumer_protocol_are_assigned_partitions(peer: Peer, version: int) -> None:
    answer = heartbeat(peer, version)
    assert (answer.error_code, answer.member_epoch) == (0, 1)
    [topic] = answer.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (
        peer.bench.node.cluster.image.topics_by_name["orders"].topic_id,
        (0, 1),
    )

    [described] = peer.ask(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        version,
        group_ids=["group"],
        include_authorized_operations=False,
    ).groups
    assert (described.group_state, described.assignor_name) == ("Stable", "uniform")
    assert described.members[0].assignment.topic_partitions[0].topic_name == "orders"


def test_the_server_names_members_that_do_not_name_themselves(peer: Peer) -> None:
    assert heartbeat(peer, 0, member_id="").member_id
    assert heartbeat(peer, 1, member_id="").error_code == ErrorCode.invalid_request


def test_without_the_feature_the_consumer_protocol_is_not_supported(peer: Peer) -> None:
    updates = [
        {
            "feature": "group.version",
            "max_version_level": 0,
            "allow_downgrade": True,
            "upgrade_type": 2,
        }
    ]
    peer.ask(ApiKey.UPDATE_FEATURES, 1, timeout=1000, feature_updates=updates, validate_only=False)
    assert heartbeat(peer).error_code == ErrorCode.unsupported_version


def test_a_client_that_says_more_than_a_record_can_hold_is_not_heard(peer: Peer) -> None:
    stranger = peer.bench.connect()
    stranger.send_body(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, uvarint(40_001) + b"g" * 40_100)
    assert stranger.closed is not None and "group_id of 40000 bytes" in stranger.closed
    assert heartbeat(peer, member_id="m" * 32_767).error_code == ErrorCode.none


def alter(peer: Peer, name: str, key: str, value: str | None, kind: int = GROUP) -> Any:
    """Change a setting of a group, or of all brokers."""
    config = {"name": key, "config_operation": 1 if value is None else 0, "value": value}
    resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
    answer = peer.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
    )
    return answer.responses[0].error_code


def described(peer: Peer, name: str) -> dict[str, tuple[str, int]]:
    """Values and sources of a group's settings."""
    resource = {"resource_type": 32, "resource_name": name, "configuration_keys": None}
    answer = peer.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource])
    [result] = answer.results
    return {each.name: (each.value, each.config_source) for each in result.configs}


def test_settings_of_a_group_are_stored_shown_and_used(peer: Peer) -> None:
    key = "consumer.heartbeat.interval.ms"
    assert described(peer, "group") == {
        "consumer.assignment.interval.ms": ("1000", 5),
        key: ("5000", 5),
        "consumer.session.timeout.ms": ("45000", 5),
    }
    assert alter(peer, "group", key, "7000") == ErrorCode.none
    assert described(peer, "group")[key] == ("7000", 8)
    assert heartbeat(peer).heartbeat_interval == timedelta(seconds=7)
    listed = peer.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[32]).config_resources
    assert [each.resource_name for each in listed] == ["group"]
    assert alter(peer, "group", key, None) == ErrorCode.none
    assert described(peer, "group")[key] == ("5000", 5)


def test_a_broker_setting_that_changes_while_it_runs_counts_at_once(peer: Peer) -> None:
    key = "group.consumer.assignment.interval.ms"
    heartbeat(peer, member_id="first")
    assert heartbeat(peer, member_id="second").heartbeat_interval == timedelta(seconds=1)
    assert alter(peer, "", key, "0", kind=BROKER) == ErrorCode.none
    assert heartbeat(peer, member_id="third").heartbeat_interval == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("name", "key", "value", "error"),
    [
        ("", "consumer.session.timeout.ms", "45000", ErrorCode.invalid_request),
        ("group", "consumer.session.timeout.ms", "1", ErrorCode.invalid_config),
        ("group", "consumer.session.timeout.ms", "60001", ErrorCode.invalid_config),
        ("group", "consumer.session.timeout.ms", "soon", ErrorCode.invalid_config),
        ("group", "share.session.timeout.ms", "45000", ErrorCode.invalid_config),
    ],
)
def test_settings_that_a_group_cannot_have_are_refused(
    peer: Peer, name: str, key: str, value: str, error: ErrorCode
) -> None:
    assert alter(peer, name, key, value) == error


def test_offsets_that_a_stranger_asks_for_are_refused_with_no_topics(peer: Peer) -> None:
    heartbeat(peer)
    wanted = [{"topic_id": ZERO_UUID, "partition_indexes": [0]}]
    group = {"group_id": "group", "member_id": "nobody", "member_epoch": 7, "topics": wanted}
    [refused] = peer.ask(ApiKey.OFFSET_FETCH, 10, groups=[group]).groups
    assert (refused.error_code, refused.topics) == (ErrorCode.unknown_member_id, ())
