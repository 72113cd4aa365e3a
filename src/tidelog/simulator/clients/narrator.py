"""The client of a transcript: asks one broker one thing and tells the answer in one line.

Invariant  It asks exactly the broker it is told to ask, with no retry of its own: a refusal is part
           of the story.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from tidelog.model.errors import ErrorCode
from tidelog.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.message import RequestMessage
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.records.batch import whole_batches
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import records_of
from tidelog.simulator.clients.asking import AskingClient, Lost
from tidelog.simulator.world.clock import EPOCH_MS
from tidelog.simulator.world.cluster import BROKER_PORT, machine_address

CREATE_TOPICS_VERSION: Final = 7
DELETE_RECORDS_VERSION: Final = 2
ELECT_LEADERS_VERSION: Final = 2
FETCH_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 7
PRODUCE_VERSION: Final = 11
REASSIGN_VERSION: Final = 0
TIMEOUT_MS: Final = 10_000
LATEST: Final = -1

Tell = Callable[[str], None]
Question = Callable[[int], None]


class Narrator(AskingClient):
    """Every answer goes to `tell` as it arrives."""

    def __init__(self, tell: Tell) -> None:
        super().__init__("narrator")
        self._tell = tell
        self._lines: dict[int, int] = {}
        self._node_of: dict[int, int] = {}
        self._waiting: dict[int, list[Question]] = {}
        self.unanswered = 0

    # What it is asked to do.

    def create(
        self, node: int, topic: str, replicas: Sequence[int], configs: Mapping[str, str]
    ) -> None:
        """Create a topic with one partition on these brokers."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
                    ],
                    configs=[
                        CreatableTopicConfig(name=name, value=value)
                        for name, value in configs.items()
                    ],
                )
            ],
            timeout_ms=TIMEOUT_MS,
            validate_only=False,
        )
        self._put(node, request, CREATE_TOPICS_VERSION, _created)

    def produce(self, node: int, topic: str, values: Sequence[str], acks: int) -> None:
        """Append one batch."""
        batch = build_batch(
            [NewRecord(None, value.encode(), EPOCH_MS + self.now_ms) for value in values]
        )
        topics = [(topic, None, [(0, bytes(batch))])]

        def ask(connection: int) -> None:
            then = None if acks == 0 else partial(self._answered, _produced)
            self.ask_produce(
                connection, PRODUCE_VERSION, topics, then, acks=acks, timeout_ms=TIMEOUT_MS
            )

        self._ask_on_line(node, ask, expects=acks != 0)

    def fetch(self, node: int, topic: str, offset: int) -> None:
        """Read from an offset on, without waiting for more."""
        wanted = FetchTopic(topic, None, [FetchPartition(0, -1, offset, -1, -1, 1 << 20)])
        request = FetchRequest(
            -1, -1, 0, 1, 1 << 20, 0, 0, -1, [wanted], [], rack_id="", cluster_id=None
        )

        def ask(connection: int) -> None:
            self.ask_fetch(connection, FETCH_VERSION, request, partial(self._answered, _fetched))

        self._ask_on_line(node, ask)

    def latest(self, node: int, topic: str) -> None:
        """Ask where the log ends for consumers."""
        partition = ListOffsetsPartition(
            partition_index=0, current_leader_epoch=-1, timestamp=LATEST
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[ListOffsetsTopic(name=topic, partitions=[partition])],
        )
        self._put(node, request, LIST_OFFSETS_VERSION, _latest)

    def delete(self, node: int, topic: str, before: int) -> None:
        """Delete the records before an offset."""
        partition = DeleteRecordsPartition(partition_index=0, offset=before)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=TIMEOUT_MS
        )
        self._put(node, request, DELETE_RECORDS_VERSION, _deleted)

    def elect(self, node: int) -> None:
        """Let every partition be led by its preferred replica."""
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=TIMEOUT_MS)
        self._put(node, request, ELECT_LEADERS_VERSION, _elected)

    def reassign(self, node: int, topic: str, replicas: Sequence[int]) -> None:
        """Move a partition to these brokers."""
        partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[partition])], timeout_ms=TIMEOUT_MS
        )
        self._put(node, request, REASSIGN_VERSION, _reassigned)

    # Asking.

    def _put(
        self,
        node: int,
        request: RequestMessage[Any],
        version: int,
        words: Callable[[Any], str],
    ) -> None:
        then = partial(self._answered, words)
        self._ask_on_line(node, lambda connection: self.ask(connection, request, version, then))

    def _ask_on_line(self, node: int, question: Question, *, expects: bool = True) -> None:
        self.unanswered += expects
        connection = self._lines.get(node)
        if connection is None:
            connection = self.connect(machine_address(node), BROKER_PORT)
            self._lines[node] = connection
            self._node_of[connection] = node
            self._waiting[connection] = []
        if connection in self._waiting:
            self._waiting[connection].append(question)
        else:
            question(connection)

    def on_connected(self, connection: int) -> None:
        for question in self._waiting.pop(connection, ()):
            question(connection)

    def on_closed(self, connection: int, reason: str) -> None:
        node = self._node_of.pop(connection)
        del self._lines[node]
        for _ in self._waiting.pop(connection, ()):
            self._answered(_nothing, Lost(reason))
        super().on_closed(connection, reason)

    def _answered(self, words: Callable[[Any], str], answer: Any) -> None:
        self.unanswered -= 1
        self._tell(f"no answer: {answer.reason}" if isinstance(answer, Lost) else words(answer))


def _refused(code: int) -> str:
    return f"refused: {ErrorCode(code).name.upper()}"


def _nothing(_answer: Any) -> str:
    return "no answer"


def _created(answer: Any) -> str:
    code = answer.topics[0].error_code
    return _refused(code) if code else "created"


def _produced(answer: Any) -> str:
    (partition,) = answer.topics[0].partitions
    if partition.error:
        return _refused(partition.error)
    return f"acknowledged: offset {partition.base_offset}"


def _fetched(answer: Any) -> str:
    (partition,) = answer.topics[0].partitions
    if partition.error:
        return _refused(partition.error)
    records = partition.records if isinstance(partition.records, memoryview) else memoryview(b"")
    read = [
        f"{record.offset}={(record.value or b'').decode()}"
        for _, batch in whole_batches(records)
        for record in records_of(batch)
    ]
    return f"read: {' '.join(read) or 'nothing'}, high watermark {partition.high_watermark}"


def _latest(answer: Any) -> str:
    partition = answer.topics[0].partitions[0]
    return _refused(partition.error_code) if partition.error_code else f"ends at {partition.offset}"


def _deleted(answer: Any) -> str:
    partition = answer.topics[0].partitions[0]
    if partition.error_code:
        return _refused(partition.error_code)
    return f"deleted: the log begins at {partition.low_watermark}"


def _elected(answer: Any) -> str:
    return _refused(answer.error_code) if answer.error_code else "elected"


def _reassigned(answer: Any) -> str:
    code = answer.error_code or answer.responses[0].partitions[0].error_code
    return _refused(code) if code else "under way"
