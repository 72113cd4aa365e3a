"""A simulated administrator: creates the topics, and deletes records now and then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.simulator.asking import Lost
from tidelog.simulator.workload_client import ClusterClient
from tidelog.simulator.workload_history import History
from tidelog.wire.apis import ApiKey

CREATE_TOPICS_VERSION: Final = 7
DELETE_RECORDS_VERSION: Final = 2
ADMIN_TIMEOUT_MS: Final = 5_000
RETRY_MS: Final = 250

_CREATE: Final = "create"
_DELETE: Final = "delete"


class NewTopic(NamedTuple):
    """A topic of the workload."""

    name: str
    partitions: int
    replicas: int
    configs: Mapping[str, str]


class Administrator(ClusterClient):
    """Asks until all topics are there."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        topics: Sequence[NewTopic],
        history: History,
        *,
        delete_every_ms: int,
        stop_ms: int,
    ) -> None:
        super().__init__(name, nodes, [topic.name for topic in topics])
        self._topics_to_be = {topic.name: topic for topic in topics}
        self._partitions = [
            TopicPartition(topic.name, index)
            for topic in topics
            for index in range(topic.partitions)
        ]
        self._history = history
        self._delete_every_ms = delete_every_ms
        self._stop_ms = stop_ms

    @property
    def has_created_all(self) -> bool:
        return not self._topics_to_be

    def on_started(self) -> None:
        self.set_timer(RETRY_MS, _CREATE)
        if self._delete_every_ms:
            self.set_timer(self._delete_every_ms, _DELETE)

    def on_token(self, token: object) -> None:
        if token == _CREATE:
            self._create()
        elif self.now_ms < self._stop_ms:
            self._delete()
            self.set_timer(1 + int(self.dice.expovariate(1 / self._delete_every_ms)), _DELETE)

    # Topics.

    def _create(self) -> None:
        if not self._topics_to_be:
            self.refresh()
            return
        connection = self.line(self.dice.choice(self.nodes))
        if connection is None:
            self.set_timer(RETRY_MS, _CREATE)
            return
        topics = [
            {
                "name": topic.name,
                "num_partitions": topic.partitions,
                "replication_factor": topic.replicas,
                "assignments": [],
                "configs": [
                    {"name": name, "value": value} for name, value in topic.configs.items()
                ],
            }
            for topic in self._topics_to_be.values()
        ]
        fields = {"topics": topics, "timeout": ADMIN_TIMEOUT_MS, "validate_only": False}
        self.ask(connection, ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, fields, self._created)
        self.expects_answer(connection)

    def _created(self, answer: Any) -> None:
        if not isinstance(answer, Lost):
            for topic in answer.topics:
                if topic.error_code in (ErrorCode.none, ErrorCode.topic_already_exists):
                    self._topics_to_be.pop(str(topic.name), None)
        self.set_timer(RETRY_MS, _CREATE)

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
        fields = {
            "topics": [
                {
                    "name": name.topic,
                    "partitions": [{"partition_index": name.partition, "offset": offset}],
                }
            ],
            "timeout": ADMIN_TIMEOUT_MS,
        }
        then = partial(self._deleted, name, offset)
        self.ask(connection, ApiKey.DELETE_RECORDS, DELETE_RECORDS_VERSION, fields, then)
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
