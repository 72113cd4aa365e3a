"""Simulated clients of a group coordinator, and members of a group of the consumer protocol.

Invariant  A member reads a partition only while it may be sure that it still has it: it gives
           everything up when no heartbeat of the last while was answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.protocol.message import RequestMessage
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.cluster_client import ClusterClient

SESSION_MS: Final = 12_000
SURE_FOR_MS: Final = SESSION_MS // 3
PAUSE_MS: Final = 200
LEAVES: Final = 0.01
"""How likely a member leaves instead of sending its next heartbeat."""
FIND_VERSION: Final = 2
FETCH_VERSION: Final = 7

_GO: Final = "go"
_REMOVED: Final = frozenset({ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id})
_ELSEWHERE: Final = frozenset(
    {ErrorCode.not_coordinator, ErrorCode.coordinator_not_available, ErrorCode.group_id_not_found}
)


class GroupClient(ClusterClient):
    """Finds the coordinator of its group, and asks it one thing at a time."""

    def __init__(
        self, name: str, nodes: Sequence[int], topics: Sequence[str], group: str, stop_ms: int
    ) -> None:
        super().__init__(name, nodes, topics)
        self.group = group
        self.stop_ms = stop_ms
        self._coordinator: int | None = None
        self._is_asking = False

    def act(self) -> None:
        """To be overridden: ask the coordinator, which is known and asked nothing else."""

    def on_started(self) -> None:
        self.refresh()
        self.set_timer(PAUSE_MS, _GO)

    def on_token(self, token: object) -> None:
        self.set_timer(PAUSE_MS, _GO)
        if self._is_asking:
            return
        if self._coordinator is None:
            request = FindCoordinatorRequest(key=self.group, key_type=0)
            node = self.dice.choice(self.nodes)
            self._ask(node, request, FIND_VERSION, self._found)
        else:
            self.act()

    def ask_coordinator(self, request: RequestMessage[Any], version: int, then: Any) -> bool:
        """Whether it could be asked; `then` gets the answer, or `Lost`."""
        assert self._coordinator is not None
        return self._ask(self._coordinator, request, version, then)

    @property
    def coordinator(self) -> int | None:
        """Who coordinates the group, as far as this client knows."""
        return self._coordinator

    def refused(self, error: ErrorCode) -> None:
        """Look for the coordinator elsewhere, if that is what the error says."""
        if error in _ELSEWHERE:
            self._coordinator = None

    def _ask(self, node: int, request: RequestMessage[Any], version: int, then: Any) -> bool:
        connection = self.line(node)
        if connection is None:
            self._coordinator = None
            return False
        self._is_asking = True
        self.ask(connection, request, version, partial(self._answered, then))
        self.expects_answer(connection)
        return True

    def _answered(self, then: Any, answer: Any) -> None:
        self._is_asking = False
        if isinstance(answer, Lost):
            self._coordinator = None
        then(answer)

    def _found(self, answer: Any) -> None:
        if not isinstance(answer, Lost) and not answer.error_code:
            self._coordinator = int(answer.node_id)


class GroupMember(GroupClient, ABC):
    """Reads a topic together with others, as far as it may be sure of its part."""

    def __init__(
        self, name: str, nodes: Sequence[int], topic: str, stop_ms: int, group: str
    ) -> None:
        super().__init__(name, nodes, (topic,), group, stop_ms)
        self.topic = topic
        self._sure_until_ms = 0

    @property
    @abstractmethod
    def reads(self) -> tuple[int, ...]:
        """The partitions that it reads."""

    @property
    def is_sure(self) -> bool:
        """Whether it was heard of so lately that nobody else can have what it reads."""
        return self.now_ms < self._sure_until_ms

    def heard_of(self, asked_ms: int) -> None:
        """A coordinator took it for a member after it was asked."""
        self._sure_until_ms = asked_ms + SURE_FOR_MS

    def _wants_to_leave(self) -> bool:
        return self.now_ms < self.stop_ms and self.dice.random() < LEAVES


class Member(GroupMember):
    """Joins, follows what it is assigned, leaves now and then while faults strike."""

    def __init__(
        self, name: str, nodes: Sequence[int], topic: str, stop_ms: int, group: str
    ) -> None:
        super().__init__(name, nodes, topic, stop_ms, group)
        self._epoch = 0
        self._owned: frozenset[tuple[UUID, int]] = frozenset()

    @property
    def owned(self) -> frozenset[tuple[UUID, int]]:
        """What it has while it is sure of it."""
        return self._owned if self.is_sure else frozenset()

    @property
    def reads(self) -> tuple[int, ...]:
        return tuple(sorted(index for _, index in self.owned))

    def act(self) -> None:
        if not self.owned and self._owned:
            self._give_up()
        leaves = self._wants_to_leave()
        epoch = -1 if leaves else self._epoch
        if leaves:
            self._assigned(frozenset())
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.name,
            member_epoch=epoch,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=[self.topic],
            topic_partitions=[
                ConsumerGroupHeartbeatRequestTopicPartitions(
                    topic_id=topic_id, partitions=[partition]
                )
                for topic_id, partition in sorted(self._owned)
            ],
        )
        self.ask_coordinator(request, 1, partial(self._beaten, epoch, self.now_ms))

    def _wants_to_leave(self) -> bool:
        return self._epoch > 0 and super()._wants_to_leave()

    def _beaten(self, sent_epoch: int, sent_ms: int, answer: Any) -> None:
        if isinstance(answer, Lost):
            return
        error = ErrorCode(answer.error_code)
        if error in _REMOVED or sent_epoch < 0:
            self._give_up()
        if error or sent_epoch < 0:
            self.refused(error)
            return
        self._epoch = int(answer.member_epoch)
        self.heard_of(sent_ms)
        if answer.assignment is not None:
            self._assigned(
                frozenset(
                    (topic.topic_id, int(partition))
                    for topic in answer.assignment.topic_partitions
                    for partition in topic.partitions
                )
            )

    def _assigned(self, places: frozenset[tuple[UUID, int]]) -> None:
        self._owned = places

    def _give_up(self) -> None:
        self._epoch = 0
        self._owned = frozenset()
