"""A follower that is out of the leader's range asks where that begins and ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.links import Link, LinkLost
from tidelog.replication.messages import BackOff, FetchState, FollowerStep, LeaderOffsets
from tidelog.replication.partition import Partition
from tidelog.wire.apis import ApiKey

LIST_OFFSETS_VERSION: Final = 8
LATEST: Final = -1
EARLIEST_LOCAL: Final = -4

Told: TypeAlias = Callable[[Partition, FetchState, FollowerStep, Now], None]


class OffsetQuestion:
    """Two questions to the leader, then one step of the follower."""

    def __init__(
        self, broker: BrokerState, link: Link, partition: Partition, state: FetchState, then: Told
    ) -> None:
        self._broker = broker
        self._link = link
        self._partition = partition
        self._state = state
        self._then = then
        self._end_offset = 0

    def ask(self, now: Now) -> None:
        """Where does your log end?"""
        self._send(now, LATEST, self._end_known)

    def _end_known(self, offset: int, now: Now) -> None:
        self._end_offset = offset
        self._send(now, EARLIEST_LOCAL, self._start_known)

    def _start_known(self, offset: int, now: Now) -> None:
        step = self._partition.offsets_told(
            LeaderOffsets(
                self._state.fetch_offset, self._state.leader_epoch, offset, self._end_offset
            ),
            now,
        )
        self._then(self._partition, self._state, step, now)

    def _send(self, now: Now, timestamp: int, known: Callable[[int, Now], None]) -> None:
        def answered(answer: Any, now: Now) -> None:
            if isinstance(answer, LinkLost):
                self._give_up(answer.reason, now)
                return
            (told,) = answer.topics[0].partitions
            if told.error_code is not ErrorCode.none:
                self._give_up(f"the leader answered {told.error_code.name}", now)
            else:
                known(told.offset, now)

        name = self._partition.name
        asked = {
            "partition_index": name.partition,
            "current_leader_epoch": self._state.leader_epoch,
            "timestamp": timestamp,
        }
        fields = {
            "replica_id": self._broker.node_id,
            "topics": [{"name": name.topic, "partitions": [asked]}],
        }
        timeout_ms = self._broker.config.replica_socket_timeout_ms
        self._link.ask(
            now, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, fields, answered, timeout_ms=timeout_ms
        )

    def _give_up(self, why: str, now: Now) -> None:
        pause = BackOff(self._broker.config.replica_fetch_backoff_ms, why)
        self._then(self._partition, self._state, pause, now)
