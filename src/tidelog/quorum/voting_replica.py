"""A replica of the metadata log with its part in the elections: what it is, and what it says.

Invariant  The epoch is durable in `quorum-state` before a record of it is written.
Invariant  While a promise is not durable (`owes_promise`) this node says nothing that others could
           take for it: no answer, no letter, no fetch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from tidelog.model.entropy import Entropy
from tidelog.model.errors import ConfigError, invariant
from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter
from tidelog.quorum.election_state import (
    ElectionState,
    PromiseJob,
    read_election_state,
)
from tidelog.quorum.elections import Elections
from tidelog.quorum.leader import Leader
from tidelog.quorum.membership import Membership
from tidelog.quorum.messages import (
    Address,
    EpochBegun,
    EpochEnded,
    Letter,
    LogEnd,
    QuorumAnswer,
    ReplicaKey,
    VoteAsked,
)
from tidelog.quorum.replica import MetadataReplica, RecordCodec
from tidelog.quorum.roles import Resigned, Role
from tidelog.quorum.snapshots import SnapshotRules
from tidelog.quorum.timeouts import NEVER_MS, QuorumTimeouts
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.partition_log import PartitionLog

T = TypeVar("T")


class VotingReplica(MetadataReplica[T], ABC):
    """The log of a node that may be elected; one that cannot vote only follows."""

    def __init__(
        self,
        *,
        files: FileSystem,
        log: PartitionLog,
        own: ReplicaKey,
        listener: str,
        codec: RecordCodec[T],
        entropy: Entropy,
        now: Now,
        rules: SnapshotRules,
        static_voters: tuple[Voter, ...],
        timeouts: QuorumTimeouts,
        can_vote: bool,
        promises_by_jobs: bool,
    ) -> None:
        """`listener` is the one that all members of the quorum use among themselves. With
        `promises_by_jobs` no move waits for the disk once this has started."""
        super().__init__(
            files=files,
            log=log,
            codec=codec,
            now=now,
            rules=rules,
            static_voters=static_voters,
            may_refetch=not can_vote,
        )
        self._own = own
        self._can_vote = can_vote
        self._timeouts = timeouts
        self._members = Membership(own, listener, lambda: self._voters)
        self._promises_by_jobs = promises_by_jobs
        self._is_started = False
        self._promised = self._kept = ElectionState()
        self._promising: PromiseJob | None = None
        self._elections = Elections(
            members=self._members,
            persist=self._persist,
            lead=self._lead,
            entropy=entropy,
            timeouts=timeouts,
        )

    @abstractmethod
    def _lead(self, epoch: int, granting: tuple[int, ...], now: Now) -> Leader:
        """Elected by those: begin to lead the epoch."""

    def start(self, now: Now) -> None:
        """Take part; the sole voter leads at once."""
        alone = self._voters.voter_ids == (self._own.id,)
        if alone and self._can_vote and not self._members.is_voter:
            raise ConfigError(
                f"the only voter is node {self._own.id} with another metadata directory than "
                f"{self._log.directory} ({self._own.directory_id}): start it with the one it was "
                f"formatted with, or format an empty directory for a new cluster"
            )
        may_have_voted = self._members.has_rivals and self._log.end_offset > 0
        stored = read_election_state(self._files, self._log.directory, required=may_have_voted)
        # A process that was killed as it made a promise may have left it under a name that a loss
        # of power would take back, after this one has answered by it.
        self._files.sync_directory(self._log.directory)
        self._promised = self._kept = stored
        self._elections.start(stored, self.log_end, now)
        self._is_started = True

    # What it promises

    @property
    def owes_promise(self) -> bool:
        """Whether nobody may hear of what this node is, since its disk does not know it yet."""
        return self._can_vote and self._promised != self._kept

    def promise_job(self) -> PromiseJob | None:
        """The latest promise, to be made durable; None if it is, or while a job is under way."""
        if self._promising is not None or self._promised == self._kept:
            return None
        self._promising = self._job_for(self._promised)
        return self._promising

    def promise_kept(self, job: PromiseJob, now: Now) -> None:
        """The job has run. Ask for the next one, and for what may be said now."""
        invariant(job is self._promising, "one promise is written at a time")
        self._promising = None
        self._kept = job.state
        if self._promised == self._kept:
            self._elections.promise_kept(now)

    def _persist(self, state: ElectionState) -> bool:
        self._promised = state
        if self._is_started and self._promises_by_jobs:
            return not self.owes_promise
        self._job_for(state).run()
        self._kept = state
        return True

    def _job_for(self, state: ElectionState) -> PromiseJob:
        return PromiseJob(
            self._files,
            self._log.directory,
            state,
            self._voters.kraft_version,
            self._voters.voter_ids,
        )

    # What it is

    @property
    def identity(self) -> ReplicaKey:
        return self._own

    @property
    def role(self) -> Role:
        """What this node is in the current epoch."""
        return self._elections.role

    @property
    def epoch(self) -> int:
        """The latest epoch this node has heard of; the leader's is the controller's epoch."""
        return self._elections.epoch

    @property
    def leader_id(self) -> int:
        """Who leads the quorum; -1 when that is not known."""
        return self._elections.leader_id

    @property
    def leader_address(self) -> Address | None:
        """Where another node, which leads, is found."""
        return self._elections.leader_address

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def is_active(self) -> bool:
        """Whether the controller may act: it leads, and its epoch's first record is committed."""
        return isinstance(self.role, Leader) and self.role.has_committed

    @property
    def due_ms(self) -> int:
        """When `time_passed` has something to do; not before the disk knows what was promised."""
        return NEVER_MS if self.owes_promise else self._elections.due_ms

    @property
    def log_end(self) -> LogEnd:
        """Where its log ends, which decides whom it may vote for."""
        return LogEnd(self._log.latest_epoch, self._log.end_offset)

    # Who leads

    def time_passed(self, now: Now) -> None:
        """Do what is due."""
        self._elections.time_passed(self.log_end, now)

    def vote_asked(self, asked: VoteAsked, now: Now) -> QuorumAnswer:
        """Somebody wants this node's vote."""
        return self._elections.vote_asked(asked, self.log_end, now)

    def epoch_begun(self, begun: EpochBegun, now: Now) -> QuorumAnswer:
        """Somebody says that it leads."""
        return self._elections.epoch_begun(begun, now)

    def epoch_ended(self, ended: EpochEnded, now: Now) -> QuorumAnswer:
        """A leader says that it leads no longer."""
        return self._elections.epoch_ended(ended, now)

    def take_letters(self) -> list[Letter]:
        """What is to be said to other voters, once that can be said."""
        return [] if self.owes_promise else self._elections.take_letters()

    def answered(self, letter: Letter, answer: QuorumAnswer, now: Now) -> None:
        """What a voter said to a letter."""
        self._elections.answered(letter, answer, self.log_end, now)

    def unanswered(self, letter: Letter, now: Now) -> None:
        """A letter, or the answer to it, was lost."""
        self._elections.unanswered(letter, now)

    def leader_answered(self, now: Now) -> None:
        """The leader gave something else than an answer to a fetch."""
        self._elections.leader_answered(now)

    def leader_hung_up(self, now: Now) -> None:
        """The connection to the leader was closed, or refused."""
        self._elections.leader_hung_up(now)

    def take_lost_leader(self) -> int | None:
        """Who led before and hung up without a word, as far as this node knows; said once, since
        it is no news in the next election that this node wins."""
        lost, self._elections.lost_leader = self._elections.lost_leader, None
        return lost

    @property
    def has_handed_over(self) -> bool:
        """Whether this node leads nobody, and everybody knows."""
        return not self.is_leader and (
            not isinstance(self.role, Resigned) or self.role.reminders.are_done
        )

    def resign(self, now: Now) -> None:
        """Give up leading, for this epoch; successors hear of it."""
        self._elections.resign(now)
