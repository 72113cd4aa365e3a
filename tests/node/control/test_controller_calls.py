"""Calls to the controller: what is asked and what came of it are the same at both ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from tidelog.controller.alter_partition import AlteredPartition, IsrProposal, ProposedIsrMember
from tidelog.controller.brokers import (
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    RegisterBroker,
    RegisterController,
)
from tidelog.controller.directories import ReplicaDirectory
from tidelog.controller.producer_ids import ProducerIdBlock
from tidelog.controller.topics import CreatedTopic, NewTopic
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_EPOCH
from tidelog.node.control.calls.alter_partition import AlterPartitionCall
from tidelog.node.control.calls.assign_replicas import AssignReplicasCall
from tidelog.node.control.calls.broker_heartbeat import BrokerHeartbeatCall
from tidelog.node.control.calls.controller_call import ControllerCall
from tidelog.node.control.calls.create_topics import CreateTopicsCall
from tidelog.node.control.calls.producer_ids import AllocateProducerIdsCall
from tidelog.node.control.calls.registration import RegisterBrokerCall, RegisterControllerCall
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from tidelog.protocol.stored.metadata import (
    RegisteredEndpoint,
    RegisteredFeature,
)

ENDPOINTS = (RegisteredEndpoint(name="PLAINTEXT", host="here", port=9092, security_protocol=0),)
FEATURES = (
    RegisteredFeature(name="kraft.version", min_supported_version=0, max_supported_version=1),
)
TOPIC, DIRECTORY = UUID(int=7), UUID(int=8)
REGISTRATION = RegisterBroker(
    100, "cluster", UUID(int=5), ENDPOINTS, FEATURES, "rack", (DIRECTORY,), 41
)
HEARTBEAT = BrokerHeartbeat(100, 42, 17, want_fence=True, want_shut_down=False)
PROPOSAL = IsrProposal(3, 5, 9, (ProposedIsrMember(100, 42), ProposedIsrMember(101, 43)), 1)
PLACES = [ReplicaDirectory(DIRECTORY, TOPIC, 0), ReplicaDirectory(UUID(int=9), TOPIC, 1)]
NEW_TOPIC = NewTopic("orders", 4, 3, [(0, (100, 101))], {"retention.ms": "1000", "other": None})


class BothEnds(NamedTuple):
    """A call, how it is read from its request, and outcomes that its answer can carry."""

    call: ControllerCall[Any, Any]
    asked_in: Callable[[Any], object]
    outcomes: list[object]


def refused(what: str) -> Refusal:
    why = f"the controller refused {what}: stale_broker_epoch"
    return Refusal(ErrorCode.stale_broker_epoch, why)


CALLS = [
    BothEnds(
        RegisterBrokerCall(REGISTRATION),
        RegisterBrokerCall.asked_in,
        [
            42,
            refused("the registration"),
        ],
    ),
    BothEnds(
        RegisterControllerCall(RegisterController(200, UUID(int=6), ENDPOINTS, FEATURES)),
        RegisterControllerCall.asked_in,
        [
            None,
            Refusal(ErrorCode.unsupported_version, "too old"),
        ],
    ),
    BothEnds(
        BrokerHeartbeatCall(HEARTBEAT._replace(offline_log_dirs=(DIRECTORY,))),
        BrokerHeartbeatCall.asked_in,
        [
            BrokerHeartbeatReply(is_caught_up=True, is_fenced=False, should_shut_down=True),
            refused("the heartbeat"),
        ],
    ),
    BothEnds(
        AlterPartitionCall(100, 42, [(TOPIC, [PROPOSAL])]),
        AlterPartitionCall.asked_in,
        [
            [(TOPIC, [(3, AlteredPartition(100, 5, 10, (100, 101), 1))])],
            [(TOPIC, [(3, refused("the in-sync set"))])],
            refused("the in-sync sets"),
        ],
    ),
    BothEnds(
        AllocateProducerIdsCall(100, 42),
        AllocateProducerIdsCall.asked_in,
        [
            ProducerIdBlock(5000, 1000),
            refused("producer ids"),
        ],
    ),
    BothEnds(
        AssignReplicasCall(100, 42, PLACES),
        AssignReplicasCall.asked_in,
        [
            [(PLACES[0], None), (PLACES[1], refused("its directory"))],
            refused("the directories"),
        ],
    ),
    BothEnds(
        CreateTopicsCall([NEW_TOPIC], 5000),
        CreateTopicsCall.asked_in,
        [
            [("orders", CreatedTopic(TOPIC, 4, 3, ()))],
            [("orders", Refusal(ErrorCode.topic_already_exists, "It exists."))],
        ],
    ),
]
NAMES = [type(each.call).__name__ for each in CALLS]


@pytest.mark.parametrize("ends", CALLS, ids=NAMES)
def test_the_controller_is_asked_what_the_node_asks(ends: BothEnds) -> None:
    request = ends.call.request()
    written = encode(request, ends.call.VERSION)
    assert ends.asked_in(decode(type(request), ends.call.VERSION, written)) == ends.call


@pytest.mark.parametrize("ends", CALLS, ids=NAMES)
def test_the_node_hears_what_the_controller_decided(ends: BothEnds) -> None:
    for outcome in ends.outcomes:
        answer = ends.call.answer(outcome)
        written = encode(answer, ends.call.VERSION)
        assert ends.call.outcome(decode(type(answer), ends.call.VERSION, written)) == outcome


def test_a_refusal_of_all_topics_is_told_for_each() -> None:
    call = CreateTopicsCall([NEW_TOPIC, NEW_TOPIC._replace(name="users")], 5000)
    refusal = Refusal(ErrorCode.not_controller, "not here")
    assert call.outcome(call.answer(refusal)) == [("orders", refusal), ("users", refusal)]


def test_members_without_an_epoch_are_of_any_incarnation() -> None:
    partition = AlterPartitionRequestPartitionData(partition_index=3, new_isr=[100, 101])
    request = AlterPartitionRequest(
        topics=[AlterPartitionRequestTopicData(topic_id=TOPIC, partitions=[partition])]
    )
    read = decode(AlterPartitionRequest, 2, encode(request, 2))
    [(_, [proposal])] = AlterPartitionCall.asked_in(read).proposals
    assert proposal.isr == (ProposedIsrMember(100, NO_EPOCH), ProposedIsrMember(101, NO_EPOCH))
