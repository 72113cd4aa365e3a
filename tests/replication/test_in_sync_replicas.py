"""The in-sync replicas of a partition, agreed and proposed."""

from __future__ import annotations

import pytest

from tidelog.model.errors import InvariantBroken
from tidelog.replication.in_sync_replicas import InSyncReplicas
from tidelog.replication.messages import RECOVERED, ProposedMember, ProposeInSyncReplicas


def proposal(*members: int) -> ProposeInSyncReplicas:
    named = tuple(ProposedMember(member) for member in members)
    return ProposeInSyncReplicas(1, 1, named, RECOVERED, "a test")


def test_a_newcomer_counts_from_the_moment_it_is_proposed() -> None:
    replicas = InSyncReplicas((100, 101))
    replicas.propose(proposal(100, 101, 102))
    assert replicas.committed == {100, 101}
    assert replicas.maximal == {100, 101, 102}


def test_a_member_proposed_to_leave_counts_until_it_has_left() -> None:
    replicas = InSyncReplicas((100, 101, 102))
    replicas.propose(proposal(100, 101))
    assert replicas.maximal == {100, 101, 102}
    replicas.commit((100, 101))
    assert replicas.maximal == replicas.committed == {100, 101}
    assert replicas.pending is None


def test_a_proposal_that_was_not_taken_leaves_the_agreed_members() -> None:
    replicas = InSyncReplicas((100,))
    replicas.propose(proposal(100, 101))
    replicas.revert()
    assert replicas.maximal == replicas.committed == {100}
    assert replicas.pending is None


def test_there_is_one_proposal_at_a_time() -> None:
    replicas = InSyncReplicas((100,))
    replicas.propose(proposal(100, 101))
    with pytest.raises(InvariantBroken):
        replicas.propose(proposal(100, 102))
