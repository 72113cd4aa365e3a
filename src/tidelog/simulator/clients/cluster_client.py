"""What all simulated clients of the workload share: lines to brokers, and who leads what.

Invariant  A question that gets no answer in time costs its connection, as with a real client; in
           the calm it breaks the rule L5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tidelog.client.metadata import read_metadata
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.simulator.clients.asking import AskingClient, Lost
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.cluster import BROKER_PORT, machine_address

METADATA_VERSION: Final = 12
PATIENCE_MS: Final = 12_000
"""Longer than any time-out that a question carries."""
CALM_GRACE_MS: Final = 20_000
"""What broke before the calm may take this long to be noticed."""
REFRESH_PAUSE_MS: Final = 100


class Leader(NamedTuple):
    """Who leads a partition, as far as a client knows."""

    node: int
    epoch: int


class _Late(NamedTuple):
    connection: int
    answers: int
    asked_ms: int


_REFRESH: Final = "refresh"


class ClusterClient(AskingClient):
    """Talks to every node of the cluster; told of lines by `on_line`, of news by `on_metadata`."""

    def __init__(self, name: str, nodes: Sequence[int], topics: Sequence[str]) -> None:
        super().__init__(name)
        self.nodes = tuple(nodes)
        self.leaders: dict[TopicPartition, Leader] = {}
        self._topics = tuple(topics)
        self._lines: dict[int, int] = {}
        self._open: set[int] = set()
        self._node_of: dict[int, int] = {}
        self._answers: dict[int, int] = {}
        self._refreshing = False
        self._refresh_due = False

    # To be overridden.

    def on_line(self, node: int) -> None:
        """A connection to a node is there."""

    def on_metadata(self) -> None:
        """The leaders may be others now."""

    def on_token(self, token: object) -> None:
        """A timer of this client's own is due."""

    # To be used.

    def line(self, node: int) -> int | None:
        """The connection to a node; None while it does not stand, then `on_line` tells."""
        connection = self._lines.get(node)
        if connection is None:
            connection = self.connect(machine_address(node), BROKER_PORT)
            self._lines[node] = connection
            self._node_of[connection] = node
            self._answers[connection] = 0
            self._be_patient(connection)
        return connection if connection in self._open else None

    def expects_answer(self, connection: int) -> None:
        """A question was asked there: give the connection up if no answer comes."""
        self._be_patient(connection)

    def refresh(self) -> None:
        """Ask some node who leads what; `on_metadata` tells."""
        if not self._refreshing and not self._refresh_due:
            self._refresh_due = True
            self.set_timer(REFRESH_PAUSE_MS, _REFRESH)

    # From the host.

    def on_connected(self, connection: int) -> None:
        self._open.add(connection)
        node = self._node_of[connection]
        self.on_line(node)

    def on_closed(self, connection: int, reason: str) -> None:
        self._forget(connection)
        super().on_closed(connection, reason)
        self.refresh()

    def on_frame(self, connection: int, frame: memoryview) -> None:
        self._answers[connection] += 1
        super().on_frame(connection, frame)

    def on_timer(self, token: object) -> None:
        if isinstance(token, _Late):
            self._look_at(token)
        elif token == _REFRESH:
            self._refresh_due = False
            self._ask_metadata()
        else:
            self.on_token(token)

    # Patience.

    def _be_patient(self, connection: int) -> None:
        answers = self._answers[connection] + self.waiting(connection)
        self.set_timer(PATIENCE_MS, _Late(connection, answers, self.now_ms))

    def _look_at(self, late: _Late) -> None:
        node = self._node_of.get(late.connection)
        if node is None:
            return
        is_open = late.connection in self._open
        if is_open and self._answers[late.connection] >= late.answers:
            return
        world = self.host.world
        calm_ms = world.calm_since_ms
        if (
            calm_ms is not None
            and late.asked_ms > calm_ms + CALM_GRACE_MS
            and node not in world.plan.dead
        ):
            raise Violation("L5", f"{self.name} got no answer from {node} in {PATIENCE_MS} ms")
        self._forget(late.connection)
        self.hang_up(late.connection)
        self.refresh()

    def _forget(self, connection: int) -> None:
        node = self._node_of.pop(connection, None)
        self._open.discard(connection)
        self._answers.pop(connection, None)
        if node is not None and self._lines.get(node) == connection:
            del self._lines[node]

    # Metadata.

    def _ask_metadata(self) -> None:
        node = self.dice.choice(self.nodes)
        connection = self.line(node)
        if connection is None:
            self._refresh_due = True
            self.set_timer(REFRESH_PAUSE_MS, _REFRESH)
            return
        self._refreshing = True
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in self._topics],
            allow_auto_topic_creation=False,
        )
        self.ask(connection, request, METADATA_VERSION, self._told)
        self.expects_answer(connection)

    def _told(self, answer: Any) -> None:
        self._refreshing = False
        if isinstance(answer, Lost):
            return
        view = read_metadata(answer)
        for topic in view.topics.values():
            for partition in topic.partitions:
                name = TopicPartition(topic.name, partition.partition)
                known = self.leaders.get(name)
                if known is not None and known.epoch > partition.leader_epoch:
                    continue  # that node is behind
                node = partition.leader if partition.leader in view.brokers else NO_LEADER
                self.leaders[name] = Leader(node, partition.leader_epoch)
        self.on_metadata()
