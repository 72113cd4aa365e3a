"""The in-sync replicas of a partition: those the controller agreed to, and one proposal.

    committed  --propose-->  committed + pending
    pending    --commit-->   committed     the controller took it, or newer metadata came
    pending    --revert-->   committed     the controller said that it did not take it

Invariant  At most one proposal is under way.
Invariant  While it is, nobody knows which of the two sets the controller goes by: `maximal` holds
           the members of both, and what must be on all replicas that could lead uses that.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.model.errors import invariant
from tidelog.replication.messages import ProposeInSyncReplicas


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
