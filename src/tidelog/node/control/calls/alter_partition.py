"""A leader asks the controller for other in-sync sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from tidelog.controller.alter_partition import (
    AlteredPartition,
    AlteredTopics,
    IsrProposal,
    ProposedIsrMember,
)
from tidelog.controller.controller import Controller
from tidelog.controller.records import RECOVERED
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import Refusal
from tidelog.model.ids import NO_EPOCH, NO_LEADER, ZERO_UUID
from tidelog.model.time import Now
from tidelog.node.control.calls.controller_call import ControllerCall, refusal_in
from tidelog.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

Proposals: TypeAlias = Sequence[tuple[UUID, Sequence[IsrProposal]]]
"""By topic id, what the leader of each partition wants its in-sync set to be."""


@dataclass(frozen=True, slots=True)
class AlterPartitionCall(ControllerCall[AlterPartitionResponse, AlteredTopics | Refusal]):
    """A leader proposes in-sync sets; each partition has an outcome of its own."""

    VERSION = 3

    broker_id: int
    broker_epoch: int
    proposals: Proposals

    def decide(
        self, controller: Controller, next_offset: int, now: Now
    ) -> ControllerResult[AlteredTopics | Refusal]:
        return controller.alter_partition(self.broker_id, self.broker_epoch, self.proposals)

    def request(self) -> AlterPartitionRequest:
        return AlterPartitionRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            topics=[
                AlterPartitionRequestTopicData(
                    topic_id=topic_id,
                    partitions=[_proposal_message(proposal) for proposal in partitions],
                )
                for topic_id, partitions in self.proposals
            ],
        )

    @staticmethod
    def asked_in(request: AlterPartitionRequest) -> AlterPartitionCall:
        """The call behind a request."""
        proposals = [
            (topic.topic_id or ZERO_UUID, [_proposal(each) for each in topic.partitions])
            for topic in request.topics
        ]
        return AlterPartitionCall(request.broker_id, request.broker_epoch, proposals)

    def answer(self, outcome: AlteredTopics | Refusal) -> AlterPartitionResponse:
        if isinstance(outcome, Refusal):
            return AlterPartitionResponse(error_code=outcome.code)
        return AlterPartitionResponse(
            topics=[
                AlterPartitionResponseTopicData(
                    topic_id=topic_id,
                    partitions=[_altered_message(index, result) for index, result in partitions],
                )
                for topic_id, partitions in outcome
            ]
        )

    def outcome(self, answer: AlterPartitionResponse) -> AlteredTopics | Refusal:
        refusal = refusal_in(answer.error_code, "the in-sync sets")
        if refusal is not None:
            return refusal
        return [
            (
                topic.topic_id or ZERO_UUID,
                [(each.partition_index, _altered(each)) for each in topic.partitions],
            )
            for topic in answer.topics
        ]


def _proposal_message(proposal: IsrProposal) -> AlterPartitionRequestPartitionData:
    return AlterPartitionRequestPartitionData(
        partition_index=proposal.partition,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=[
            AlterPartitionRequestBrokerState(
                broker_id=member.broker_id, broker_epoch=member.broker_epoch
            )
            for member in proposal.isr
        ],
        leader_recovery_state=proposal.recovery_state,
        partition_epoch=proposal.partition_epoch,
    )


def _proposal(partition: AlterPartitionRequestPartitionData) -> IsrProposal:
    """A version has the members either with their epochs or without."""
    with_epochs = [
        ProposedIsrMember(member.broker_id, member.broker_epoch)
        for member in partition.new_isr_with_epochs
    ]
    return IsrProposal(
        partition=partition.partition_index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=(
            *with_epochs,
            *(ProposedIsrMember(broker_id, NO_EPOCH) for broker_id in partition.new_isr),
        ),
        recovery_state=partition.leader_recovery_state,
    )


def _altered_message(
    index: int, result: AlteredPartition | Refusal
) -> AlterPartitionResponsePartitionData:
    if isinstance(result, Refusal):
        return AlterPartitionResponsePartitionData(
            partition_index=index,
            error_code=result.code,
            leader_id=NO_LEADER,
            leader_epoch=NO_EPOCH,
            leader_recovery_state=RECOVERED,
            partition_epoch=NO_EPOCH,
        )
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=result.isr,
        leader_recovery_state=result.recovery_state,
        partition_epoch=result.partition_epoch,
    )


def _altered(partition: AlterPartitionResponsePartitionData) -> AlteredPartition | Refusal:
    return refusal_in(partition.error_code, "the in-sync set") or AlteredPartition(
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple(partition.isr),
        recovery_state=partition.leader_recovery_state,
    )
