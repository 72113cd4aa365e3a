"""The follower's side of a fetch session (KIP-227): what the leader was last told.

Invariant  The leader's session holds exactly the partitions in `_told`, in those states.
Invariant  A request costs what changed since the last one, not what is followed.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from tidelog.model.ids import TopicPartition
from tidelog.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.replication.messages import FetchState

FULL_EPOCH: Final = 0
EPOCH_MAX: Final = 2**31 - 1


class SentPartition(NamedTuple):
    """What the leader knows of one partition of ours."""

    topic_id: UUID
    state: FetchState


class FetcherSession:
    """Builds the next request, full or incremental."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = FULL_EPOCH
        self._told: dict[TopicPartition, SentPartition] = {}
        self._news: dict[TopicPartition, SentPartition] = {}
        self._forgotten: dict[tuple[str, UUID], list[int]] = {}

    @property
    def is_open(self) -> bool:
        return self._epoch != FULL_EPOCH

    @property
    def has_partitions(self) -> bool:
        return bool(self._told)

    def told(self, name: TopicPartition) -> SentPartition | None:
        """What the last request said, or one before it."""
        return self._told.get(name)

    def reset(self) -> None:
        """Begin anew with the next request, which must be told everything.

        It names the session that is over, so that a leader which still has it lets it go.
        """
        self._epoch = FULL_EPOCH
        self._told.clear()
        self._news.clear()
        self._forgotten.clear()

    def answered(self, session_id: int) -> None:
        """The leader answered without an error, in this session."""
        self._id = session_id
        self._epoch = self._epoch + 1 if self._epoch < EPOCH_MAX else 1

    def want(self, name: TopicPartition, topic_id: UUID, state: FetchState) -> None:
        """The next request fetches the partition in this state."""
        before = self._told.get(name)
        if before is not None:
            if before.topic_id != topic_id:
                self.leave(name)
            elif before.state == state:
                return
        self._told[name] = self._news[name] = SentPartition(topic_id, state)

    def leave(self, name: TopicPartition) -> None:
        """The next request does not fetch the partition."""
        before = self._told.pop(name, None)
        self._news.pop(name, None)
        if before is not None:
            key = (name.topic, before.topic_id)
            self._forgotten.setdefault(key, []).append(name.partition)

    def request(
        self,
        *,
        replica_id: int,
        replica_epoch: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        partition_max_bytes: int,
    ) -> FetchRequest:
        """The next fetch; from now on the leader counts as told."""
        topics: dict[tuple[str, UUID], list[FetchPartition]] = {}
        for name, (topic_id, state) in self._news.items():
            topics.setdefault((name.topic, topic_id), []).append(
                FetchPartition(
                    name.partition,
                    state.leader_epoch,
                    state.fetch_offset,
                    state.last_fetched_epoch,
                    state.log_start_offset,
                    partition_max_bytes,
                )
            )
        forgotten = [(*topic, indexes) for topic, indexes in self._forgotten.items()]
        self._news.clear()
        self._forgotten.clear()
        return FetchRequest(
            replica_id=replica_id,
            replica_epoch=replica_epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=0,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=[FetchTopic(*topic, wanted) for topic, wanted in topics.items()],
            forgotten=forgotten,
            rack_id="",
            cluster_id=None,
        )
