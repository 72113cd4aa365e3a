"""Who votes: the set of voters as the log has it, as one replica sees it, and how it changes.

Invariant  The newest voters record in the log or snapshot is in effect, committed or not.
Invariant  Voters change one at a time (KIP-853). A change is appended only when the one before it
           is committed, and a record of the leader's own epoch is: so that any two majorities in
           force at a time have a voter in common. Who is to vote has fetched the log to its end.
Invariant  An address that names no host (`0.0.0.0`, `::`, none at all) never gets into the voters:
           others would look for this node at home.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.model.errors import ConfigError, ErrorCode, Refusal
from tidelog.model.settings.endpoints import is_wildcard
from tidelog.model.time import Now
from tidelog.protocol.stored.quorum import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
)
from tidelog.quorum.control_records import (
    ControlRecord,
    Voter,
    VoterEndpoint,
    Voters,
)
from tidelog.quorum.leader import FetchProgress, Leader
from tidelog.quorum.messages import Address, ReplicaKey

NOT_IN_LOG: Final = -1
SEEN_WITHIN_MS: Final = 3_600_000
"""A replica that has been silent for longer than that cannot be said to follow the log."""


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The members of the quorum at some point of the log."""

    kraft_version: int = 0
    voters: tuple[Voter, ...] = ()
    written_at: int = NOT_IN_LOG
    """Offset of the voters record or of the snapshot it came with; -1 when it has yet to be
    written: the first voters come from formatting or from the configuration."""

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return tuple(sorted(voter.voter_id for voter in self.voters))

    def find(self, voter_id: int, directory_id: UUID) -> Voter | None:
        """The member with that id and metadata directory; without voters in the log, by id."""
        for voter in self.voters:
            if voter.voter_id == voter_id and (
                self.kraft_version == 0 or voter.voter_directory_id == directory_id
            ):
                return voter
        return None

    def by_id(self, voter_id: int) -> Voter | None:
        """The member with that id, whatever its directory."""
        return next((voter for voter in self.voters if voter.voter_id == voter_id), None)

    def after(self, record: ControlRecord, offset: int) -> VoterSet:
        """The members once `record` stands at `offset`."""
        match record:
            case KRaftVersionRecord():
                return replace(self, kraft_version=record.kraft_version)
            case Voters():
                return replace(self, voters=record.voters, written_at=offset)
            case _:
                return self

    def with_voter(self, voter: Voter) -> VoterSet:
        """The members with one of them described anew."""
        others = (other for other in self.voters if other.voter_id != voter.voter_id)
        return replace(self, voters=tuple(sorted((*others, voter), key=lambda v: v.voter_id)))


class QuorumVoters:
    """The voters by the newest record in the log, as one of the replicas sees them: who they are
    to it, and where they are found."""

    def __init__(self, own: ReplicaKey, listener: str, latest: VoterSet | None = None) -> None:
        """`listener` is the one the members of the quorum use among themselves."""
        self.own = own
        self.listener = listener
        self.latest = latest or VoterSet()
        """Set by the replica of the log, with every record that names voters."""

    @property
    def is_voter(self) -> bool:
        """Whether this replica has a vote."""
        return self.latest.find(*self.own) is not None

    @property
    def has_rivals(self) -> bool:
        """Whether this replica has a vote, and is not the only one."""
        return self.is_voter and len(self.latest.voters) > 1

    def key_of(self, voter_id: int) -> ReplicaKey:
        """The voter with that id, with its directory if that is known."""
        voter = self.latest.by_id(voter_id)
        return ReplicaKey(voter_id) if voter is None else ReplicaKey(*voter.key)

    def address_of(self, voter_id: int) -> Address | None:
        """Where a voter listens for the quorum."""
        voter = self.latest.by_id(voter_id)
        return None if voter is None else voter.address(self.listener)

    def rank_without(self, leader_id: int) -> tuple[int, int]:
        """The place of this voter among those besides the leader, and how many they are."""
        others = [each for each in self.latest.voter_ids if each != leader_id]
        own_id = self.own.id
        return others.index(own_id) if own_id in others else len(others), len(others)


def own_endpoints(
    configured: tuple[VoterEndpoint, ...], known: Voter | None
) -> tuple[VoterEndpoint, ...]:
    """Where others find this node: what the configuration says, or, where it names no host, what
    the voters say already."""
    known_by_name = {point.name: point for point in known.endpoints} if known is not None else {}
    return tuple(
        _reachable(known_by_name.get(point.name, point)) if is_wildcard(point.host) else point
        for point in configured
    )


def _reachable(point: VoterEndpoint) -> VoterEndpoint:
    if is_wildcard(point.host):
        raise ConfigError(
            f"the other controllers cannot find this one at {point.name}://{point.host}:"
            f"{point.port}: name its address in advertised.listeners, or a host in listeners"
        )
    return point


def opening_records(
    voters: VoterSet,
    leader: ReplicaKey,
    endpoints: tuple[VoterEndpoint, ...],
    granting: tuple[int, ...],
) -> list[ControlRecord]:
    """What the leader of an epoch writes before anything else: who leads; and the voters, where
    the log names them and does not know them, or not where the leader listens by now."""
    records: list[ControlRecord] = [
        LeaderChangeMessage(
            leader_id=leader.id,
            voters=tuple(LeaderChangeMessageVoter(voter_id=each) for each in voters.voter_ids),
            granting_voters=tuple(LeaderChangeMessageVoter(voter_id=each) for each in granting),
        )
    ]
    known = voters.by_id(leader.id)
    has_moved = known is not None and known.endpoints != endpoints
    if voters.kraft_version > 0 and (voters.written_at == NOT_IN_LOG or has_moved):
        described = voters.with_voter(
            Voter(voter_id=leader.id, voter_directory_id=leader.directory_id, endpoints=endpoints)
        )
        records += [
            KRaftVersionRecord(kraft_version=described.kraft_version),
            Voters(voters=described.voters),
        ]
    return records


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
            supported = voter.kraft_version_feature
            level, least = voters.kraft_version, supported.min_supported_version
            if not least <= level <= supported.max_supported_version:
                why = f"Node {voter.voter_id} does not support kraft.version {level}."
                return Refusal(ErrorCode.invalid_request, why)
            if not _is_reachable(voter, listener):
                return _unreachable(voter, listener)
            return voters.with_voter(voter)


def _added(
    voters: VoterSet, voter: Voter, listener: str, progress: FetchProgress | None, now: Now
) -> VoterSet | Refusal:
    if voters.by_id(voter.voter_id) is not None:
        why = f"Node {voter.voter_id} votes already."
        return Refusal(ErrorCode.duplicate_voter, why)
    if not _is_reachable(voter, listener):
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


def _is_reachable(voter: Voter, listener: str) -> bool:
    address = voter.address(listener)
    return address is not None and not is_wildcard(address[0]) and address[1] > 0


def _unreachable(voter: Voter, listener: str) -> Refusal:
    why = f"Node {voter.voter_id} names no host and port of its listener {listener}."
    return Refusal(ErrorCode.invalid_request, why)
