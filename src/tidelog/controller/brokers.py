"""Brokers and controllers that join and go: registration, its epoch, its end.

Invariant  A new incarnation leaves every ISR, and without a clean shutdown every ELR, before the
           record that registers it; its epoch is larger than any before (C16).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from tidelog.controller.features import declared_ranges, unsupported_by
from tidelog.controller.image import METADATA_VERSION, ClusterImage
from tidelog.controller.leadership import FIRST_FREE_DIRECTORY, PartitionLeadership, elr_enabled
from tidelog.controller.records import MetadataRecord
from tidelog.controller.registrations import BrokerRegistration
from tidelog.controller.result import ControllerResult, together
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import (
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RegisteredEndpoint,
    RegisteredFeature,
    UnregisterBrokerRecord,
)


class RegisterBroker(NamedTuple):
    """What a broker says about itself when it starts."""

    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    endpoints: tuple[RegisteredEndpoint, ...]
    features: tuple[RegisteredFeature, ...]
    rack: str | None
    log_dirs: tuple[UUID, ...]
    previous_broker_epoch: int = -1
    is_migrating_zk_broker: bool = False


class BrokerHeartbeat(NamedTuple):
    """What a broker says about itself while it runs."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None


class BrokerHeartbeatReply(NamedTuple):
    """Where the controller sees the broker."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


def current_broker(
    image: ClusterImage, broker_id: int, broker_epoch: int
) -> BrokerRegistration | Refusal:
    """The registration of a broker that still has the epoch it names."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        why = f"Broker {broker_id} is not registered."
        return Refusal(ErrorCode.stale_broker_epoch, why)
    if broker.broker_epoch != broker_epoch:
        why = f"Broker {broker_id} has epoch {broker.broker_epoch}, not {broker_epoch}."
        return Refusal(ErrorCode.stale_broker_epoch, why)
    return broker


def register_broker(
    image: ClusterImage,
    leadership: PartitionLeadership,
    registration: RegisterBroker,
    *,
    next_offset: int,
    has_live_session: bool,
) -> ControllerResult[int | Refusal]:
    """The broker's epoch. A new incarnation starts fenced; the same one amends what it said."""
    existing = image.brokers.get(registration.broker_id)
    refusal = _registration_refused(image, registration, existing, has_live_session)
    if refusal is not None:
        return ControllerResult((), refusal)
    records: list[MetadataRecord] = []
    if existing is not None and existing.incarnation_id == registration.incarnation_id:
        epoch, fenced = existing.broker_epoch, existing.fenced
        shutting_down = existing.in_controlled_shutdown
    else:
        epoch, fenced, shutting_down = next_offset, True, False
        stopped_cleanly = not elr_enabled(image) or (
            existing is not None and registration.previous_broker_epoch == existing.broker_epoch
        )
        records.extend(_goodbyes(leadership, registration, stopped_cleanly))
    records.append(
        RegisterBrokerRecord(
            broker_id=registration.broker_id,
            incarnation_id=registration.incarnation_id,
            broker_epoch=epoch,
            end_points=registration.endpoints,
            features=registration.features,
            rack=registration.rack,
            fenced=fenced,
            in_controlled_shutdown=shutting_down,
            log_dirs=registration.log_dirs,
        )
    )
    return together(records, epoch, leadership.causes)


def _goodbyes(
    leadership: PartitionLeadership, registration: RegisterBroker, stopped_cleanly: bool
) -> Iterator[PartitionChangeRecord]:
    """What the last incarnation of a broker held, the new one has to earn again."""
    broker_id = registration.broker_id
    why = f"broker {broker_id} started anew"
    if stopped_cleanly:
        yield from leadership.leaves_isrs(broker_id, why)
    else:
        why = f"{why} after it had not stopped cleanly"
        yield from leadership.leaves_for_good(broker_id, why)
    why = f"broker {broker_id} came back without the directory of this replica"
    yield from leadership.replaces_directories(broker_id, registration.log_dirs, why)


def _registration_refused(
    image: ClusterImage,
    registration: RegisterBroker,
    existing: BrokerRegistration | None,
    has_live_session: bool,
) -> Refusal | None:
    if (
        existing is not None
        and has_live_session
        and existing.incarnation_id != registration.incarnation_id
    ):
        why = f"A live broker has the id {registration.broker_id} already."
        return Refusal(ErrorCode.duplicate_broker_registration, why)
    if registration.is_migrating_zk_broker:
        why = "This controller does not register ZooKeeper brokers."
        return Refusal(ErrorCode.broker_id_not_registered, why)
    why_not = _bad_directories(image, registration)
    if why_not is not None:
        return Refusal(ErrorCode.invalid_registration, why_not)
    if METADATA_VERSION not in declared_ranges(registration.features):
        why = "The registration does not say which metadata.version the broker supports."
        return Refusal(ErrorCode.invalid_registration, why)
    unsupported = unsupported_by(image, registration.features)
    if unsupported is not None:
        why = f"Broker {registration.broker_id} cannot join: {unsupported}."
        return Refusal(ErrorCode.unsupported_version, why)
    return None


def _bad_directories(image: ClusterImage, registration: RegisterBroker) -> str | None:
    directories = registration.log_dirs
    if not directories:
        return "The registration names no directories."
    if any(directory.int < FIRST_FREE_DIRECTORY for directory in directories):
        return "The registration names a reserved directory id."
    if len(set(directories)) != len(directories):
        return "The registration names a directory twice."
    for other in image.brokers.values():
        if other.broker_id != registration.broker_id and set(other.log_dirs) & set(directories):
            return f"Broker {other.broker_id} is registered with one of these directories."
    return None


def unregister_broker(
    image: ClusterImage, leadership: PartitionLeadership, broker_id: int
) -> ControllerResult[Refusal | None]:
    """Forget a broker: it leaves every ISR and ELR, then its registration goes."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        why = f"Broker {broker_id} is not registered."
        return ControllerResult((), Refusal(ErrorCode.broker_id_not_registered, why))
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch)
    leaves = leadership.leaves_for_good(broker_id, f"broker {broker_id} was unregistered")
    return ControllerResult((*leaves, gone), None, atomic=False, causes=leadership.causes)


class RegisterController(NamedTuple):
    """What a controller says about itself when it starts."""

    controller_id: int
    incarnation_id: UUID
    endpoints: tuple[RegisteredEndpoint, ...]
    features: tuple[RegisteredFeature, ...]


def register_controller(
    image: ClusterImage, joining: RegisterController
) -> ControllerResult[Refusal | None]:
    """Note where a controller listens, unless it could not live with the cluster's features."""
    unsupported = unsupported_by(image, joining.features)
    if unsupported is not None:
        why = f"Controller {joining.controller_id} cannot join: {unsupported}."
        return ControllerResult((), Refusal(ErrorCode.unsupported_version, why))
    record = RegisterControllerRecord(
        controller_id=joining.controller_id,
        incarnation_id=joining.incarnation_id,
        end_points=joining.endpoints,
        features=joining.features,
    )
    return ControllerResult((record,), None)
