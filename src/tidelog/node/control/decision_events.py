"""What a decision of the controller means for brokers and leaders, for people to see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from tidelog.controller.brokers import BrokerHeartbeat
from tidelog.controller.heartbeats import FENCE, UNFENCE
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import Cause, ControllerResult, PartitionLeaderChange
from tidelog.model.ids import TopicPartition
from tidelog.observe.cluster_events import (
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    InSyncReplicasDecided,
    LeaderElected,
)
from tidelog.observe.events import Event
from tidelog.protocol.stored.metadata import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

R = TypeVar("R")

REGISTERED: Final = "its process joined the cluster"
UNREGISTERED: Final = "somebody asked for it"


def heartbeat_words(heartbeat: BrokerHeartbeat) -> str:
    """Why a heartbeat moves a broker on in its life."""
    if heartbeat.want_shut_down:
        return "it asked to stop"
    if heartbeat.want_fence:
        return "it asked to be fenced"
    return f"it has applied the metadata up to offset {heartbeat.metadata_offset}"


def events_of(decision: ControllerResult[R], why: str, unclean_before: int = 0) -> Iterator[Event]:
    """Who came, went, leads; `why` is the reason for what happens to brokers."""
    unclean = unclean_before
    for cause in decision.causes:
        unclean += isinstance(cause, PartitionLeaderChange) and cause.unclean
        yield _of_partition(cause, unclean)
    for record in decision.records:
        event = _of_broker(record, why)
        if event is not None:
            yield event


def _of_partition(cause: Cause, unclean_elections: int) -> Event:
    partition = TopicPartition(cause.topic, cause.partition)
    if isinstance(cause, PartitionLeaderChange):
        return LeaderElected(
            partition=partition,
            leader=cause.new,
            leader_before=cause.old,
            leader_epoch=cause.epoch,
            unclean=cause.unclean,
            unclean_elections=unclean_elections,
            may_lose=cause.may_lose,
            cause=cause.why,
        )
    return InSyncReplicasDecided(
        partition=partition,
        in_sync=cause.new,
        in_sync_before=cause.old,
        eligible=cause.eligible,
        cause=cause.why,
    )


def _of_broker(record: MetadataRecord, why: str) -> Event | None:
    match record:
        case RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch):
            return BrokerRegistered(broker_id=broker_id, broker_epoch=epoch, cause=why)
        case UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch):
            return BrokerUnregistered(broker_id=broker_id, broker_epoch=epoch, cause=why)
        case BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch):
            if record.fenced == FENCE:
                return BrokerFenced(broker_id=broker_id, broker_epoch=epoch, cause=why)
            if record.fenced == UNFENCE:
                return BrokerUnfenced(broker_id=broker_id, broker_epoch=epoch, cause=why)
            if record.in_controlled_shutdown:
                return BrokerShuttingDown(broker_id=broker_id, broker_epoch=epoch, cause=why)
    return None
