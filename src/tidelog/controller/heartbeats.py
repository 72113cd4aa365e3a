"""Heartbeats: how a broker moves between fenced, unfenced and shutting down.

    state                input                                   next
    fenced               wants to shut down                      shuts down now
    fenced               wants no fence, and is caught up        unfenced
    unfenced             wants fence [and to shut down]          fenced [shuts down now]
    unfenced             wants to shut down, leads something     controlled shutdown
    unfenced             wants to shut down, leads nothing       shuts down now
    controlled shutdown  leads nothing, and every active broker
                         has applied its shutdown record         shuts down now

Invariant  A broker is unfenced only after it has replayed its own registration (C16).
Invariant  A broker that is fenced has left every ISR in the same breath.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from tidelog.controller.brokers import BrokerHeartbeat, BrokerHeartbeatReply, current_broker
from tidelog.controller.image import ClusterImage
from tidelog.controller.leadership import PartitionLeadership
from tidelog.controller.records import MetadataRecord
from tidelog.controller.registrations import BrokerRegistration
from tidelog.controller.result import ControllerResult
from tidelog.controller.sessions import BrokerSession, BrokerSessions
from tidelog.model.errors import Refusal
from tidelog.protocol.stored.metadata import BrokerRegistrationChangeRecord

FENCE: Final = 1
UNFENCE: Final = -1


class BrokerControlState(Enum):
    """Where a broker stands in its life."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "in controlled shutdown"
    SHUTDOWN_NOW = "free to stop"

    @property
    def fenced(self) -> bool:
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


def broker_heartbeat(
    image: ClusterImage,
    leadership: PartitionLeadership,
    sessions: BrokerSessions,
    heartbeat: BrokerHeartbeat,
    *,
    next_offset: int,
    now_ms: int,
) -> ControllerResult[BrokerHeartbeatReply | Refusal]:
    """Note that the broker lives, and move it on in its life if it can."""
    broker = current_broker(image, heartbeat.broker_id, heartbeat.broker_epoch)
    if isinstance(broker, Refusal):
        return ControllerResult((), broker)
    session = sessions.touch(broker.broker_id, now_ms)
    session.metadata_offset = heartbeat.metadata_offset
    caught_up = heartbeat.metadata_offset >= broker.registered_at
    current = _state(broker, session)
    following = _next_state(
        current,
        heartbeat,
        caught_up=caught_up,
        leads=lambda: leadership.leads_anything(broker.broker_id),
        everyone_knows=lambda: _everyone_knows(image, sessions, session),
    )
    records = _transition(broker, leadership, current, following)
    if current is BrokerControlState.FENCED and following is BrokerControlState.UNFENCED:
        sessions.unfenced(broker.broker_id, now_ms)
    records.extend(_directory_changes(leadership, broker, heartbeat))
    if following is not BrokerControlState.CONTROLLED_SHUTDOWN:
        session.shutdown_offset = None
    elif current is not following:
        session.shutdown_offset = next_offset + len(records) - 1
    reply = BrokerHeartbeatReply(
        is_caught_up=caught_up,
        is_fenced=following.fenced,
        should_shut_down=following is BrokerControlState.SHUTDOWN_NOW,
    )
    return ControllerResult(tuple(records), reply, atomic=False, causes=leadership.causes)


def _state(broker: BrokerRegistration, session: BrokerSession) -> BrokerControlState:
    if broker.fenced:
        return BrokerControlState.FENCED
    if session.shutdown_offset is not None:
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.UNFENCED


def _next_state(
    current: BrokerControlState,
    heartbeat: BrokerHeartbeat,
    *,
    caught_up: bool,
    leads: Callable[[], bool],
    everyone_knows: Callable[[], bool],
) -> BrokerControlState:
    if current is BrokerControlState.FENCED:
        if heartbeat.want_shut_down:
            return BrokerControlState.SHUTDOWN_NOW
        return BrokerControlState.UNFENCED if caught_up and not heartbeat.want_fence else current
    if current is BrokerControlState.CONTROLLED_SHUTDOWN:
        return BrokerControlState.SHUTDOWN_NOW if everyone_knows() and not leads() else current
    if heartbeat.want_shut_down:
        waits = not heartbeat.want_fence and leads()
        return BrokerControlState.CONTROLLED_SHUTDOWN if waits else BrokerControlState.SHUTDOWN_NOW
    return BrokerControlState.FENCED if heartbeat.want_fence else current


def _everyone_knows(image: ClusterImage, sessions: BrokerSessions, session: BrokerSession) -> bool:
    """Whether every active broker has applied the record of this controlled shutdown."""
    slowest = sessions.lowest_metadata_offset(
        broker.broker_id for broker in image.brokers.values() if broker.active
    )
    if session.shutdown_offset is None or slowest is None:
        return True
    return session.shutdown_offset <= slowest


def _transition(
    broker: BrokerRegistration,
    leadership: PartitionLeadership,
    current: BrokerControlState,
    following: BrokerControlState,
) -> list[MetadataRecord]:
    name = f"broker {broker.broker_id}"
    if following.fenced:
        why = f"{name} asked to be fenced"
        if following is BrokerControlState.SHUTDOWN_NOW:
            why = f"{name} shuts down"
        return [] if current.fenced else fencing_records(broker, leadership, why)
    if current is following:
        return []
    if following is BrokerControlState.UNFENCED:
        unfenced = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=UNFENCE
        )
        return [unfenced, *leadership.comes(broker.broker_id, f"{name} is back")]
    leaves = leadership.leaves_isrs(broker.broker_id, f"{name} is about to shut down")
    if broker.in_controlled_shutdown:
        return [*leaves]
    shutting_down = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, in_controlled_shutdown=1
    )
    return [shutting_down, *leaves]


def fencing_records(
    broker: BrokerRegistration, leadership: PartitionLeadership, why: str
) -> list[MetadataRecord]:
    """The broker leaves every ISR, its leaderships move, then it is fenced."""
    fenced = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=FENCE
    )
    return [*leadership.leaves_isrs(broker.broker_id, why), fenced]


def _directory_changes(
    leadership: PartitionLeadership,
    broker: BrokerRegistration,
    heartbeat: BrokerHeartbeat,
) -> list[MetadataRecord]:
    """Replicas in directories that went offline leave the ISR; cordons are noted."""
    records: list[MetadataRecord] = []
    offline = set(broker.log_dirs) & set(heartbeat.offline_log_dirs)
    remaining = tuple(directory for directory in broker.log_dirs if directory not in offline)
    cordoned = heartbeat.cordoned_log_dirs
    if cordoned is not None and set(cordoned) == set(broker.cordoned_log_dirs):
        cordoned = None
    if offline:
        affected = [
            place
            for place in leadership.hosted_by(broker.broker_id)
            if place.partition.directory_of(broker.broker_id) in offline
        ]
        why = f"a directory of broker {broker.broker_id} went offline"
        records.extend(leadership.leaves(broker.broker_id, affected, why))
    if offline or cordoned is not None:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.broker_epoch,
                log_dirs=remaining if offline else (),
                cordoned_log_dirs=cordoned,
            )
        )
    return records
