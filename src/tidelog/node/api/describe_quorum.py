"""DescribeQuorum (key 55, versions 0-2): who leads the metadata log, and how far everyone is."""

from __future__ import annotations

from typing import Any

from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.quorum.leader import QuorumDescription, ReplicaProgress


def handle(context: AdminContext, request: Request[Any]) -> Reply:
    """Describe the one partition there is; anything else is unknown."""
    return context.control.decide(
        request,
        lambda controller: ControllerResult((), context.quorum.describe(request.now)),
        lambda quorum: _answer(request, quorum),
        lambda refusal: {"error_code": refusal.code, "error_message": refusal.why, "topics": []},
    )


def _answer(request: Request[Any], quorum: QuorumDescription | None) -> Fields:
    return {
        "error_code": ErrorCode.none,
        "topics": [
            {
                "topic_name": topic.topic_name,
                "partitions": [
                    _partition(quorum, topic.topic_name, partition.partition_index)
                    for partition in topic.partitions
                ],
            }
            for topic in request.body.topics
        ],
        "nodes": [
            {
                "node_id": node.node_id,
                "listeners": [
                    {"name": point.name, "host": point.host, "port": point.port}
                    for point in node.endpoints
                ],
            }
            for node in (() if quorum is None else quorum.nodes)
        ],
    }


def _partition(quorum: QuorumDescription | None, topic: str, index: int) -> dict[str, Any]:
    is_known = topic == METADATA_TOPIC and index == 0
    if quorum is None or not is_known:
        return {
            "partition_index": index,
            "error_code": ErrorCode.not_leader_or_follower
            if is_known
            else ErrorCode.unknown_topic_or_partition,
            "current_voters": [],
            "observers": [],
        }
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "current_voters": [_replica(voter) for voter in quorum.voters],
        "observers": [_replica(observer) for observer in quorum.observers],
    }


def _replica(replica: ReplicaProgress) -> dict[str, Any]:
    return {
        "replica_id": replica.replica_id,
        "replica_directory_id": replica.directory_id,
        "log_end_offset": replica.log_end_offset,
        "last_fetch_timestamp": replica.last_fetch_ms,
        "last_caught_up_timestamp": replica.last_caught_up_ms,
    }
