"""Access control between nodes: what is asked of others, what is passed on, who may be a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.model.settings.access import STANDARD_AUTHORIZER
from tidelog.observe.access_events import AccessDenied
from tidelog.protocol.apis import ApiKey
from tidelog.security.acls import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Client, Cluster, NewCluster

CLIENT = "10.0.0.7"
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
SESSION_MS = 9_000


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    """Nodes 100, which is the controller, and 101; what no rule speaks of is open to all."""
    two = new_cluster(
        2,
        authorizer_class_name=STANDARD_AUTHORIZER,
        allow_everyone_if_no_acl_found="true",
    )
    two.start()
    return two


def allow(
    client: Client, host: str, operation: AclOperation, kind: ResourceType, name: str
) -> None:
    creation = {
        "resource_type": int(kind),
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:ANONYMOUS",
        "host": host,
        "operation": int(operation),
        "permission_type": 3,
    }
    answer = client.ask(ApiKey.CREATE_ACLS, 3, creations=[creation])
    assert [result.error_code for result in answer.results] == [0]


def create(client: Client, name: str) -> ErrorCode:
    topic = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 2,
        "assignments": [],
        "configs": [],
    }
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=1000)
    return ErrorCode(answer.topics[0].error_code)


def test_a_rule_that_one_broker_passes_on_holds_on_all_nodes(cluster: Cluster) -> None:
    cluster.create_topic("orders", 2)
    allow(cluster.client(101), "somewhere else", AclOperation.READ, TOPIC, "orders")
    cluster.wait(100)
    for node_id in (100, 101):
        answer = cluster.client(node_id).ask(
            ApiKey.METADATA, 8, topics=[{"name": "orders"}], allow_auto_topic_creation=False
        )
        assert answer.topics[0].error_code == ErrorCode.topic_authorization_failed
        assert cluster[node_id].of_kind(AccessDenied)[-1].host == CLIENT


def test_what_is_passed_on_is_judged_by_who_asked_not_by_the_broker(cluster: Cluster) -> None:
    admin = cluster.client(100)
    allow(admin, CLIENT, AclOperation.ALTER, CLUSTER, CLUSTER_NAME)
    for node_id in (100, 101):
        allow(admin, f"node-{node_id}", AclOperation.ALL, CLUSTER, CLUSTER_NAME)
    allow(admin, "somewhere else", AclOperation.CREATE, TOPIC, "*")
    client = cluster.client(101)
    assert create(client, "orders") is ErrorCode.topic_authorization_failed
    allow(client, CLIENT, AclOperation.CREATE, TOPIC, "orders")
    assert create(client, "orders") is ErrorCode.none
    assert create(client, "payments") is ErrorCode.topic_authorization_failed


def test_a_node_that_may_not_act_as_one_is_left_out_until_it_may(cluster: Cluster) -> None:
    cluster.create_topic("orders", 2)
    admin = cluster.client(100)
    allow(admin, CLIENT, AclOperation.ALL, CLUSTER, CLUSTER_NAME)
    image = cluster[100].image
    cluster.wait_until(lambda: image.brokers[101].fenced, 3 * SESSION_MS)
    denied = cluster[100].of_kind(AccessDenied)
    assert {event.operation for event in denied} == {"CLUSTER_ACTION"}
    assert {"BROKER_HEARTBEAT", "FETCH"} <= {event.api for event in denied}
    assert cluster[101].is_running
    allow(admin, "node-101", AclOperation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    cluster.wait_until(lambda: not image.brokers[101].fenced, 3 * SESSION_MS)
    cluster.wait_until(
        lambda: all(
            set(partition.isr) == {100, 101}
            for partition in image.topics_by_name["orders"].partitions.values()
        ),
        3 * SESSION_MS,
    )
