"""Simulated clients that commit the offsets of a group, look at them and delete them.

Invariant  An auditor asks any node, whoever the coordinator may be; often one that is loading.
Invariant  A custodian tries to delete only while the members rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tidelog.coordinator.groups.consumer_protocol import CONSUMER
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest
from tidelog.protocol.messages.describe_groups import DescribeGroupsRequest
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.cluster_client import ClusterClient
from tidelog.simulator.clients.groups import FETCH_VERSION, GroupClient
from tidelog.simulator.clients.offset_history import NOBODY, Deletion, Membership, OffsetHistory
from tidelog.simulator.clients.shifts import Shifts

COMMIT_VERSION: Final = 8
DELETE_GROUPS_VERSION: Final = 2
OFFSET_DELETE_VERSION: Final = 0
DESCRIBE_VERSION: Final = 5
AUDIT_MS: Final = 30
"""Short enough to meet a coordinator while it loads."""
DELETES_GROUP: Final = 0.3
DELETES_OFFSET: Final = 0.2
"""How likely a custodian does so instead of looking whether the group is there."""
EMPTY: Final = "Empty"

_GO: Final = "go"


class Committer(GroupClient):
    """Commits one number after the other on nobody's behalf, and reads what is stored."""

    def __init__(
        self, name: str, nodes: Sequence[int], history: OffsetHistory, stop_ms: int
    ) -> None:
        super().__init__(name, nodes, (), history.group, stop_ms)
        self._history = history

    def act(self) -> None:
        if self.now_ms >= self.stop_ms or self.dice.random() < 0.5:
            then = partial(self._fetched, self._history.moment())
            request = offset_fetch(self._history)
            self.ask_coordinator(request, FETCH_VERSION, then)
        else:
            commit_next(self, self._history, self._history.partitions[0])

    def _fetched(self, asked: int, answer: Any) -> None:
        if not isinstance(answer, Lost):
            self.refused(ErrorCode(answer.error_code))
            note_offsets(self._history, asked, answer)


class Auditor(ClusterClient):
    """Asks any node for the offsets of a group."""

    def __init__(
        self, name: str, nodes: Sequence[int], history: OffsetHistory, stop_ms: int
    ) -> None:
        super().__init__(name, nodes, ())
        self._history = history
        self._stop_ms = stop_ms

    def on_started(self) -> None:
        self.set_timer(AUDIT_MS, _GO)

    def on_token(self, token: object) -> None:
        if self.now_ms >= self._stop_ms:
            return
        self.set_timer(AUDIT_MS, _GO)
        connection = self.line(self.dice.choice(self.nodes))
        if connection is not None:
            then = partial(note_offsets, self._history, self._history.moment())
            request = offset_fetch(self._history)
            self.ask(connection, request, FETCH_VERSION, then)
            self.expects_answer(connection)


class Custodian(GroupClient):
    """Deletes a group, or an offset of it, and looks whether the group is there."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        history: OffsetHistory,
        shifts: Shifts,
        stop_ms: int,
    ) -> None:
        super().__init__(name, nodes, (), history.group, stop_ms)
        self._history = history
        self._shifts = shifts

    def act(self) -> None:
        if not self._shifts.are_over(self.now_ms):
            return
        chance = self.dice.random()
        if chance < DELETES_GROUP:
            self._delete_group()
        elif chance < DELETES_GROUP + DELETES_OFFSET:
            self._delete_offset(self.dice.choice(self._history.partitions))
        else:
            then = partial(self._described, self._history.moment())
            request = DescribeGroupsRequest(
                groups=[self.group], include_authorized_operations=False
            )
            self.ask_coordinator(request, DESCRIBE_VERSION, then)

    def _delete_group(self) -> None:
        deletion = self._history.delete(None)
        then = partial(self._group_deleted, deletion)
        request = DeleteGroupsRequest(groups_names=[self.group])
        if not self.ask_coordinator(request, DELETE_GROUPS_VERSION, then):
            self._history.not_asked(deletion)

    def _group_deleted(self, deletion: Deletion, answer: Any) -> None:
        if not isinstance(answer, Lost):
            self._deleted(deletion, ErrorCode(answer.results[0].error_code))

    def _delete_offset(self, partition: TopicPartition) -> None:
        deletion = self._history.delete(partition)
        then = partial(self._offset_deleted, deletion)
        wanted = [OffsetDeleteRequestPartition(partition_index=partition.partition)]
        request = OffsetDeleteRequest(
            group_id=self.group,
            topics=[OffsetDeleteRequestTopic(name=partition.topic, partitions=wanted)],
        )
        if not self.ask_coordinator(request, OFFSET_DELETE_VERSION, then):
            self._history.not_asked(deletion)

    def _offset_deleted(self, deletion: Deletion, answer: Any) -> None:
        if not isinstance(answer, Lost):
            code = answer.error_code or answer.topics[0].partitions[0].error_code
            self._deleted(deletion, ErrorCode(code))

    def _deleted(self, deletion: Deletion, error: ErrorCode) -> None:
        self._history.answered(deletion, error)
        self.refused(error)

    def _described(self, asked: int, answer: Any) -> None:
        if isinstance(answer, Lost):
            return
        told = answer.groups[0]
        self.refused(ErrorCode(told.error_code))
        if (told.group_state, told.protocol_type) == (EMPTY, CONSUMER):
            self._history.fresh_sights.append(asked)


def commit_next(
    client: GroupClient,
    history: OffsetHistory,
    partition: TopicPartition,
    by: Membership = NOBODY,
    then: Callable[[ErrorCode], None] = lambda _: None,
) -> None:
    """Ask to commit the next number; `then` gets the answer unless it is lost."""
    commit = history.commit(partition, by)
    offset = OffsetCommitRequestPartition(
        partition_index=partition.partition, committed_offset=commit.number, committed_metadata=""
    )
    request = OffsetCommitRequest(
        group_id=history.group,
        generation_id_or_member_epoch=by.generation,
        member_id=by.member_id,
        group_instance_id=by.instance_id,
        topics=[OffsetCommitRequestTopic(name=partition.topic, partitions=[offset])],
    )

    def committed(answer: Any) -> None:
        if not isinstance(answer, Lost):
            error = ErrorCode(answer.topics[0].partitions[0].error_code)
            history.committed(partition, commit, error)
            client.refused(error)
            then(error)

    if not client.ask_coordinator(request, COMMIT_VERSION, committed):
        history.not_asked(commit)


def offset_fetch(history: OffsetHistory) -> OffsetFetchRequest:
    """An OffsetFetch about all partitions of which there may be offsets."""
    indexes: dict[str, list[int]] = {}
    for partition in history.partitions:
        indexes.setdefault(partition.topic, []).append(partition.partition)
    topics = [
        OffsetFetchRequestTopic(name=name, partition_indexes=found)
        for name, found in indexes.items()
    ]
    return OffsetFetchRequest(group_id=history.group, topics=topics, require_stable=True)


def note_offsets(history: OffsetHistory, asked: int, answer: Any) -> None:
    """Note what an OffsetFetch told."""
    if isinstance(answer, Lost) or answer.error_code:
        return
    for topic in answer.topics:
        for told in topic.partitions:
            partition = TopicPartition(topic.name, told.partition_index)
            history.told(partition, int(told.committed_offset), asked)
