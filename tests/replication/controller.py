"""A controller of one partition for the benches: elections, fencing, proposals, by the book."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_LEADER
from tidelog.replication.messages import (
    ANY_BROKER_EPOCH,
    AlterPartitionOutcome,
    InSyncReplicasAltered,
    LeaderAndIsr,
    ProposeInSyncReplicas,
)
from tidelog.replication.replica_context import BrokerEligibility

UNREGISTERED = BrokerEligibility(is_live=False, broker_epoch=-1)


class Metadata(NamedTuple):
    """The cluster at one moment, as every broker gets to know it sooner or later."""

    leadership: LeaderAndIsr
    eligible: frozenset[int]
    """The replicas that may lead should the in-sync set be empty (ELR)."""
    brokers: dict[int, BrokerEligibility]


class Controller:
    """Keeps the whole history, so that brokers can be behind."""

    def __init__(self, replicas: tuple[int, ...], min_in_sync: int) -> None:
        self._min_in_sync = min(min_in_sync, len(replicas))
        self._next_broker_epoch = 1000
        self._last_leader = NO_LEADER
        self.lossy: set[int] = set()
        """Brokers that lost records since they were last in sync: no last resort."""
        brokers = {broker: BrokerEligibility(True, broker) for broker in replicas}
        nobody = LeaderAndIsr(NO_LEADER, 0, 0, replicas, replicas)
        self.history = [Metadata(nobody, frozenset(), brokers)]

    @property
    def now(self) -> Metadata:
        return self.history[-1]

    @property
    def leadership(self) -> LeaderAndIsr:
        return self.now.leadership

    def standing(self, broker_id: int) -> BrokerEligibility:
        return self.now.brokers.get(broker_id, UNREGISTERED)

    # Brokers

    def register(self, broker_id: int, *, clean: bool = False) -> int:
        """A new incarnation: out of the in-sync set before it is live again.

        It stays a candidate only if it is known to have lost nothing.
        """
        epoch = self._next_broker_epoch = self._next_broker_epoch + 1
        self._leave(broker_id, keeps_eligibility=clean)
        self._note_broker(broker_id, BrokerEligibility(False, epoch))
        return epoch

    def fence(self, broker_id: int) -> None:
        self._leave(broker_id, keeps_eligibility=True)
        self._note_broker(broker_id, self.standing(broker_id)._replace(is_live=False))

    def unfence(self, broker_id: int) -> None:
        self._note_broker(broker_id, self.standing(broker_id)._replace(is_live=True))
        if self.leadership.leader == NO_LEADER:
            self._change(self.leadership.in_sync, self.now.eligible)

    def _note_broker(self, broker_id: int, standing: BrokerEligibility) -> None:
        brokers = {**self.now.brokers, broker_id: standing}
        self.history.append(self.now._replace(brokers=brokers))

    def _leave(self, broker_id: int, *, keeps_eligibility: bool) -> None:
        leadership, eligible = self.leadership, self.now.eligible
        if not keeps_eligibility:
            eligible -= {broker_id}
        members = tuple(member for member in leadership.in_sync if member != broker_id)
        if members == leadership.in_sync and eligible == self.now.eligible:
            return
        self._change(members, eligible, broker_id, keeps_eligibility=keeps_eligibility)

    # Leaders and members

    def lead(self, leader: int, in_sync: tuple[int, ...] | None = None) -> None:
        """Begin an epoch, whoever leads and is in sync by the will of the test."""
        members = self.leadership.in_sync if in_sync is None else in_sync
        self._write(leader, members, self.now.eligible, new_epoch=True)

    def move_to(self, broker_id: int) -> None:
        """Let a live member of the in-sync set lead."""
        assert broker_id in self.leadership.in_sync and self.standing(broker_id).is_live
        self.lead(broker_id)

    def decide(self, sender: int, proposal: ProposeInSyncReplicas) -> AlterPartitionOutcome:
        """The checks of AlterPartition, in their order."""
        leadership = self.leadership
        refused = self._refuse(sender, proposal)
        if refused is not None:
            return Refusal(refused, "refused")
        if set(proposal.ids) != set(leadership.in_sync):
            self._change(proposal.ids, self.now.eligible)
        after = self.leadership
        return InSyncReplicasAltered(after.leader_epoch, after.partition_epoch, after.in_sync)

    def _refuse(self, sender: int, proposal: ProposeInSyncReplicas) -> ErrorCode | None:
        leadership = self.leadership
        if proposal.leader_epoch > leadership.leader_epoch:
            return ErrorCode.not_controller
        if proposal.leader_epoch < leadership.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if sender != leadership.leader:
            return ErrorCode.invalid_request
        if proposal.partition_epoch < leadership.partition_epoch:
            return ErrorCode.invalid_update_version
        for member in proposal.members:
            standing = self.standing(member.broker_id)
            if not standing.is_live or (
                member.broker_epoch not in (ANY_BROKER_EPOCH, standing.broker_epoch)
            ):
                return ErrorCode.ineligible_replica
        return None

    def _change(
        self,
        members: tuple[int, ...],
        eligible: frozenset[int],
        leaving: int | None = None,
        *,
        keeps_eligibility: bool = True,
    ) -> None:
        before = self.leadership
        if len(members) >= self._min_in_sync:
            eligible = frozenset()
        else:
            eligible = (eligible | set(before.in_sync)) - set(members)
            if not keeps_eligibility:
                eligible -= {leaving}
        leader = before.leader
        if leader not in members:
            leader = self._choose(members, eligible, leaving)
            if leader != NO_LEADER and leader not in members:
                members, eligible = (leader,), eligible - {leader}
        self._write(leader, members, eligible, new_epoch=leader != before.leader)

    def _choose(
        self, members: tuple[int, ...], eligible: frozenset[int], leaving: int | None
    ) -> int:
        candidates = members or tuple(sorted(eligible))
        if not candidates and self._last_leader not in self.lossy:
            candidates = (self._last_leader,)
        live = (
            member for member in candidates if member != leaving and self.standing(member).is_live
        )
        return next(live, NO_LEADER)

    def _write(
        self, leader: int, members: tuple[int, ...], eligible: frozenset[int], *, new_epoch: bool
    ) -> None:
        before = self.leadership
        if before.leader != NO_LEADER:
            self._last_leader = before.leader
        leadership = before._replace(
            leader=leader,
            leader_epoch=before.leader_epoch + new_epoch,
            partition_epoch=before.partition_epoch + 1,
            in_sync=tuple(broker for broker in before.replicas if broker in members),
        )
        self.history.append(self.now._replace(leadership=leadership, eligible=eligible))
