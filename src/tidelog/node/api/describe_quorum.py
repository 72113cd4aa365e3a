"""DescribeQuorum (key 55, versions 0-2): who leads the metadata log, and how far everyone is."""

from __future__ import annotations

from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseReplicaState,
    DescribeQuorumResponseTopicData,
)
from tidelog.quorum.leader import QuorumDescription, ReplicaProgress


def handle(
    context: AdminContext, request: Request[DescribeQuorumRequest]
) -> DescribeQuorumResponse | Later:
    """Describe the one partition there is; anything else is unknown."""
    body = request.body
    return context.control.decide(
        request,
        lambda controller: ControllerResult((), context.quorum.describe(request.now)),
        lambda quorum: _answer(body, quorum),
        lambda refusal: DescribeQuorumResponse(error_code=refusal.code, error_message=refusal.why),
    )


def _answer(
    body: DescribeQuorumRequest, quorum: QuorumDescription | None
) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    _partition(quorum, topic.topic_name, partition.partition_index)
                    for partition in topic.partitions
                ],
            )
            for topic in body.topics
        ],
        nodes=[
            DescribeQuorumResponseNode(
                node_id=node.node_id,
                listeners=[
                    DescribeQuorumResponseListener(
                        name=point.name, host=point.host, port=point.port
                    )
                    for point in node.endpoints
                ],
            )
            for node in (() if quorum is None else quorum.nodes)
        ],
    )


def _partition(
    quorum: QuorumDescription | None, topic: str, index: int
) -> DescribeQuorumResponsePartitionData:
    if topic != METADATA_TOPIC or index != 0:
        return DescribeQuorumResponsePartitionData(
            partition_index=index, error_code=ErrorCode.unknown_topic_or_partition
        )
    if quorum is None:
        return DescribeQuorumResponsePartitionData(
            partition_index=index, error_code=ErrorCode.not_leader_or_follower
        )
    return DescribeQuorumResponsePartitionData(
        partition_index=index,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[_replica(voter) for voter in quorum.voters],
        observers=[_replica(observer) for observer in quorum.observers],
    )


def _replica(replica: ReplicaProgress) -> DescribeQuorumResponseReplicaState:
    return DescribeQuorumResponseReplicaState(
        replica_id=replica.replica_id,
        replica_directory_id=replica.directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )
