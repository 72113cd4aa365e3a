"""The follower's side of a fetch session (KIP-227): what the leader was last told.

Invariant  The leader's session holds exactly the partitions in `_told`, in those states.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tidelog.model.ids import TopicPartition
from tidelog.replication.messages import FetchState
from tidelog.replication.partition import Partition
from tidelog.wire.fetch import FetchPartition, FetchRequest, FetchTopic

FULL_EPOCH = 0
EPOCH_MAX = 2**31 - 1


class FetcherSession:
    """Builds the next request, full or incremental."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = FULL_EPOCH
        self._told: dict[TopicPartition, tuple[UUID, FetchState]] = {}

    @property
    def is_open(self) -> bool:
        return self._id != 0

    def reset(self) -> None:
        """Begin anew with the next request."""
        self._id, self._epoch = 0, FULL_EPOCH
        self._told.clear()

    def answered(self, session_id: int) -> None:
        """The leader answered without a session error."""
        if session_id == 0:
            self.reset()
        else:
            self._id = session_id
            self._epoch = self._epoch + 1 if self._epoch < EPOCH_MAX else 1

    def request(
        self,
        wanted: Mapping[TopicPartition, tuple[Partition, FetchState]],
        *,
        replica_id: int,
        replica_epoch: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        partition_max_bytes: int,
    ) -> FetchRequest:
        """The next fetch; from now on the leader counts as told."""
        topics: dict[UUID, list[FetchPartition]] = {}
        names: dict[UUID, str] = {}
        told = {name: (each[0].log.topic_id, each[1]) for name, each in wanted.items()}
        for name, (topic_id, state) in told.items():
            if self._told.get(name) != (topic_id, state):
                names[topic_id] = name.topic
                topics.setdefault(topic_id, []).append(
                    FetchPartition(
                        name.partition,
                        state.leader_epoch,
                        state.fetch_offset,
                        state.last_fetched_epoch,
                        state.log_start_offset,
                        partition_max_bytes,
                    )
                )
        forgotten: dict[tuple[str, UUID], list[int]] = {}
        for name, (topic_id, _) in self._told.items():
            now_told = told.get(name)
            if now_told is None or now_told[0] != topic_id:
                forgotten.setdefault((name.topic, topic_id), []).append(name.partition)
        self._told = told
        return FetchRequest(
            replica_id=replica_id,
            replica_epoch=replica_epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=0,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=[FetchTopic(names[key], key, value) for key, value in topics.items()],
            forgotten=[
                (topic, topic_id, indexes) for (topic, topic_id), indexes in forgotten.items()
            ],
            rack_id="",
            cluster_id=None,
        )
