"""Brokers and controllers that have joined the cluster, as the metadata log describes them.

Invariant  A registration never changes; a change record makes a new one.
Invariant  Endpoints and features stand in order of their names, whatever order a record has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, TypeVar, assert_never
from uuid import UUID

from tidelog.controller.records import UnappliableRecord
from tidelog.protocol.stored.metadata import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RegisteredEndpoint,
    RegisteredFeature,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

Named = TypeVar("Named", RegisteredEndpoint, RegisteredFeature)
BrokerRecord: TypeAlias = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
)

_FENCED_AFTER: Final = {1: True, -1: False}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """One broker process: its incarnation, where it listens, and whether it may lead."""

    broker_id: int
    incarnation_id: UUID
    broker_epoch: int
    endpoints: tuple[RegisteredEndpoint, ...] = ()
    features: tuple[RegisteredFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] = ()
    is_migrating_zk_broker: bool = False
    registered_at: int = field(default=-1, compare=False)
    """Offset of the record that registered it here; a broker behind it is not caught up. A node
    that loaded a snapshot knows only a later one, so it is no part of the shared state."""

    @property
    def active(self) -> bool:
        """May lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> RegisteredEndpoint | None:
        """Where it listens under that listener name."""
        return next((point for point in self.endpoints if point.name == listener), None)

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord, offset: int) -> BrokerRegistration:
        return cls(
            broker_id=record.broker_id,
            incarnation_id=record.incarnation_id,
            broker_epoch=record.broker_epoch,
            endpoints=_by_name(record.end_points),
            features=_by_name(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=record.log_dirs,
            cordoned_log_dirs=record.cordoned_log_dirs or (),
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            registered_at=offset,
        )

    def to_record(self) -> RegisterBrokerRecord:
        """The record that makes this registration from nothing."""
        return RegisterBrokerRecord(
            broker_id=self.broker_id,
            is_migrating_zk_broker=self.is_migrating_zk_broker,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.broker_epoch,
            end_points=self.endpoints,
            features=self.features,
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=self.log_dirs,
            cordoned_log_dirs=self.cordoned_log_dirs,
        )

    def changed_by(self, record: BrokerRegistrationChangeRecord) -> BrokerRegistration:
        """The registration after the change."""
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise UnappliableRecord(f"registration change of broker {self.broker_id}: {record}")
        cordoned = record.cordoned_log_dirs
        return replace(
            self,
            fenced=_FENCED_AFTER.get(record.fenced, self.fenced),
            in_controlled_shutdown=self.in_controlled_shutdown
            or record.in_controlled_shutdown == 1,
            log_dirs=record.log_dirs or self.log_dirs,
            cordoned_log_dirs=self.cordoned_log_dirs if cordoned is None else cordoned,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """One controller process and where it listens."""

    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool = False
    endpoints: tuple[RegisteredEndpoint, ...] = ()
    features: tuple[RegisteredFeature, ...] = ()

    @classmethod
    def from_record(cls, record: RegisterControllerRecord) -> ControllerRegistration:
        return cls(
            controller_id=record.controller_id,
            incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            endpoints=_by_name(record.end_points),
            features=_by_name(record.features),
        )

    def to_record(self) -> RegisterControllerRecord:
        """The record that makes this registration from nothing."""
        return RegisterControllerRecord(
            controller_id=self.controller_id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=self.endpoints,
            features=self.features,
        )


def _by_name(named: tuple[Named, ...]) -> tuple[Named, ...]:
    return tuple(sorted(named, key=lambda item: item.name))


def registration_after(
    brokers: Mapping[int, BrokerRegistration], record: BrokerRecord, offset: int
) -> tuple[int, BrokerRegistration | None]:
    """Whom the record is about, and that broker's registration after it."""
    match record:
        case RegisterBrokerRecord():
            return record.broker_id, BrokerRegistration.from_record(record, offset)
        case UnregisterBrokerRecord():
            _registered(brokers, record.broker_id, record.broker_epoch)
            return record.broker_id, None
        case BrokerRegistrationChangeRecord():
            before = _registered(brokers, record.broker_id, record.broker_epoch)
            return record.broker_id, before.changed_by(record)
        case FenceBrokerRecord():
            return record.id, replace(_registered(brokers, record.id, record.epoch), fenced=True)
        case UnfenceBrokerRecord():
            return record.id, replace(_registered(brokers, record.id, record.epoch), fenced=False)
        case _:
            assert_never(record)


def _registered(
    brokers: Mapping[int, BrokerRegistration], broker_id: int, broker_epoch: int
) -> BrokerRegistration:
    broker = brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise UnappliableRecord(f"broker {broker_id} of epoch {broker_epoch} is not registered")
    return broker
