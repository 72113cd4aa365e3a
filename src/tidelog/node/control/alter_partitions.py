"""Proposals of in-sync sets on their way to the controller.

Invariant  One request is under way at a time; everything proposed meanwhile goes with the next.
Invariant  A proposal is dropped only when the controller has refused it for good, or when the
           partition no longer stands by it; a lost answer is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from tidelog.controller.alter_partition import (
    AlteredPartition,
    AlteredTopics,
    IsrProposal,
    ProposedIsrMember,
)
from tidelog.model.errors import Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.control.controller_channel import ControllerChannel
from tidelog.node.core.runtime import Runtime
from tidelog.replication.messages import (
    InSyncReplicasAltered,
    ProposalFate,
    ProposeInSyncReplicas,
)
from tidelog.replication.replica_context import Proposer

RETRY_MS: Final = 50


class AlterPartitions:
    """What this broker's leaders want of the controller."""

    def __init__(self, runtime: Runtime, control: ControllerChannel) -> None:
        self._runtime = runtime
        self._control = control
        self._waiting: dict[TopicPartition, tuple[Proposer, ProposeInSyncReplicas]] = {}
        self._under_way = False
        self._resting = False

    def propose(self, leader: Proposer, proposal: ProposeInSyncReplicas) -> None:
        """Send it with the next request; the tick's end decides when that is."""
        self._waiting[leader.name] = (leader, proposal)

    def send(self, now: Now) -> None:
        """Put everything that waits into one request."""
        if self._under_way or self._resting or not self._waiting:
            return
        sent = {
            (leader.topic_id, name.partition): (leader, proposal)
            for name, (leader, proposal) in self._waiting.items()
            if leader.stands_by(proposal)
        }
        self._waiting.clear()
        if not sent:
            return
        self._under_way = True
        by_topic: dict[UUID, list[IsrProposal]] = {}
        for (topic_id, index), (_, proposal) in sent.items():
            by_topic.setdefault(topic_id, []).append(_wire_proposal(index, proposal))

        def answered(outcome: AlteredTopics | Refusal, now: Now) -> None:
            self._under_way = False
            if isinstance(outcome, Refusal):
                self._again(sent.values(), now)
            else:
                self._settle(sent, outcome, now)
            self.send(now)

        self._control.alter_partitions(now, list(by_topic.items()), answered)

    def _settle(
        self,
        sent: dict[tuple[UUID, int], tuple[Proposer, ProposeInSyncReplicas]],
        outcome: AlteredTopics,
        now: Now,
    ) -> None:
        retry = []
        for topic_id, partitions in outcome:
            for index, result in partitions:
                asked = sent.pop((topic_id, index), None)
                if asked is None:
                    continue
                leader, proposal = asked
                if isinstance(result, AlteredPartition):
                    answer: InSyncReplicasAltered | Refusal = InSyncReplicasAltered(
                        result.leader_epoch, result.partition_epoch, result.isr
                    )
                else:
                    answer = result
                fate = leader.proposal_answered(proposal, answer, now)
                if fate is ProposalFate.RETRY:
                    retry.append((leader, proposal))
        self._again([*retry, *sent.values()], now)

    def _again(self, proposals: Iterable[tuple[Proposer, ProposeInSyncReplicas]], now: Now) -> None:
        standing = [each for each in proposals if each[0].stands_by(each[1])]
        for leader, proposal in standing:
            self._waiting.setdefault(leader.name, (leader, proposal))
        if standing and not self._resting:
            self._resting = True
            self._runtime.deadlines.at(now.monotonic_ms + RETRY_MS, self._rested)

    def _rested(self, now: Now) -> None:
        self._resting = False
        self.send(now)


def _wire_proposal(index: int, proposal: ProposeInSyncReplicas) -> IsrProposal:
    return IsrProposal(
        partition=index,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        isr=tuple(
            ProposedIsrMember(member.broker_id, member.broker_epoch) for member in proposal.members
        ),
        recovery_state=proposal.recovery_state,
    )
