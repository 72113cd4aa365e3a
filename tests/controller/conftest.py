"""A controller with its log in memory: decisions are replayed at once, time stands still."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import pytest

from tidelog.controller.alter_partition import AlteredPartition, IsrProposal, ProposedIsrMember
from tidelog.controller.brokers import BrokerHeartbeat, BrokerHeartbeatReply, RegisterBroker
from tidelog.controller.controller import Controller
from tidelog.controller.features import SUPPORTED_FEATURES
from tidelog.controller.image import ClusterImage
from tidelog.controller.partition_image import PartitionImage
from tidelog.controller.reassignment import NewPartitionReassignment
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import Cause, ControllerResult, IsrChange, PartitionLeaderChange
from tidelog.controller.topics import CreatedTopic, NewTopic
from tidelog.model.config import NodeConfig
from tidelog.model.errors import Refusal
from tidelog.model.time import Now
from tidelog.protocol.stored.metadata import (
    RegisteredEndpoint,
    RegisteredFeature,
)

R = TypeVar("R")

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
FEATURES = tuple(
    RegisteredFeature(name=name, min_supported_version=low, max_supported_version=high)
    for name, (low, high) in SUPPORTED_FEATURES.items()
)


class SeededEntropy:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class Cluster:
    """A cluster seen from its controller."""

    def __init__(
        self, settings: Mapping[str, str], *, activate: bool = True, seed: int = 1
    ) -> None:
        self.config = NodeConfig.from_properties(
            {
                "node.id": "100",
                "process.roles": "broker,controller",
                "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": "100@localhost:9093",
                "log.dirs": "data",
                **settings,
            }
        )
        self.entropy = SeededEntropy(seed)
        self.image = ClusterImage()
        self.controller = Controller(self.image, self.entropy, self.config, CLUSTER_ID)
        self.next_offset = 0
        self.now = Now(1_000_000, 1_700_000_000_000)
        self.registrations: dict[int, RegisterBroker] = {}
        self.causes: list[Cause] = []
        self.watch: Callable[[ClusterImage, ControllerResult[Any]], None] | None = None
        """Told about each decision, with an image of its own from before it."""
        if activate:
            self.do(self.controller.activate(self.now))

    def do(self, decision: ControllerResult[R]) -> R:
        """Append and replay what was decided."""
        if self.watch is not None:
            self.watch(self.image.copy(), decision)
        self.replay(*decision.records)
        self.causes.extend(decision.causes)
        return decision.reply

    def replay(self, *records: MetadataRecord) -> None:
        for record in records:
            self.image.replay(record, self.next_offset)
            self.next_offset += 1

    def wait(self, milliseconds: int) -> None:
        self.now = Now(self.now.monotonic_ms + milliseconds, self.now.wall_ms + milliseconds)

    def registration(
        self, broker_id: int, *, rack: str | None = None, directories: int = 1
    ) -> RegisterBroker:
        return RegisterBroker(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.entropy.uuid(),
            endpoints=(
                RegisteredEndpoint(
                    name="PLAINTEXT", host="localhost", port=9092, security_protocol=0
                ),
            ),
            features=FEATURES,
            rack=rack,
            log_dirs=tuple(self.entropy.uuid() for _ in range(directories)),
        )

    def register(self, registration: RegisterBroker) -> int | Refusal:
        self.registrations[registration.broker_id] = registration
        return self.do(
            self.controller.register_broker(
                registration, next_offset=self.next_offset, now=self.now
            )
        )

    def start(self, *broker_ids: int, rack: str | None = None, directories: int = 1) -> None:
        """Register brokers and unfence them."""
        for broker_id in broker_ids:
            registration = self.registration(broker_id, rack=rack, directories=directories)
            assert isinstance(self.register(registration), int)
            assert not self.beat(broker_id).is_fenced

    def restart(self, broker_id: int, *, previous_broker_epoch: int = -1) -> int | Refusal:
        """Register a new incarnation of a broker; it is still fenced."""
        return self.register(
            self.registrations[broker_id]._replace(
                incarnation_id=self.entropy.uuid(), previous_broker_epoch=previous_broker_epoch
            )
        )

    def heartbeat(self, broker_id: int, /, **said: Any) -> BrokerHeartbeatReply | Refusal:
        beat = BrokerHeartbeat(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].broker_epoch,
            metadata_offset=self.next_offset,
            want_fence=False,
            want_shut_down=False,
        )._replace(**said)
        return self.do(
            self.controller.broker_heartbeat(beat, next_offset=self.next_offset, now=self.now)
        )

    def beat(self, broker_id: int, /, **said: Any) -> BrokerHeartbeatReply:
        reply = self.heartbeat(broker_id, **said)
        assert isinstance(reply, BrokerHeartbeatReply)
        return reply

    def fence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            assert self.beat(broker_id, want_fence=True).is_fenced

    def propose(
        self,
        isr: Sequence[int | ProposedIsrMember],
        *,
        topic: str = "orders",
        index: int = 0,
        **said: Any,
    ) -> AlteredPartition | Refusal:
        """The leader of a partition proposes an ISR."""
        partition = self.partition(topic, index)
        proposal = IsrProposal(
            partition=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=tuple(ProposedIsrMember(m) if isinstance(m, int) else m for m in isr),
        )
        sender = said.pop("sender", partition.leader)
        epoch = said.pop("broker_epoch", self.image.brokers[sender].broker_epoch)
        topic_id = said.pop("topic_id", self.image.topics_by_name[topic].topic_id)
        reply = self.do(
            self.controller.alter_partition(
                sender, epoch, [(topic_id, [proposal._replace(**said)])]
            )
        )
        if isinstance(reply, Refusal):
            return reply
        [(_, [(_, outcome)])] = reply
        return outcome

    def reassign(
        self, replicas: Sequence[int] | None, *, topic: str = "orders", index: int = 0, **said: bool
    ) -> Refusal | None:
        """Ask for other replicas, or cancel with None."""
        asked = NewPartitionReassignment(index, None if replicas is None else tuple(replicas))
        reply = self.do(self.controller.alter_partition_reassignments([(topic, [asked])], **said))
        if isinstance(reply, Refusal):
            return reply
        [(_, [(_, outcome)])] = reply
        return outcome

    def elect(self, election_type: int, *, topic: str = "orders", index: int = 0) -> Refusal | None:
        reply = self.do(self.controller.elect_leaders(election_type, [(topic, [index])]))
        if isinstance(reply, Refusal):
            return reply
        [(_, [(_, outcome)])] = reply
        return outcome

    def last_leader_change(self) -> PartitionLeaderChange:
        return [cause for cause in self.causes if isinstance(cause, PartitionLeaderChange)][-1]

    def last_isr_change(self) -> IsrChange:
        return [cause for cause in self.causes if isinstance(cause, IsrChange)][-1]

    def create(
        self, name: str, *assignments: Sequence[int], configs: Mapping[str, str] | None = None
    ) -> CreatedTopic:
        """Create a topic with given replicas."""
        asked = NewTopic(name, assignments=tuple(enumerate(assignments)), configs=configs or {})
        [(_, created)] = self.do(self.controller.create_topics([asked]))
        assert isinstance(created, CreatedTopic), created
        return created

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        found = self.image.partition(topic, index)
        assert found is not None
        return found

    def lead_isr_elr(self, topic: str = "orders") -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        found = self.partition(topic)
        return found.leader, found.isr, found.elr


NewCluster = Callable[..., Cluster]


@pytest.fixture
def new_cluster() -> NewCluster:
    """Make a cluster with settings of one's own."""

    def make(*, elr: bool = True, activate: bool = True, **settings: str) -> Cluster:
        cluster = Cluster(
            {name.replace("_", "."): text for name, text in settings.items()}, activate=activate
        )
        if not elr:
            cluster.image.features.pop("eligible.leader.replicas.version")
        return cluster

    return make


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    """Three live brokers, with eligible leader replicas."""
    made = new_cluster()
    made.start(100, 101, 102)
    return made
