"""The offsets of an OffsetCommit or a TxnOffsetCommit: what can be committed, and why not the rest.

Invariant  Only partitions that exist are for the coordinator; a topic is known by its name or, in
           versions that have them, by its id alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from tidelog.coordinator.groups.offset_commits import OffsetAndMetadata, OffsetCommit
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.model.time import Now
from tidelog.node.coordination.coordinators import Coordinators
from tidelog.node.coordination.offset_verdicts import (
    NamedPartition,
    TopicVerdicts,
    offset_verdicts,
)
from tidelog.node.core.authorization import Authorization
from tidelog.node.core.promise import Promise
from tidelog.node.core.request import Request
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.security.acls import AclOperation, ResourceType


class CommittedPartition(NamedPartition, Protocol):
    """An offset in a request."""

    @property
    def committed_offset(self) -> int: ...

    @property
    def committed_leader_epoch(self) -> int: ...

    @property
    def committed_metadata(self) -> str | None: ...


class CommittedTopic(Protocol):
    """A topic in a request, and the offsets of its partitions."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> UUID | None: ...

    @property
    def partitions(self) -> Sequence[CommittedPartition]: ...


TopicT = TypeVar("TopicT", bound=CommittedTopic)


class CommittedOffsets(Generic[TopicT]):
    """The offsets of one request, sorted by whether the coordinator is to hear of them."""

    def __init__(
        self,
        cluster: ClusterView,
        topics: Sequence[TopicT],
        *,
        by_id: bool,
        denied: frozenset[str],
    ) -> None:
        """`denied` are the names of topics for which nothing may be committed."""
        self._topics = topics
        self._denied = denied
        self._refused: list[ErrorCode | None] = []
        self.offsets: list[OffsetAndMetadata] = []
        """Those of partitions that exist."""
        for topic in topics:
            self._sort(cluster, topic, by_id)

    def _sort(self, cluster: ClusterView, topic: TopicT, by_id: bool) -> None:
        image = cluster.image
        if by_id:
            known = image.topics_by_id.get(topic.topic_id or ZERO_UUID)
            unknown = ErrorCode.unknown_topic_id
        else:
            known = image.topics_by_name.get(topic.name)
            unknown = ErrorCode.unknown_topic_or_partition
        for partition in topic.partitions:
            index = partition.partition_index
            if (topic.name if known is None else known.name) in self._denied:
                self._refused.append(ErrorCode.topic_authorization_failed)
            elif known is None:
                self._refused.append(unknown)
            elif image.partition(known.name, index) is None:
                self._refused.append(ErrorCode.unknown_topic_or_partition)
            else:
                self._refused.append(None)
                self.offsets.append(
                    OffsetAndMetadata(
                        known.name,
                        index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata,
                        known.topic_id,
                    )
                )

    def commit(
        self, groups: Coordinators[GroupShard, GroupRecord], commit: OffsetCommit, now: Now
    ) -> Promise[tuple[ErrorCode, ...] | ErrorCode]:
        """What the coordinator of the group says to them, once that is safe."""
        decided: Promise[tuple[ErrorCode, ...] | ErrorCode] = Promise()

        def answer(outcome: tuple[ErrorCode, ...] | Refusal) -> None:
            decided.settle(outcome.code if isinstance(outcome, Refusal) else outcome)

        groups.ask(now, commit.group_id, lambda shard: shard.commit_offsets(commit, now), answer)
        return decided

    def verdicts(self, outcome: tuple[ErrorCode, ...] | ErrorCode) -> list[TopicVerdicts[TopicT]]:
        """The verdicts on the offsets, or the one on all of them, beside what was refused."""
        decided = outcome if isinstance(outcome, tuple) else (outcome,) * len(self.offsets)
        return offset_verdicts(self._topics, _identity, self._refused, decided)

    def refuse_all(self, code: ErrorCode) -> list[TopicVerdicts[TopicT]]:
        """The same verdict on all, whether they exist or not."""
        count = len(self._refused)
        return offset_verdicts(self._topics, _identity, [None] * count, [code] * count)


def denied_topics(
    authorization: Authorization,
    cluster: ClusterView,
    request: Request[object],
    topics: Iterable[CommittedTopic],
    by_id: bool,
) -> frozenset[str]:
    """The topics in a request that its client may not read."""
    if authorization.authorizer is None:
        return frozenset()
    names = (
        cluster.topic_name(topic.topic_id or ZERO_UUID) if by_id else topic.name for topic in topics
    )
    known = (name for name in names if name is not None)
    return authorization.denied(request, AclOperation.READ, ResourceType.TOPIC, known)


def _identity(topic: CommittedTopic) -> tuple[str, UUID | None]:
    return topic.name, topic.topic_id
