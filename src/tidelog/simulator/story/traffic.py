"""What the network carries about one partition, message by message.

Invariant  A message is known by its frame alone: what a node remembers of its peers is not asked.
Invariant  Only what arrived is a message; what was sent and never arrives is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.model.ids import METADATA_TOPIC_ID, TopicPartition
from tidelog.node.core.effects import Effect, OpenLink, Send, SendOnLink
from tidelog.node.core.inputs import ConnectionOpened, FrameArrived, LinkFrame
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.codec import decode_body, decode_response
from tidelog.protocol.fetch import (
    FetchedPartition,
    FetchPartition,
    Part,
    decode_fetch,
    decode_fetch_response,
    joined,
)
from tidelog.protocol.frame import RequestHeader, read_request_header
from tidelog.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.protocol.parts import FileRegion
from tidelog.protocol.produce import decode_produce, decode_produce_response
from tidelog.protocol.produce_response import ProducedPartition
from tidelog.simulator.world.happenings import ClientActed, Started, Stepped

_READ: Final = (ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.ALTER_PARTITION)
_HEAD_BYTES: Final = 8


class FetchAsked(NamedTuple):
    """A follower, or with `replica_id` -1 a consumer, asks for records."""

    replica_id: int
    wanted: FetchPartition


class FetchAnswered(NamedTuple):
    """What the broker gave; `asked` is the question, where it named the partition."""

    asked: FetchAsked | None
    given: FetchedPartition
    error: int


class ProduceAsked(NamedTuple):
    """A producer asks to append one batch."""

    acks: int
    batch: bytes


class ProduceAnswered(NamedTuple):
    """What became of it."""

    asked: ProduceAsked
    given: ProducedPartition


class IsrAsked(NamedTuple):
    """A leader asks the controller for another in-sync set."""

    leader_epoch: int
    in_sync: tuple[int, ...]


class IsrAnswered(NamedTuple):
    """What the controller said to it."""

    error: int
    in_sync: tuple[int, ...]


class OtherMessage(NamedTuple):
    """Something else that caused what is told of this step, metadata most of the time."""

    about: str


Content: TypeAlias = (
    FetchAsked
    | FetchAnswered
    | ProduceAsked
    | ProduceAnswered
    | IsrAsked
    | IsrAnswered
    | OtherMessage
)


class CarriedMessage(NamedTuple):
    """One message that arrived: from whom, to whom, and what it says of the partition."""

    sender: str
    receiver: str
    request_id: tuple[str, int]
    """Who asked, and under which number: equal for a question and its answer."""
    content: Content


class _Question(NamedTuple):
    header: RequestHeader
    content: Content | None
    about: str
    """What it is about, where that is not the partition."""


class Traffic:
    """Follows every connection, so that an answer is read as the answer to its question."""

    def __init__(self, partition: TopicPartition, names: dict[str, str]) -> None:
        self._partition = partition
        self._names = names
        self._peers: dict[tuple[int, int], str] = {}
        """Who is at the other end: connections have positive numbers, links negative."""
        self._questions: dict[tuple[str, str | int, int], _Question] = {}
        """By asker, its link or, for a client, who was asked, and correlation id."""
        self.topic_id: UUID | None = None
        """The identity of the topic, once it is known: newer fetches name nothing else."""

    def started(self, step: Started) -> None:
        """A new process counts its connections anew."""
        node_id = step.machine.node_id
        self._peers = {key: peer for key, peer in self._peers.items() if key[0] != node_id}
        self._note_sent(node_id, step.effects)

    def stepped(self, step: Stepped) -> CarriedMessage | None:
        """The message that a node's step was about, if that was one."""
        node_id, name, happened = step.machine.node_id, step.machine.name, step.happened
        message = None
        if isinstance(happened, ConnectionOpened):
            peer = self._names.get(happened.peer_host, happened.peer_host)
            self._peers[node_id, happened.connection] = peer
        elif isinstance(happened, FrameArrived):
            sender = self._peers.get((node_id, happened.connection), "?")
            message = self._request_arrived(sender, name, step.frame)
        elif isinstance(happened, LinkFrame):
            sender = self._peers.get((node_id, -happened.link), "?")
            message = self._answer_arrived(sender, name, happened.link, step.frame)
        self._note_sent(node_id, step.effects)
        return message

    def client_heard(self, acted: ClientActed) -> CarriedMessage | None:
        """The answer that a client got."""
        if not acted.frame:
            return None
        return self._answer_arrived(acted.sender, acted.client.name, acted.sender, acted.frame)

    def answers(self, node_id: int, effects: Sequence[Effect]) -> list[tuple[str, int]]:
        """The questions that a node answers with these effects, whether the answers arrive."""
        return [
            (peer, _correlation_id(effect.parts))
            for effect in effects
            if isinstance(effect, Send)
            and (peer := self._peers.get((node_id, effect.connection))) is not None
        ]

    def _note_sent(self, node_id: int, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, OpenLink):
                self._peers[node_id, -effect.link] = self._names.get(effect.host, effect.host)
            elif isinstance(effect, SendOnLink):
                question = self._question(joined(effect.parts))
                number = question.header.correlation_id
                self._questions[str(node_id), effect.link, number] = question

    def _question(self, frame: bytes) -> _Question:
        header = read_request_header(frame)
        content, about = None, header.api_key.name.lower().replace("_", " ")
        if header.api_key in _READ:
            body = memoryview(frame)[header.body_offset :]
            content = self._read_request(header, body)
            if header.api_key is ApiKey.FETCH and content is None:
                topics = decode_fetch(body, header.api_version).topics
                about = "fetch"
                if any(topic.topic_id == METADATA_TOPIC_ID for topic in topics):
                    about = "metadata"
        return _Question(header, content, about)

    def _request_arrived(self, sender: str, receiver: str, frame: bytes) -> CarriedMessage:
        question = self._question(frame)
        number = question.header.correlation_id
        self._questions[sender, receiver, number] = question
        content = question.content or OtherMessage(question.about)
        return CarriedMessage(sender, receiver, (sender, number), content)

    def _answer_arrived(
        self, sender: str, receiver: str, over: str | int, frame: bytes
    ) -> CarriedMessage:
        number = int.from_bytes(frame[:4], "big")
        question = self._questions.pop((receiver, over, number), None)
        content: Content | None = None
        about = "an answer"
        if question is not None:
            about = question.about
            if question.header.api_key in _READ:
                content = self._read_answer(question, frame)
        return CarriedMessage(sender, receiver, (receiver, number), content or OtherMessage(about))

    # Reading what is about the partition.

    def _is_ours(self, name: str | None, topic_id: UUID | None) -> bool:
        if name:
            return name == self._partition.topic
        return topic_id is not None and topic_id == self.topic_id

    def _read_request(self, header: RequestHeader, body: memoryview) -> Content | None:
        index = self._partition.partition
        version = header.api_version
        if header.api_key is ApiKey.FETCH:
            fetch = decode_fetch(body, version)
            for wanted in self._ours(fetch.topics):
                if wanted.partition == index:
                    return FetchAsked(fetch.replica_id, wanted)
        elif header.api_key is ApiKey.PRODUCE:
            produce = decode_produce(body, version)
            for number, batch in self._ours(produce.topics):
                if number == index and batch is not None:
                    return ProduceAsked(produce.acks, bytes(batch))
        else:
            request = decode_body(AlterPartitionRequest, version, body)
            for topic in request.topics:
                for change in topic.partitions if self._is_ours(None, topic.topic_id) else ():
                    if change.partition_index == index:
                        members = [each.broker_id for each in change.new_isr_with_epochs]
                        in_sync = tuple(members or change.new_isr)
                        return IsrAsked(change.leader_epoch, in_sync)
        return None

    def _read_answer(self, question: _Question, frame: bytes) -> Content | None:
        index = self._partition.partition
        (api_key, version, *_), asked, _ = question
        if api_key is ApiKey.FETCH:
            fetched = decode_fetch_response(memoryview(frame), version)
            about = asked if isinstance(asked, FetchAsked) else None
            for given in self._ours(fetched.topics):
                if given.index == index:
                    return FetchAnswered(about, given, fetched.error or given.error)
        elif api_key is ApiKey.PRODUCE and isinstance(asked, ProduceAsked):
            produced = decode_produce_response(memoryview(frame), version)
            for given in self._ours(produced.topics):
                if given.index == index:
                    return ProduceAnswered(asked, given)
        elif api_key is ApiKey.ALTER_PARTITION and isinstance(asked, IsrAsked):
            _, altered = decode_response(AlterPartitionResponse, version, memoryview(frame))
            for topic in altered.topics if not altered.error_code else ():
                for change in topic.partitions if self._is_ours(None, topic.topic_id) else ():
                    if change.partition_index == index:
                        return IsrAnswered(change.error_code, tuple(change.isr))
            return IsrAnswered(altered.error_code, ()) if altered.error_code else None
        return None

    def _ours(self, topics: Sequence[Any]) -> list[Any]:
        return [
            partition
            for topic in topics
            if self._is_ours(topic.name, topic.topic_id)
            for partition in topic.partitions
        ]


def _correlation_id(parts: list[Part]) -> int:
    first = parts[0]
    if isinstance(first, FileRegion):
        return -1
    return int.from_bytes(bytes(first[:_HEAD_BYTES])[:4], "big")
