"""OffsetCommit (key 8, versions 2-10): remember how far a group has come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.coordinator.groups.offset_commits import OffsetCommit
from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.coordination.committed_offsets import CommittedOffsets, denied_topics
from tidelog.node.coordination.offset_verdicts import TopicVerdicts, answered_partitions
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.security.acls import AclOperation, ResourceType

BY_ID_SINCE: Final = 10


def handle(
    context: GroupsContext, request: Request[OffsetCommitRequest]
) -> OffsetCommitResponse | Later:
    """Commit the offsets of partitions that exist; the answer waits until they are safe."""
    body = request.body
    by_id = request.api_version >= BY_ID_SINCE
    denied = denied_topics(context.authorization, context.cluster, request, body.topics, by_id)
    committed = CommittedOffsets(context.cluster, body.topics, by_id=by_id, denied=denied)
    if not context.authorization.allows(
        request, AclOperation.READ, ResourceType.GROUP, body.group_id
    ):
        return _response(committed.refuse_all(ErrorCode.group_authorization_failed))
    if not committed.offsets:
        return _response(committed.verdicts(()))
    commit = OffsetCommit(
        version=request.api_version,
        group_id=body.group_id,
        generation=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        offsets=committed.offsets,
        retention_ms=None if body.retention_time_ms == -1 else body.retention_time_ms,
    )
    decided = committed.commit(context.groups, commit, request.now)
    return request.answer_with(decided.map(lambda codes: _response(committed.verdicts(codes))))


def _response(verdicts: Iterable[TopicVerdicts[OffsetCommitRequestTopic]]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=answered_partitions(OffsetCommitResponsePartition, partitions),
            )
            for topic, partitions in verdicts
        ]
    )
