"""Changes of who votes, one voter at a time (KIP-853).

Invariant  A change is appended only when the one before it is committed, and a record of the
           leader's own epoch is: so that any two majorities in force at a time have a voter in
           common.
Invariant  Who is to vote has fetched the log to its end already, so that it can be counted on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter
from tidelog.quorum.fetch_progress import FetchProgress
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.voter_set import VoterSet

SEEN_WITHIN_MS: Final = 3_600_000
"""A replica that has been silent for longer than that cannot be said to follow the log."""


class AddVoter(NamedTuple):
    """A controller that follows the log gets a vote."""

    voter: Voter


class RemoveVoter(NamedTuple):
    """A voter, perhaps the leader, loses its vote."""

    voter: ReplicaKey


class UpdateVoter(NamedTuple):
    """A voter says where it listens and what it supports."""

    voter: Voter
    leader_epoch: int


VoterChange: TypeAlias = AddVoter | RemoveVoter | UpdateVoter


def changed_voters(
    voters: VoterSet,
    change: VoterChange,
    leader: Leader,
    listener: str,
    progress: FetchProgress | None,
    now: Now,
) -> VoterSet | Refusal:
    """The voters after the change, or why it cannot be; `progress` is that of a new voter."""
    if voters.kraft_version == 0:
        return Refusal(ErrorCode.unsupported_version, "The voters stand in the configuration.")
    if not leader.has_committed or voters.written_at >= leader.high_watermark:
        return Refusal(ErrorCode.request_timed_out, "Another change is not committed yet.")
    match change:
        case AddVoter(voter):
            return _added(voters, voter, listener, progress, now)
        case RemoveVoter(key):
            if voters.find(*key) is None:
                return _not_found(key.id)
            if len(voters.voters) == 1:
                why = f"Voter {key.id} is the only one."
                return Refusal(ErrorCode.invalid_request, why)
            left = tuple(voter for voter in voters.voters if voter.voter_id != key.id)
            return replace(voters, voters=left)
        case UpdateVoter(voter, epoch):
            if epoch != leader.epoch:
                is_older = epoch < leader.epoch
                code = ErrorCode.fenced_leader_epoch if is_older else ErrorCode.unknown_leader_epoch
                return Refusal(code, f"The epoch is {leader.epoch}, not {epoch}.")
            if voters.find(*voter.key) is None:
                return _not_found(voter.voter_id)
            if voter.address(listener) is None:
                return _unreachable(voter, listener)
            return voters.with_voter(voter)


def _added(
    voters: VoterSet, voter: Voter, listener: str, progress: FetchProgress | None, now: Now
) -> VoterSet | Refusal:
    if voters.by_id(voter.voter_id) is not None:
        why = f"Node {voter.voter_id} votes already."
        return Refusal(ErrorCode.duplicate_voter, why)
    if voter.address(listener) is None:
        return _unreachable(voter, listener)
    if (
        progress is None
        or progress.caught_up_ms < 0
        or now.monotonic_ms - progress.fetched.monotonic_ms > SEEN_WITHIN_MS
    ):
        why = f"Node {voter.voter_id} has not caught up with the metadata log."
        return Refusal(ErrorCode.request_timed_out, why)
    return voters.with_voter(voter)


def _not_found(voter_id: int) -> Refusal:
    why = f"Node {voter_id} with that directory does not vote."
    return Refusal(ErrorCode.voter_not_found, why)


def _unreachable(voter: Voter, listener: str) -> Refusal:
    why = f"Node {voter.voter_id} has no listener {listener}."
    return Refusal(ErrorCode.invalid_request, why)
