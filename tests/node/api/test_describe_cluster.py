"""DescribeCluster: brokers on one listener, controllers on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.stored.metadata import (
    RegisterBrokerRecord,
    RegisteredEndpoint,
)

if TYPE_CHECKING:
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

BROKERS, CONTROLLERS = 1, 2


def ask(peer: Peer, version: int = 2, **asked: Any) -> Any:
    fields = {"include_cluster_authorized_operations": False, **asked}
    return peer.ask(ApiKey.DESCRIBE_CLUSTER, version, **fields)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_broker_listener_tells_the_brokers(bench: NodeBench, peer: Peer, version: int) -> None:
    answer = ask(peer, version)
    [broker] = answer.brokers
    assert (broker.broker_id, broker.host, broker.port) == (100, "localhost", 9092)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert answer.controller_id == 100
    assert answer.cluster_id == bench.node.cluster.cluster_id
    assert getattr(answer, "endpoint_type", BROKERS) == BROKERS


def test_a_controller_listener_tells_the_controllers(bench: NodeBench) -> None:
    answer = ask(bench.connect("CONTROLLER"), endpoint_type=CONTROLLERS)
    [controller] = answer.brokers
    assert (controller.broker_id, controller.port) == (100, 9093)
    assert (answer.endpoint_type, answer.controller_id) == (CONTROLLERS, 100)


@pytest.mark.parametrize(
    ("listener", "other"), [("PLAINTEXT", CONTROLLERS), ("CONTROLLER", BROKERS)]
)
def test_a_listener_knows_its_own_kind_of_endpoint_only(
    bench: NodeBench, listener: str, other: int
) -> None:
    answer = ask(bench.connect(listener), endpoint_type=other)
    assert answer.error_code == ErrorCode.mismatched_endpoint_type
    assert answer.brokers == ()


def test_an_unknown_kind_of_endpoint_is_unsupported(peer: Peer) -> None:
    assert ask(peer, endpoint_type=3).error_code == ErrorCode.unsupported_endpoint_type


def test_fenced_brokers_are_told_to_those_who_ask_from_version_2_on(
    bench: NodeBench, peer: Peer
) -> None:
    image = bench.node.cluster.image
    image.replay(
        RegisterBrokerRecord(
            broker_id=101,
            incarnation_id=UUID(int=1),
            broker_epoch=5,
            end_points=(
                RegisteredEndpoint(name="PLAINTEXT", host="other", port=9092, security_protocol=0),
            ),
            features=(),
            rack="r1",
            fenced=True,
            log_dirs=(UUID(int=1000),),
        ),
        image.end_offset,
    )
    assert [broker.broker_id for broker in ask(peer, 1).brokers] == [100]
    assert [broker.broker_id for broker in ask(peer, 2).brokers] == [100]
    told = ask(peer, 2, include_fenced_brokers=True).brokers
    assert [(each.broker_id, each.is_fenced, each.rack) for each in told] == [
        (100, False, None),
        (101, True, "r1"),
    ]


def test_operations_are_told_only_to_those_who_ask(peer: Peer) -> None:
    assert ask(peer).cluster_authorized_operations == -(2**31)
    told = ask(peer, include_cluster_authorized_operations=True)
    assert told.cluster_authorized_operations > 0
