"""The first records of an epoch: who leads it, and if that is not in the log yet, who votes."""

from __future__ import annotations

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
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.voter_set import NOT_IN_LOG, VoterSet


def opening_records(
    voters: VoterSet,
    leader: ReplicaKey,
    endpoints: tuple[VoterEndpoint, ...],
    granting: tuple[int, ...],
) -> list[ControlRecord]:
    """What the leader writes before anything else; the voters only where the log names them and
    does not know them, or not where the leader listens by now."""
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
