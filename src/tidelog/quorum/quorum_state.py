"""What this replica is in the current epoch, what may make it another, and that its disk knows.

    role         on                              becomes
    Unattached   LATER_EPOCH, NOT_A_VOTER        Unattached
                 LEADER_FOUND                    Follower
                 TIMED_OUT                       Prospective
    Prospective  LATER_EPOCH, PRE_VOTES_LOST     Unattached
                 LEADER_FOUND, LEADER_KEPT       Follower
                 PRE_VOTES_WON                   Candidate
    Candidate    LATER_EPOCH, NOT_A_VOTER        Unattached
                 LEADER_FOUND                    Follower
                 TIMED_OUT                       Prospective
                 VOTES_WON                       Leader
    Leader       LATER_EPOCH                     Unattached
                 LEADER_FOUND                    Follower
                 RESIGNED                        Resigned
    Follower     LATER_EPOCH, NOT_A_VOTER,
                 LEADER_DISCONNECTED             Unattached
                 LEADER_FOUND                    Follower
                 TIMED_OUT                       Prospective
    Resigned     LATER_EPOCH, NOT_A_VOTER,
                 NO_SUCCESSOR                    Unattached
                 LEADER_FOUND                    Follower

Invariant  What is not in the table does not happen: it would break the invariants of a role.
Invariant  A later epoch begins by hearing of it or of its leader, with a candidate, or because a
           leader that resigned has no successor. Whatever else happens, happens within an epoch.
Invariant  The epoch never falls, and the state of it (epoch, leader, vote) is durable in
           `quorum-state` before anybody can know of it (C2): while the disk is behind
           (`awaits_disk`) this node says nothing to anybody, and nobody leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from tidelog.model.errors import invariant
from tidelog.quorum.election_state import ElectionState, ElectionStateJob, read_election_state
from tidelog.quorum.leader import Leader
from tidelog.quorum.roles import Candidate, Follower, Prospective, Resigned, Role, Unattached
from tidelog.quorum.timeouts import NEVER_MS
from tidelog.quorum.voters import QuorumVoters
from tidelog.storage.filesystem import FileSystem


class Trigger(Enum):
    """What makes a replica change its role."""

    LATER_EPOCH = "hears of a later epoch, and not where its leader is"
    LEADER_FOUND = "hears who leads this epoch or a later one, and where"
    TIMED_OUT = "has waited long enough for what it waits for"
    NOT_A_VOTER = "has waited long enough, but lost its vote meanwhile, or has no epoch left"
    PRE_VOTES_WON = "would be elected by a majority"
    PRE_VOTES_LOST = "would not be elected, and has no leader to go back to"
    LEADER_KEPT = "would not be elected, and goes back to its leader"
    VOTES_WON = "was elected by a majority"
    LEADER_DISCONNECTED = "has no vote, and its leader hung up"
    NO_SUCCESSOR = "resigned, and nobody began another epoch in time"
    RESIGNED = "stops, was removed, or has not heard from a majority"


RoleType: TypeAlias = type[Role]
TRANSITIONS: Final[Mapping[RoleType, Mapping[Trigger, RoleType]]] = MappingProxyType(
    {
        Unattached: {
            Trigger.LATER_EPOCH: Unattached,
            Trigger.NOT_A_VOTER: Unattached,
            Trigger.LEADER_FOUND: Follower,
            Trigger.TIMED_OUT: Prospective,
        },
        Prospective: {
            Trigger.LATER_EPOCH: Unattached,
            Trigger.PRE_VOTES_LOST: Unattached,
            Trigger.LEADER_FOUND: Follower,
            Trigger.LEADER_KEPT: Follower,
            Trigger.PRE_VOTES_WON: Candidate,
        },
        Candidate: {
            Trigger.LATER_EPOCH: Unattached,
            Trigger.NOT_A_VOTER: Unattached,
            Trigger.LEADER_FOUND: Follower,
            Trigger.TIMED_OUT: Prospective,
            Trigger.VOTES_WON: Leader,
        },
        Leader: {
            Trigger.LATER_EPOCH: Unattached,
            Trigger.LEADER_FOUND: Follower,
            Trigger.RESIGNED: Resigned,
        },
        Follower: {
            Trigger.LATER_EPOCH: Unattached,
            Trigger.NOT_A_VOTER: Unattached,
            Trigger.LEADER_DISCONNECTED: Unattached,
            Trigger.LEADER_FOUND: Follower,
            Trigger.TIMED_OUT: Prospective,
        },
        Resigned: {
            Trigger.LATER_EPOCH: Unattached,
            Trigger.NOT_A_VOTER: Unattached,
            Trigger.NO_SUCCESSOR: Unattached,
            Trigger.LEADER_FOUND: Follower,
        },
    }
)
_BEGINS_AN_EPOCH: Final = frozenset(
    {Trigger.LATER_EPOCH, Trigger.PRE_VOTES_WON, Trigger.NO_SUCCESSOR}
)
_FORGETS_THE_LEADER: Final = frozenset({Trigger.NOT_A_VOTER, Trigger.LEADER_DISCONNECTED})
"""Only this process does. The disk goes on naming who leads: above all, that this node did."""


class QuorumState:
    """The role of this node, and its copy on disk."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        voters: QuorumVoters,
        *,
        can_vote: bool,
        writes_by_jobs: bool,
    ) -> None:
        """With `writes_by_jobs` nothing waits for the disk once this has started."""
        self._files = files
        self._directory = directory
        self._voters = voters
        self._can_vote = can_vote
        self._writes_by_jobs = writes_by_jobs
        self._is_started = False
        self._latest = self._durable = ElectionState()
        self._writing: ElectionStateJob | None = None
        self.role: Role = Unattached(0, NEVER_MS)
        self.entered_on: Trigger | None = None
        """What made this node what it is; None since it started."""

    def read(self, *, required: bool) -> ElectionState:
        """What the disk knows."""
        stored = read_election_state(self._files, self._directory, required=required)
        # A process that was killed as it wrote this may have left it under a name that a loss of
        # power would take back, after this one has answered by it.
        self._files.sync_directory(self._directory)
        self._latest = self._durable = stored
        return stored

    def begin_as(self, role: Role) -> None:
        """Go on from what the disk knows."""
        self.keep(role.election_state)
        self.role = role

    def started(self) -> None:
        """From now on nothing waits for the disk, if it need not."""
        self._is_started = True

    def become(self, role: Role, on: Trigger) -> None:
        """Move to another role."""
        before = self.role
        invariant(
            TRANSITIONS[type(before)].get(on) is type(role),
            f"a {before.name} does not become {role.name} on {on.name}",
        )
        invariant(
            role.epoch > before.epoch
            if on in _BEGINS_AN_EPOCH
            else role.epoch == before.epoch
            or (on is Trigger.LEADER_FOUND and role.epoch > before.epoch),
            f"epoch {role.epoch} does not follow on {before.epoch} on {on.name}",
        )
        if on not in _FORGETS_THE_LEADER:
            self.keep(role.election_state)
        self.role = role
        self.entered_on = on

    # What the disk knows

    @property
    def awaits_disk(self) -> bool:
        """Whether nobody may hear of what this node is, since its disk does not know it yet."""
        return self._can_vote and self._latest != self._durable

    @property
    def durable_epoch(self) -> int:
        """The epoch that this node may speak of."""
        return self._durable.epoch

    def keep(self, state: ElectionState) -> None:
        """Make `state` durable, now or by the next job."""
        if state == self._latest:
            return
        self._latest = state
        if not (self._is_started and self._writes_by_jobs):
            self._job_for(state).run()
            self._durable = state

    def write_job(self) -> ElectionStateJob | None:
        """The latest state, to be made durable; None if it is, or while a job is under way."""
        if self._writing is not None or self._latest == self._durable:
            return None
        self._writing = self._job_for(self._latest)
        return self._writing

    def written(self, job: ElectionStateJob) -> None:
        """The job has run."""
        invariant(job is self._writing, "one election state is written at a time")
        self._writing = None
        self._durable = job.state

    def _job_for(self, state: ElectionState) -> ElectionStateJob:
        voters = self._voters.latest
        return ElectionStateJob(
            self._files, self._directory, state, voters.kraft_version, voters.voter_ids
        )
