"""Writing the end of a transaction into a partition that this broker leads.

Invariant  The outcome is known once every in-sync replica has the marker, as with acks=all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from tidelog.coordinator.decision import Producer
from tidelog.coordinator.internal_topics import OFFSETS_TOPIC
from tidelog.coordinator.shard import Marker
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.records.builder import end_txn_marker
from tidelog.replication.partition import Partition

_AS_LEADER: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)
"""What a group coordinator says when another broker, or a later try, may do."""

Written: TypeAlias = Callable[[ErrorCode], None]


class MarkerOrder(NamedTuple):
    """The end of a transaction, as its coordinator wants it written."""

    producer: Producer
    commit: bool
    coordinator_epoch: int
    version: int


def write_marker(
    broker: BrokerState, now: Now, name: TopicPartition, order: MarkerOrder, written: Written
) -> None:
    """Append the marker and tell when it is safe, or why it is not."""
    partition = broker.replicas.locate(broker.image, name, None)
    if isinstance(partition, ErrorCode):
        written(partition)
    elif not partition.is_leader:
        written(ErrorCode.not_leader_or_follower)
    elif name.topic == OFFSETS_TOPIC:
        _write_offsets_marker(broker, now, name, order, written)
    else:
        _write_data_marker(broker, now, partition, order, written)


def _write_offsets_marker(
    broker: BrokerState, now: Now, name: TopicPartition, order: MarkerOrder, written: Written
) -> None:
    """The group coordinator must learn which offsets count from now on."""
    led = broker.groups.at(name.partition)
    if led is None:
        written(ErrorCode.not_leader_or_follower)
        return

    def known(refusal: Refusal | None) -> None:
        code = ErrorCode.none if refusal is None else refusal.code
        written(ErrorCode.not_leader_or_follower if code in _AS_LEADER else code)

    marker = Marker(order.producer, order.commit)
    led.write_marker(now, marker, order.coordinator_epoch, order.version, known)


def _write_data_marker(
    broker: BrokerState, now: Now, partition: Partition, order: MarkerOrder, written: Written
) -> None:
    batch = end_txn_marker(
        producer_id=order.producer.producer_id,
        producer_epoch=order.producer.producer_epoch,
        committed=order.commit,
        coordinator_epoch=order.coordinator_epoch,
        timestamp=now.wall_ms,
    )
    appended = partition.append_as_coordinator(batch, now, order.version)
    if isinstance(appended, Refusal):
        written(appended.code)
        return
    if partition.owed_flush is not None:
        broker.flushes.begin_owed(partition)
    end_offset = appended.last_offset + 1
    code = partition.acknowledgement(end_offset)
    if code is not None:
        written(code)
        return

    def settled(outcome: ErrorCode) -> None:
        deadline.cancel()
        written(outcome)

    parked = partition.wait_for(end_offset, settled)
    deadline = broker.deadlines.at(
        now.monotonic_ms + broker.config.request_timeout_ms, lambda later: parked.time_out()
    )
