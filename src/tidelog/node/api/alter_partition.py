"""AlterPartition (key 56, versions 2-3): leaders propose the in-sync sets of their partitions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tidelog.controller.alter_partition import (
    AlteredPartition,
    AlteredTopics,
    IsrProposal,
    ProposedIsrMember,
)
from tidelog.controller.records import RECOVERED
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_EPOCH, NO_LEADER, ZERO_UUID
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Fields, Reply, Request


def handle(context: ControllerContext, request: Request[Any]) -> Reply:
    """Each partition for itself; a stale sender gets one answer for all."""
    body = request.body
    proposals: list[tuple[UUID, list[IsrProposal]]] = [
        (topic.topic_id or ZERO_UUID, [_proposal(partition) for partition in topic.partitions])
        for topic in body.topics
    ]
    return context.plane.decide(
        request,
        lambda controller: controller.alter_partition(body.broker_id, body.broker_epoch, proposals),
        _answer,
        _answer,
    )


def _proposal(partition: Any) -> IsrProposal:
    if hasattr(partition, "new_isr_with_epochs"):
        members = [
            (member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs
        ]
    else:
        members = [(broker_id, NO_EPOCH) for broker_id in partition.new_isr]
    return IsrProposal(
        partition=partition.partition_index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple(ProposedIsrMember(*member) for member in members),
        recovery_state=partition.leader_recovery_state,
    )


def _answer(outcome: AlteredTopics | Refusal) -> Fields:
    if isinstance(outcome, Refusal):
        return {"error_code": outcome.code, "topics": []}
    return {
        "error_code": ErrorCode.none,
        "topics": [
            {
                "topic_id": topic_id,
                "partitions": [_partition(index, result) for index, result in partitions],
            }
            for topic_id, partitions in outcome
        ],
    }


def _partition(index: int, result: AlteredPartition | Refusal) -> dict[str, Any]:
    if isinstance(result, Refusal):
        return {
            "partition_index": index,
            "error_code": result.code,
            "leader_id": NO_LEADER,
            "leader_epoch": NO_EPOCH,
            "isr": [],
            "leader_recovery_state": RECOVERED,
            "partition_epoch": NO_EPOCH,
        }
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "leader_id": result.leader,
        "leader_epoch": result.leader_epoch,
        "isr": list(result.isr),
        "leader_recovery_state": result.recovery_state,
        "partition_epoch": result.partition_epoch,
    }
