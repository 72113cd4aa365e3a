"""A simulated administrator: creates the topics, and changes the cluster under everybody's feet.

Invariant  Nothing new begins after `stop_ms`, so that what was begun can be required to end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.protocol.message import RequestMessage
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.cluster_client import ClusterClient
from tidelog.simulator.clients.history import History

CREATE_TOPICS_VERSION: Final = 7
DELETE_TOPICS_VERSION: Final = 6
DELETE_RECORDS_VERSION: Final = 2
REASSIGN_VERSION: Final = 0
ELECT_LEADERS_VERSION: Final = 2
ADMIN_TIMEOUT_MS: Final = 5_000
RETRY_MS: Final = 250
CANCELS: Final = 0.2
"""How likely a request to move a partition is one to stay instead."""

_CREATE: Final = "create"


class NewTopic(NamedTuple):
    """A topic of the workload."""

    name: str
    partitions: int
    replicas: int
    configs: Mapping[str, str]


class AdminPaces(NamedTuple):
    """How often, on average, something is asked for; 0 for never."""

    delete_ms: int
    """Delete records."""
    reassign_ms: int
    """Move a partition to other brokers, or cancel that."""
    prefer_ms: int
    """Prefer another leader, by another order of the replicas, and elect it."""
    elect_ms: int
    """Elect preferred leaders."""
    recreate_ms: int
    """Delete the scratch topic, or create it again."""


NEVER: Final = AdminPaces(0, 0, 0, 0, 0)


class Administrator(ClusterClient):
    """Asks until all topics are there, then now and then for something else."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        topics: Sequence[NewTopic],
        history: History,
        *,
        scratch: NewTopic,
        paces: AdminPaces,
        stop_ms: int,
        others: Sequence[TopicPartition] = (),
    ) -> None:
        """`others` are partitions that somebody else creates."""
        super().__init__(name, nodes, [topic.name for topic in topics])
        self._topics_to_be = {topic.name: topic for topic in topics}
        self._partitions = [
            TopicPartition(topic.name, index)
            for topic in topics
            for index in range(topic.partitions)
        ]
        self._partitions += others
        self._history = history
        self._scratch = scratch
        self._scratch_exists = False
        self._stop_ms = stop_ms
        self._chores: dict[str, tuple[int, Callable[[], None]]] = {
            "delete": (paces.delete_ms, self._delete),
            "reassign": (paces.reassign_ms, self._reassign),
            "prefer": (paces.prefer_ms, self._prefer),
            "elect": (paces.elect_ms, self._elect),
            "recreate": (paces.recreate_ms, self._recreate),
        }

    @property
    def has_created_all(self) -> bool:
        return not self._topics_to_be

    def on_started(self) -> None:
        self.set_timer(RETRY_MS, _CREATE)
        for chore, (pace_ms, _) in self._chores.items():
            if pace_ms:
                self.set_timer(pace_ms, chore)

    def on_token(self, token: object) -> None:
        if token == _CREATE:
            self._create()
        elif isinstance(token, str) and self.now_ms < self._stop_ms:
            pace_ms, act = self._chores[token]
            act()
            self.set_timer(1 + int(self.dice.expovariate(1 / pace_ms)), token)

    def _ask_anyone(
        self, request: RequestMessage[Any], version: int, then: Callable[[Any], None]
    ) -> bool:
        """Ask some broker, which passes it on to the controller; False without a connection."""
        connection = self.line(self.dice.choice(self.nodes))
        if connection is None:
            return False
        self.ask(connection, request, version, then)
        self.expects_answer(connection)
        return True

    # Topics.

    def _create(self) -> None:
        if not self._topics_to_be:
            self.refresh()
        elif not self._ask_to_create(self._topics_to_be.values(), self._created):
            self.set_timer(RETRY_MS, _CREATE)

    def _ask_to_create(self, topics: Iterable[NewTopic], then: Callable[[Any], None]) -> bool:
        wanted = [
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replicas,
                assignments=[],
                configs=[
                    CreatableTopicConfig(name=name, value=value)
                    for name, value in topic.configs.items()
                ],
            )
            for topic in topics
        ]
        request = CreateTopicsRequest(
            topics=wanted, timeout_ms=ADMIN_TIMEOUT_MS, validate_only=False
        )
        return self._ask_anyone(request, CREATE_TOPICS_VERSION, then)

    def _created(self, answer: Any) -> None:
        if not isinstance(answer, Lost):
            for topic in answer.topics:
                if topic.error_code in (ErrorCode.none, ErrorCode.topic_already_exists):
                    self._topics_to_be.pop(str(topic.name), None)
        self.set_timer(RETRY_MS, _CREATE)

    def _recreate(self) -> None:
        """Whether it worked does not matter: the next time it is tried the other way round."""
        self._scratch_exists = not self._scratch_exists
        if self._scratch_exists:
            self._ask_to_create([self._scratch], _take_note)
        else:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=self._scratch.name, topic_id=None)],
                timeout_ms=ADMIN_TIMEOUT_MS,
            )
            self._ask_anyone(request, DELETE_TOPICS_VERSION, _take_note)

    # Replicas and leaders.

    def _reassign(self) -> None:
        least = min(2, len(self.nodes))
        count = self.dice.randint(least, min(3, len(self.nodes)))
        replicas = self.dice.sample(self.nodes, count)
        self._ask_to_move(None if self.dice.random() < CANCELS else replicas)

    def _prefer(self) -> None:
        """Leadership hops from one replica that is in sync to the next."""
        self._ask_to_move(self.dice.sample(self.nodes, min(3, len(self.nodes))))
        self._elect()

    def _ask_to_move(self, replicas: Sequence[int] | None) -> None:
        name = self.dice.choice(self._partitions)
        partition = ReassignablePartition(partition_index=name.partition, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=name.topic, partitions=[partition])],
            timeout_ms=ADMIN_TIMEOUT_MS,
        )
        self._ask_anyone(request, REASSIGN_VERSION, _take_note)

    def _elect(self) -> None:
        request = ElectLeadersRequest(
            election_type=0, topic_partitions=None, timeout_ms=ADMIN_TIMEOUT_MS
        )
        self._ask_anyone(request, ELECT_LEADERS_VERSION, _take_note)

    # Records.

    def _delete(self) -> None:
        name = self.dice.choice(self._partitions)
        known = self._history.of(name)
        leader = self.leaders.get(name)
        if leader is None or leader.node == NO_LEADER:
            self.refresh()
            return
        connection = self.line(leader.node)
        if connection is None or known.known_end < 2:
            return
        offset = self.dice.randrange(1, known.known_end)
        known.deleted_to = max(known.deleted_to, offset)
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=name.topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=name.partition, offset=offset)
                    ],
                )
            ],
            timeout_ms=ADMIN_TIMEOUT_MS,
        )
        then = partial(self._deleted, name, offset)
        self.ask(connection, request, DELETE_RECORDS_VERSION, then)
        self.expects_answer(connection)

    def _deleted(self, name: TopicPartition, offset: int, answer: Any) -> None:
        if isinstance(answer, Lost):
            return
        result = answer.topics[0].partitions[0]
        if result.error_code:
            self.refresh()
        else:
            known = self._history.of(name)
            known.told_start = max(known.told_start, offset)


def _take_note(_answer: Any) -> None:
    """Yes or no, the rules look at what comes of it."""
