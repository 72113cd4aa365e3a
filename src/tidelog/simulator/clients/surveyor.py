"""A simulated client that asks leaders about their logs, under the right epoch and wrong ones.

Invariant  A node that has answered in an epoch answers none of an earlier or a later one (D13).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.protocol.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.cluster_client import ClusterClient
from tidelog.simulator.clients.history import History, ToldEnd
from tidelog.simulator.rules.violation import Violation

FETCH_VERSION: Final = 12
FETCH_BYTES: Final = 1_024
LIST_OFFSETS_VERSION: Final = 7
LATEST: Final = -1
INTERVAL_MS: Final = 600
NEVER_YET: Final = 1_000
"""So many epochs ahead that no node can have heard of it."""

_ASK: Final = "ask"


class Surveyor(ClusterClient):
    """Asks about one partition after the other until `stop_ms`."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        partitions: Sequence[TopicPartition],
        history: History,
        *,
        stop_ms: int,
    ) -> None:
        super().__init__(name, nodes, sorted({partition.topic for partition in partitions}))
        self._partitions = tuple(partitions)
        self._history = history
        self._stop_ms = stop_ms

    def on_started(self) -> None:
        self.set_timer(INTERVAL_MS, _ASK)

    def on_token(self, token: object) -> None:
        if self.now_ms < self._stop_ms:
            self._survey(self.dice.choice(self._partitions))
            self.set_timer(1 + int(self.dice.expovariate(1 / INTERVAL_MS)), _ASK)

    def _survey(self, name: TopicPartition) -> None:
        leader = self.leaders.get(name)
        connection = None
        if leader is not None and leader.node != NO_LEADER:
            connection = self.line(leader.node)
        if leader is None or connection is None:
            self.refresh()
            return
        known_end = self._history.of(name).known_end
        then = partial(self._surveyed, connection, name, leader.epoch, known_end)
        self._ask_end(connection, name, leader.epoch, then)

    def _ask_end(
        self, connection: int, name: TopicPartition, epoch: int, then: Callable[[Any], None]
    ) -> None:
        partition = ListOffsetsPartition(
            partition_index=name.partition, current_leader_epoch=epoch, timestamp=LATEST
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[ListOffsetsTopic(name=name.topic, partitions=[partition])],
        )
        self.ask(connection, request, LIST_OFFSETS_VERSION, then)
        self.expects_answer(connection)

    def _surveyed(
        self, connection: int, name: TopicPartition, epoch: int, known_end: int, answer: Any
    ) -> None:
        if isinstance(answer, Lost):
            return
        result = answer.topics[0].partitions[0]
        if result.error_code:
            self.refresh()
            return
        told = ToldEnd(self.name, name, epoch, known_end, int(result.offset))
        self._history.told_end(told)
        wrong = self.dice.choice((epoch - 1, epoch + NEVER_YET))
        then = partial(self._not_fenced, name, epoch, wrong)
        if wrong >= 0 and self.dice.random() < 0.5:
            self._ask_end(connection, name, wrong, then)
        elif wrong >= 0:
            self._ask_records(connection, name, wrong, told.offset, then)

    def _ask_records(
        self,
        connection: int,
        name: TopicPartition,
        epoch: int,
        offset: int,
        then: Callable[[Any], None],
    ) -> None:
        wanted = FetchPartition(name.partition, epoch, offset, -1, -1, FETCH_BYTES)
        request = FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(name.topic, None, [wanted])],
            forgotten=[],
            rack_id="",
            cluster_id=None,
        )
        self.ask_fetch(connection, FETCH_VERSION, request, then)
        self.expects_answer(connection)

    def _not_fenced(self, name: TopicPartition, epoch: int, wrong: int, answer: Any) -> None:
        if isinstance(answer, Lost):
            return
        result = answer.topics[0].partitions[0]
        error = result.error if isinstance(result, FetchedPartition) else result.error_code
        if not error:
            why = f"was answered about {name} in epoch {wrong} by a node that knew epoch {epoch}"
            raise Violation("D13", f"{self.name} {why}")
