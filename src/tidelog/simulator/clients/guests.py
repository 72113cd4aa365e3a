"""Simulated guests: clients whose permissions come and go while they write and read.

Invariant  Every guest has one question under way, so that an answer leaves in the very step that
           found out what may be said: no earlier question holds it back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidelog.records.builder import NewRecord, build_batch
from tidelog.security.acls import (
    EVERYBODY,
    WILDCARD,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.cluster_client import ClusterClient
from tidelog.simulator.world.clock import EPOCH_MS

PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
ACLS_VERSION: Final = 3
CREATE_TOPICS_VERSION: Final = 7
TIMEOUT_MS: Final = 5_000
RETRY_MS: Final = 100
WAITS_MS: Final = 800
"""So long a fetch of a guest waits for records; permissions come and go meanwhile."""
FORGETS: Final = 0.02
"""How likely a reader begins a new session although nothing is wrong."""

_GO: Final = "go"


class Guest(ClusterClient, ABC):
    """Asks the leader of one partition for the same again and again."""

    def __init__(
        self, name: str, nodes: Sequence[int], partition: TopicPartition, interval_ms: int
    ) -> None:
        super().__init__(name, nodes, (partition.topic,))
        self.partition = partition
        self.served_ms = -1
        """When it last got what it wanted."""
        self.denials = 0
        self.may_stop = False
        """Whether everything is allowed for good, so that once more is enough."""
        self._interval_ms = interval_ms

    def on_started(self) -> None:
        self.refresh()
        self.set_timer(RETRY_MS, _GO)

    def on_token(self, token: object) -> None:
        leader = self.leaders.get(self.partition)
        if leader is None or leader.node == NO_LEADER:
            self.refresh()
            self.set_timer(RETRY_MS, _GO)
            return
        connection = self.line(leader.node)
        if connection is None:
            self.set_timer(RETRY_MS, _GO)
            return
        self.want(connection)
        self.expects_answer(connection)

    @abstractmethod
    def want(self, connection: int) -> None:
        """Ask; to be told by `answered` what came of it."""

    def answered(self, code: ErrorCode) -> None:
        """Note it, and go on."""
        if code is ErrorCode.none:
            self.served_ms = self.now_ms
            if self.may_stop:
                return
        elif code is ErrorCode.topic_authorization_failed:
            self.denials += 1
        else:
            self.refresh()
        self.set_timer(self._interval_ms, _GO)


class GuestWriter(Guest):
    """Writes one record at a time, and hears at once whether it stands in the leader's log."""

    def want(self, connection: int) -> None:
        topic, index = self.partition
        batch = bytes(build_batch([NewRecord(b"", b"guest", EPOCH_MS + self.now_ms)]))
        self.ask_produce(
            connection, PRODUCE_VERSION, [(topic, None, [(index, batch)])], self._came, acks=1
        )

    def _came(self, answer: Any) -> None:
        if isinstance(answer, Lost):
            self.set_timer(RETRY_MS, _GO)
        else:
            self.answered(ErrorCode(answer.topics[0].partitions[0].error))


class GuestReader(Guest):
    """Reads in a session, and waits for what is not there yet."""

    def __init__(
        self, name: str, nodes: Sequence[int], partition: TopicPartition, interval_ms: int
    ) -> None:
        super().__init__(name, nodes, partition, interval_ms)
        self._offset = 0
        self._session = (0, 0)
        self._connection = 0

    def want(self, connection: int) -> None:
        if connection != self._connection or self.dice.random() < FORGETS:
            self._connection, self._session = connection, (0, 0)
        session_id, epoch = self._session
        topic, index = self.partition
        wanted = FetchPartition(index, -1, self._offset, -1, -1, 1 << 20)
        request = FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=WAITS_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchTopic(topic, None, [wanted])],
            forgotten=[],
            rack_id="",
            cluster_id=None,
        )
        self.ask_fetch(connection, FETCH_VERSION, request, self._came)

    def _came(self, answer: Any) -> None:
        if isinstance(answer, Lost) or answer.error:
            self._session = (0, 0)
            self.set_timer(RETRY_MS, _GO)
            return
        _, epoch = self._session
        self._session = (answer.session_id, epoch + 1) if answer.session_id else (0, 0)
        code = ErrorCode.none
        for topic in answer.topics:
            for partition in topic.partitions:
                code = ErrorCode(partition.error)
                if code is ErrorCode.offset_out_of_range:
                    self._offset = 0  # what was read was not replicated, and is lost
                elif code is ErrorCode.none:
                    self._offset = max(self._offset, partition.high_watermark)
        self.answered(code)


class Doorkeeper(ClusterClient):
    """Forbids guests something, and allows it again; from `stop_ms` on everything is allowed."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        topic: str,
        replicas: int,
        guests: Sequence[Guest],
        *,
        interval_ms: int,
        stop_ms: int,
    ) -> None:
        super().__init__(name, nodes, ())
        self._topic = topic
        self._replicas = replicas
        self._guests = guests
        self._interval_ms = interval_ms
        self._stop_ms = stop_ms
        self._is_open = False
        """Whether the topic is there, with a rule that lets everybody in."""
        self.is_done = False

    def on_started(self) -> None:
        self.set_timer(RETRY_MS, _GO)

    def on_token(self, token: object) -> None:
        connection = self.line(self.dice.choice(self.nodes))
        if connection is None:
            self.set_timer(RETRY_MS, _GO)
            return
        if not self._is_open:
            self._create(connection)
        elif self.now_ms >= self._stop_ms:
            self._allow(connection, None)
        elif self.dice.random() < 0.5:
            self._allow(connection, self.dice.choice(self._guests))
        else:
            self._forbid(connection, self.dice.choice(self._guests))
        self.expects_answer(connection)

    def _create(self, connection: int) -> None:
        topic = CreatableTopic(
            name=self._topic, num_partitions=1, replication_factor=self._replicas
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        self.ask(connection, request, CREATE_TOPICS_VERSION, self._created)

    def _created(self, answer: Any) -> None:
        there = (ErrorCode.none, ErrorCode.topic_already_exists)
        if isinstance(answer, Lost) or answer.topics[0].error_code not in there:
            self.set_timer(RETRY_MS, _GO)
            return
        connection = self.line(self.dice.choice(self.nodes))
        if connection is None:
            self.set_timer(RETRY_MS, _GO)
            return
        rule = self._rule(EVERYBODY, WILDCARD, AclOperation.ALL, AclPermission.ALLOW)
        self.ask(connection, CreateAclsRequest(creations=[rule]), ACLS_VERSION, self._opened)
        self.expects_answer(connection)

    def _opened(self, answer: Any) -> None:
        self._is_open = not isinstance(answer, Lost) and not answer.results[0].error_code
        self.set_timer(self._interval_ms if self._is_open else RETRY_MS, _GO)

    def _forbid(self, connection: int, guest: Guest) -> None:
        operations = (AclOperation.READ, AclOperation.WRITE, AclOperation.ALL)
        rule = self._rule(
            EVERYBODY, guest.host.address, self.dice.choice(operations), AclPermission.DENY
        )
        self.ask(connection, CreateAclsRequest(creations=[rule]), ACLS_VERSION, self._changed)

    def _allow(self, connection: int, guest: Guest | None) -> None:
        """Take back what was forbidden to one of them, or to all."""
        wanted = DeleteAclsFilter(
            resource_type_filter=ResourceType.TOPIC,
            resource_name_filter=self._topic,
            pattern_type_filter=PatternType.LITERAL,
            principal_filter=None,
            host_filter=None if guest is None else guest.host.address,
            operation=AclOperation.ANY,
            permission_type=AclPermission.DENY,
        )
        then = self._changed if guest is not None else self._ended
        self.ask(connection, DeleteAclsRequest(filters=[wanted]), ACLS_VERSION, then)

    def _changed(self, answer: Any) -> None:
        self.set_timer(1 + int(self.dice.expovariate(1 / self._interval_ms)), _GO)

    def _ended(self, answer: Any) -> None:
        self.is_done = not isinstance(answer, Lost) and not answer.filter_results[0].error_code
        if not self.is_done:
            self.set_timer(RETRY_MS, _GO)
        for guest in self._guests:
            guest.may_stop = self.is_done

    def _rule(
        self, principal: str, host: str, operation: AclOperation, permission: AclPermission
    ) -> AclCreation:
        return AclCreation(
            resource_type=ResourceType.TOPIC,
            resource_name=self._topic,
            resource_pattern_type=PatternType.LITERAL,
            principal=principal,
            host=host,
            operation=operation,
            permission_type=permission,
        )
