"""Who votes, and since when that stands in the log.

Invariant  The newest voters record in the log or snapshot is in effect, committed or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from tidelog.protocol.stored.quorum import (
    KRaftVersionRecord,
)
from tidelog.quorum.control_records import (
    ControlRecord,
    Voter,
    Voters,
)

NOT_IN_LOG: Final = -1


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
