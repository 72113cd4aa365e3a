"""The in-sync replicas of a partition: those the controller agreed to, and one proposal.

    committed  --propose-->  committed + pending
    pending    --commit-->   committed     the controller took it, or newer metadata came
    pending    --revert-->   committed     the controller said that it did not take it

Invariant  At most one proposal is under way.
Invariant  While it is, nobody knows which of the two sets the controller goes by: `maximal` holds
           the members of both, and what must be on all replicas that could lead uses that.
Invariant  An answer to a proposal is used only if that proposal still stands, and the proposal is
           given up only on an answer which proves that it was not applied (C12).
Invariant  A proposal names the incarnation of each member that fetched from this leader, so that
           a process which came back with less cannot take its predecessor's place (KIP-903).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tidelog.model.errors import ErrorCode, Refusal, invariant
from tidelog.observe.replication_events import InSyncReplicasChanged, InSyncReplicasProposed
from tidelog.replication.follower_progress import FollowerProgress
from tidelog.replication.local_replica import LocalReplica
from tidelog.replication.messages import (
    ANY_BROKER_EPOCH,
    RECOVERED,
    AlterPartitionOutcome,
    ProposalFate,
    ProposedMember,
    ProposeInSyncReplicas,
)
from tidelog.replication.replica_context import ReplicaContext

NOT_APPLIED: Final = frozenset({ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted})
"""Answers which prove that a proposal was not applied."""
METADATA_WILL_TELL: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    }
)


class InSyncReplicas:
    """The members of one partition, as its leader knows them."""

    __slots__ = ("committed", "maximal", "pending")

    def __init__(self, committed: Iterable[int]) -> None:
        self.committed = frozenset(committed)
        self.pending: ProposeInSyncReplicas | None = None
        self.maximal = self.committed

    def propose(self, proposal: ProposeInSyncReplicas) -> None:
        """Wait for the controller; meanwhile nobody leaves, and newcomers count already."""
        invariant(self.pending is None, "one proposal of in-sync replicas at a time")
        self.pending = proposal
        self.maximal = maximal(self.committed, proposal.ids)

    def commit(self, members: Iterable[int]) -> None:
        """These are the members; no proposal stands any more."""
        self.committed = self.maximal = frozenset(members)
        self.pending = None

    def revert(self) -> None:
        """The proposal was not taken, for sure."""
        self.commit(self.committed)


def maximal(committed: frozenset[int], proposed: Iterable[int]) -> frozenset[int]:
    """Everyone whom the controller may have in sync while a proposal is under way."""
    return committed.union(proposed)


class InSyncProposals:
    """What the leader of one epoch proposes, and what becomes of it."""

    __slots__ = ("_context", "_propose", "_replica", "in_sync")

    def __init__(
        self,
        replica: LocalReplica,
        context: ReplicaContext,
        propose: Callable[[ProposeInSyncReplicas], None],
    ) -> None:
        self._replica = replica
        self._context = context
        self._propose = propose
        self.in_sync = InSyncReplicas(replica.leadership.in_sync)

    def propose(
        self, members: frozenset[int], followers: Mapping[int, FollowerProgress], cause: str
    ) -> None:
        """Ask the controller for these members."""
        leadership = self._replica.leadership
        proposal = ProposeInSyncReplicas(
            leader_epoch=leadership.leader_epoch,
            partition_epoch=leadership.partition_epoch,
            members=tuple(
                ProposedMember(
                    broker_id, self._broker_epoch_of(broker_id, followers.get(broker_id))
                )
                for broker_id in leadership.replicas
                if broker_id in members
            ),
            recovery_state=RECOVERED,
            cause=cause,
        )
        self.in_sync.propose(proposal)
        self._context.announce(
            InSyncReplicasProposed(
                partition=self._replica.name,
                leader_epoch=leadership.leader_epoch,
                partition_epoch=leadership.partition_epoch,
                in_sync=tuple(sorted(self.in_sync.committed)),
                proposed=tuple(sorted(members)),
                cause=cause,
            )
        )
        self._propose(proposal)

    def _broker_epoch_of(self, broker_id: int, follower: FollowerProgress | None) -> int:
        if follower is None:  # the leader itself
            return self._context.eligibility.of(broker_id).broker_epoch
        return ANY_BROKER_EPOCH if follower.broker_epoch is None else follower.broker_epoch

    def answered(
        self, proposal: ProposeInSyncReplicas, outcome: AlterPartitionOutcome
    ) -> ProposalFate:
        """Take in the controller's answer."""
        if proposal is not self.in_sync.pending:
            return ProposalFate.OVERTAKEN
        if isinstance(outcome, Refusal):
            self._context.counters.isr_updates_failed += 1
            if outcome.code in NOT_APPLIED:
                self.in_sync.revert()
                return ProposalFate.REVERTED
            if outcome.code in METADATA_WILL_TELL:
                return ProposalFate.AWAITS_METADATA
            return ProposalFate.RETRY
        known = self._replica.leadership
        if (
            outcome.leader_epoch != known.leader_epoch
            or outcome.partition_epoch < known.partition_epoch
        ):
            return ProposalFate.AWAITS_METADATA
        self._replica.leadership = known._replace(
            partition_epoch=outcome.partition_epoch, in_sync=outcome.in_sync
        )
        self.commit(outcome.in_sync)
        return ProposalFate.COMMITTED

    def commit(self, members: Iterable[int]) -> None:
        """Go by these members, whoever told of them first."""
        before, pending = self.in_sync.committed, self.in_sync.pending
        self.in_sync.commit(members)
        after = self.in_sync.committed
        if after != before:
            counters, watch = self._context.counters, self._context.watch
            counters.isr_shrinks += not before <= after
            counters.isr_expands += not after <= before
            if watch.is_on:
                watch.changed[self._replica.name] = None
            is_ours = pending is not None and frozenset(pending.ids) == after
            self._context.announce(
                InSyncReplicasChanged(
                    partition=self._replica.name,
                    leader_epoch=self._replica.leader_epoch,
                    partition_epoch=self._replica.leadership.partition_epoch,
                    in_sync=tuple(sorted(after)),
                    in_sync_before=tuple(sorted(before)),
                    cause=pending.cause if pending and is_ours else "the controller decided so",
                )
            )
