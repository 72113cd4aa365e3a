"""Who leads: what makes this node move from role to role, and what it asks other voters about it.

    elections.start(now)
    response = elections.handle_vote(request, now)     # and begin_quorum_epoch, end_quorum_epoch
    for request in elections.take_requests(): ...      # to be sent; later, for each:
    elections.handle_response(request, response, now)  # or request_failed(request, now)
    elections.time_passed(now)                         # at due_ms

Invariant  An epoch has one leader (C1). Who names another than this node knows is not believed: a
           request, which anybody may have written, is refused; an answer is as good as lost. Only a
           leader that never gave this node anything yields, and only to what an answer says.
Invariant  Pre-votes of the same epoch change nothing on the side that gives them.
Invariant  Who is elected leads once its disk knows it, and begins by writing so into the log.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode, invariant
from tidelog.model.ids import NO_EPOCH, NO_LEADER
from tidelog.model.time import Now
from tidelog.quorum.control_records import VoterEndpoint
from tidelog.quorum.election_state import ElectionState, ElectionStateJob
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import (
    EPOCH_MAX,
    Address,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    LogEnd,
    OutboundRequest,
    QuorumRequest,
    QuorumResponse,
    ReplicaKey,
    Vote,
    can_follow,
)
from tidelog.quorum.metadata_replica import MetadataReplica
from tidelog.quorum.quorum_state import QuorumState, Trigger
from tidelog.quorum.roles import (
    NO_VOTE,
    Candidate,
    EpochElection,
    Follower,
    PendingVoters,
    Prospective,
    Resigned,
    Role,
    Unattached,
    voted_in,
)
from tidelog.quorum.timeouts import NEVER_MS, QuorumTimeouts
from tidelog.quorum.voters import QuorumVoters, opening_records

T = TypeVar("T")
_DISBELIEVED: Final = QuorumResponse(ErrorCode.invalid_request, NO_EPOCH)
"""It names no epoch: an Apache Kafka controller stops when its own epoch is called invalid."""


class Elections(Generic[T]):
    """This node's part in finding a leader."""

    def __init__(
        self,
        *,
        replica: MetadataReplica[T],
        voters: QuorumVoters,
        state: QuorumState,
        endpoints: tuple[VoterEndpoint, ...],
        entropy: Entropy,
        timeouts: QuorumTimeouts,
    ) -> None:
        self.state = state
        self._replica = replica
        self._voters = voters
        self._own = voters.own
        self._endpoints = endpoints
        self._entropy = entropy
        self._timeouts = timeouts
        self._requests: list[OutboundRequest] = []
        self._lost_leader: int | None = None
        """Who led before and hung up; nobody has heard of it since, as far as this node knows."""

    def start(self, now: Now) -> None:
        """Go on from what is on disk; nobody leads an epoch again that it led before. The sole
        voter leads at once."""
        log, voters = self._replica.log, self._voters
        stored = self.state.read(required=voters.has_rivals and log.end_offset > 0)
        is_alone = voters.is_voter and not voters.has_rivals
        due_ms = NEVER_MS
        if voters.has_rivals:
            due_ms = now.monotonic_ms + self._timeouts.first_election(self._entropy)
        if stored.epoch < log.latest_epoch:
            stored = ElectionState(log.latest_epoch)
        if stored.leader_id == self._own.id and not is_alone:
            due_ms = min(due_ms, now.monotonic_ms + self._timeouts.election_ms)
            self.state.begin_as(
                Resigned(
                    stored.epoch,
                    due_ms,
                    PendingVoters((), now.monotonic_ms),
                    leader_id=self._own.id,
                    successors=(),
                )
            )
        else:
            role = Unattached(
                stored.epoch, due_ms, leader_id=stored.leader_id, voted=voted_in(stored)
            )
            self.state.begin_as(role)
            if is_alone and self._can_stand:
                self._become_prospective(role, now)
        self.state.started()

    # What it is

    @property
    def _can_stand(self) -> bool:
        return self._voters.is_voter and self.epoch < EPOCH_MAX

    @property
    def role(self) -> Role:
        """What this node is in the current epoch."""
        return self.state.role

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def leader_id(self) -> int:
        """Who leads the epoch, as far as this node knows; -1 once that one resigned."""
        return NO_LEADER if isinstance(self.role, Resigned) else self.role.leader_id

    @property
    def leader_address(self) -> Address | None:
        """Where to fetch from; None when nobody else is known to lead."""
        return self.role.address if isinstance(self.role, Follower) else None

    @property
    def due_ms(self) -> int:
        """When `time_passed` has something to do; not before the disk knows what this node is."""
        if self.state.awaits_disk:
            return NEVER_MS
        role = self.role
        asks_ms = None if role.pending is None else role.pending.due_ms
        return role.due_ms if asks_ms is None else min(role.due_ms, asks_ms)

    @property
    def has_handed_over(self) -> bool:
        """Whether this node leads nobody, and everybody knows."""
        role = self.role
        return not isinstance(role, Leader | Resigned) or (
            isinstance(role, Resigned) and role.pending.are_done
        )

    def take_requests(self) -> list[OutboundRequest]:
        """What is to be asked of other voters, once that can be said."""
        if self.state.awaits_disk:
            return []
        requests, self._requests = self._requests, []
        return requests

    def take_lost_leader(self) -> int | None:
        """Who led before and hung up without a word, as far as this node knows; said once, since
        it is no news in the next election that this node wins."""
        lost, self._lost_leader = self._lost_leader, None
        return lost

    # What others ask

    def handle_vote(self, vote: Vote, now: Now) -> QuorumResponse:
        """Somebody wants this node's vote."""
        later = vote.last_epoch > vote.epoch if vote.pre_vote else vote.last_epoch >= vote.epoch
        if vote.end_offset < 0 or vote.last_epoch < 0 or later:
            return self._response(ErrorCode.invalid_request)
        refused = self._refused(vote.epoch, vote.candidate.id, vote.voter)
        if refused is not None:
            return refused
        if not self.heard_of(vote.epoch, NO_LEADER, None, now, asked=False):
            return _DISBELIEVED
        if self._is_behind(vote):
            granted = False
        elif vote.pre_vote:
            granted = self.role.grants_pre_vote()
        else:
            granted = self.role.grants_vote(vote.candidate)
            if granted:
                self._vote_for(vote.candidate, now)
        return self._response(ErrorCode.none, granted=granted)

    def _is_behind(self, vote: Vote) -> bool:
        return LogEnd(vote.last_epoch, vote.end_offset) < self._replica.log.log_end

    def _vote_for(self, candidate: ReplicaKey, now: Now) -> None:
        role = self.role
        invariant(isinstance(role, Unattached | Prospective), "only who follows nobody votes")
        if isinstance(role, Unattached | Prospective) and role.voted == NO_VOTE:
            role.voted = candidate
            if isinstance(role, Unattached) and self._voters.is_voter:
                role.due_ms = now.monotonic_ms + self._timeouts.election(self._entropy)
            self.state.keep(role.election_state)

    def handle_begin_quorum_epoch(self, begun: BeginQuorumEpoch, now: Now) -> QuorumResponse:
        """A leader says that it leads."""
        refused = self._refused(begun.epoch, begun.leader_id, begun.voter)
        if refused is not None:
            return refused
        if not self.heard_of(begun.epoch, begun.leader_id, begun.address, now, asked=False):
            return _DISBELIEVED
        return self._response(ErrorCode.none)

    def handle_end_quorum_epoch(self, ended: EndQuorumEpoch, now: Now) -> QuorumResponse:
        """A leader says that it will not lead any longer."""
        refused = self._refused(ended.epoch, ended.leader_id, self._own)
        if refused is not None:
            return refused
        if not self.heard_of(ended.epoch, ended.leader_id, ended.address, now, asked=False):
            return _DISBELIEVED
        role = self.role
        if (
            isinstance(role, Follower)
            and role.leader_id == ended.leader_id
            and self._voters.is_voter
        ):
            ranks = [rank for rank, key in enumerate(ended.successors) if key.is_same(self._own)]
            pause_ms = self._timeouts.after_resignation(
                ranks[0] if ranks else None, len(ended.successors)
            )
            role.resigned(now.monotonic_ms + pause_ms)
        return self._response(ErrorCode.none)

    def _refused(self, epoch: int, sender_id: int, addressed: ReplicaKey) -> QuorumResponse | None:
        """What a request gets that nobody of this quorum would send now, and not to this replica:
        no word of an epoch that the sender does not know."""
        if not addressed.is_same(self._own):
            known = min(epoch, self.state.durable_epoch)
            return QuorumResponse(ErrorCode.invalid_voter_key, known)
        if epoch < self.epoch:
            return self._response(ErrorCode.fenced_leader_epoch)
        return self._response(ErrorCode.invalid_request) if sender_id < 0 else None

    def _response(self, error: int, *, granted: bool = False) -> QuorumResponse:
        leader_id = self.leader_id
        address = self._voters.address_of(leader_id)
        return QuorumResponse(error, self.epoch, leader_id, address, granted)

    # What others say

    def handle_response(self, sent: OutboundRequest, response: QuorumResponse, now: Now) -> None:
        """A voter answered; what it knows of the quorum comes first."""
        if not self.heard_of(response.epoch, response.leader_id, response.address, now, asked=True):
            self.request_failed(sent, now)
            return
        role, voter_id, request = self.role, sent.to.voter_id, sent.request
        if request.epoch != role.epoch:
            return
        match request, role:
            case Vote(pre_vote=pre_vote), Prospective() | Candidate():
                if pre_vote is not isinstance(role, Prospective):
                    return
                if pre_vote and response.error == ErrorCode.unsupported_version:
                    self._become_candidate(now)  # somebody knows no pre-votes
                    return
                is_granted = response.is_granted and response.epoch == request.epoch
                role.election.counted(voter_id, granted=is_granted)
                self._look_at(role, now)
            case EndQuorumEpoch(), Resigned():
                role.pending.answered(voter_id)
            case _:
                pass

    def request_failed(self, sent: OutboundRequest, now: Now) -> None:
        """A request, or the response to it, got lost: ask again, if it still matters."""
        pending = self.role.pending
        if sent.request.epoch == self.epoch and pending is not None:
            pending.unanswered(sent.to.voter_id, now.monotonic_ms + self._timeouts.retry_ms)

    def ask_voters(self, now: Now) -> None:
        """Do not wait to ask the voters who leads, or should: somebody speaks of a leader, and it
        is not clear who that is."""
        role = self.role
        if isinstance(role, Unattached | Follower) and self._voters.has_rivals and self._can_stand:
            self._become_prospective(role, now)

    def heard_of(
        self, epoch: int, leader_id: int, address: Address | None, now: Now, *, asked: bool
    ) -> bool:
        """Somebody names an epoch, and perhaps its leader; False when that cannot be, and then
        nothing has changed. `asked`: it is the answer of one whom this node asked."""
        role = self.role
        if epoch < role.epoch:
            return True
        if self.contradiction(epoch, leader_id, asked=asked) is not None:
            return False
        is_known = leader_id >= 0 and leader_id != self._own.id
        if epoch == role.epoch and (
            not is_known
            or (isinstance(role, Follower | Prospective) and role.leader_id == leader_id)
        ):
            return True
        found = address or self._voters.address_of(leader_id)
        if is_known and found is not None:
            self._become_follower(epoch, leader_id, found, Trigger.LEADER_FOUND, now)
        elif epoch > role.epoch:
            due_ms = self._fresh_ms(now)
            if not isinstance(role, Leader):  # who would stand soon anyway need not wait longer
                due_ms = min(due_ms, role.due_ms)
            named = leader_id if is_known else NO_LEADER
            self.state.become(Unattached(epoch, due_ms, leader_id=named), Trigger.LATER_EPOCH)
        return True

    def contradiction(self, epoch: int, leader_id: int, *, asked: bool = True) -> str | None:
        """Why an epoch and its leader cannot be what somebody says; None when they can."""
        role, own_id = self.role, self._own.id
        if not can_follow(epoch, role.epoch):
            return f"it names epoch {epoch}, and this node knows of epoch {role.epoch}"
        if leader_id == own_id:
            return None if asked else "it takes itself for this node"
        is_elected = isinstance(role, Candidate) and role.election.is_won
        known = own_id if is_elected else role.leader_id
        if epoch != role.epoch or leader_id < 0 or known in (NO_LEADER, leader_id):
            return None
        is_certain = known == own_id or (isinstance(role, Follower) and role.has_fetched)
        if asked and not is_certain:
            return None
        return f"it names {leader_id} as leader of epoch {epoch}, which {known} leads"

    def leader_answered(self, now: Now) -> None:
        """The leader was heard of, by the answer to a fetch or otherwise."""
        if isinstance(self.role, Follower):
            self._lost_leader = None
            self.role.fetched(now.monotonic_ms + self._timeouts.fetch_ms)

    def leader_disconnected(self, now: Now) -> None:
        """The connection to the leader was closed or refused: evidence that it is gone."""
        role = self.role
        if not isinstance(role, Follower):
            return
        if not self._voters.is_voter:
            forgetting = Unattached(role.epoch, NEVER_MS, voted=role.voted)
            self.state.become(forgetting, Trigger.LEADER_DISCONNECTED)
            return
        pause_ms = self._timeouts.after_disconnect(*self._voters.rank_without(role.leader_id))
        if pause_ms is not None:
            self._lost_leader = role.leader_id
            role.disconnected(now.monotonic_ms + pause_ms)

    # What the disk knows

    def election_state_written(self, job: ElectionStateJob, now: Now) -> None:
        """A write job of the state has run. Ask for the next one, and for what may be said now."""
        self.state.written(job)
        if isinstance(self.role, Candidate) and self.role.election.is_won:
            self._become_leader(self.role, now)

    # Time

    def time_passed(self, now: Now) -> None:
        """Do what is due."""
        role, is_due = self.role, now.monotonic_ms >= self.role.due_ms
        match role:
            case Leader():
                self._look_after_followers(role, now)
            case Prospective():
                if is_due:
                    self._pre_votes_lost(role, now)
            case _ if is_due and not self._can_stand:  # it could when it began to wait
                waiting = Unattached(role.epoch, NEVER_MS, voted=role.voted)
                self.state.become(waiting, Trigger.NOT_A_VOTER)
            case Resigned():
                if is_due:
                    unattached = Unattached(role.epoch + 1, self._fresh_ms(now))
                    self.state.become(unattached, Trigger.NO_SUCCESSOR)
            case Unattached() | Follower() | Candidate():
                if is_due:
                    self._become_prospective(role, now)
        self._ask(now)

    def _look_after_followers(self, leader: Leader, now: Now) -> None:
        if leader.is_removed or leader.has_lost_the_majority(now.monotonic_ms):
            self.resign(now)
            return
        for voter_id in leader.silent_voters(now.monotonic_ms):
            key, own = self._voters.key_of(voter_id), self._voters.address_of(leader.leader_id)
            self._send(voter_id, BeginQuorumEpoch(leader.epoch, leader.leader_id, key, own))

    def resign(self, now: Now) -> None:
        """Stop leading, and let the best of the others know that it may stand at once."""
        leader = self.role
        if not isinstance(leader, Leader):
            return
        successors = leader.successors()
        resigned = Resigned(
            leader.epoch,
            now.monotonic_ms + self._timeouts.election(self._entropy),
            PendingVoters(successors, now.monotonic_ms),
            leader_id=leader.leader_id,
            successors=tuple(map(self._voters.key_of, successors)),
        )
        self.state.become(resigned, Trigger.RESIGNED)
        self._ask(now)

    # Moves

    def _become_prospective(self, role: Unattached | Follower | Candidate, now: Now) -> None:
        """Ask the others what they would think of an election."""
        prospective = Prospective(
            role.epoch,
            self._fresh_ms(now),
            self._new_election(now),
            leader_id=role.leader_id,
            address=self.leader_address,
            voted=role.voted,
        )
        self.state.become(prospective, Trigger.TIMED_OUT)
        self._look_at(prospective, now)

    def _new_election(self, now: Now) -> EpochElection:
        return EpochElection(self._own.id, self._voters.latest.voter_ids, now.monotonic_ms)

    def _look_at(self, role: Prospective | Candidate, now: Now) -> None:
        """Go on with an election: it may be won, or lost, or there are voters to be asked."""
        if role.election.is_won and isinstance(role, Prospective):
            self._become_candidate(now)
        elif role.election.is_won and isinstance(role, Candidate):
            self.state.keep(ElectionState(role.epoch, self._own.id))
            self._become_leader(role, now)
        elif role.election.is_lost and isinstance(role, Prospective):
            self._pre_votes_lost(role, now)
        else:
            self._ask(now)

    def _become_candidate(self, now: Now) -> None:
        """Begin an epoch, vote for this node in it, and ask the others to do so."""
        candidate = Candidate(
            self.role.epoch + 1, self._fresh_ms(now), self._new_election(now), voted=self._own
        )
        self.state.become(candidate, Trigger.PRE_VOTES_WON)
        self._look_at(candidate, now)

    def _become_leader(self, role: Candidate, now: Now) -> None:
        """Elected: the first records of the epoch say so, and commit what came before them. Not
        before the disk knows it."""
        if self.state.awaits_disk:
            return
        voters = self._voters.latest
        leader = Leader(
            epoch=role.epoch,
            leader_id=self._own.id,
            epoch_start_offset=self._replica.log.end_offset,
            voter_ids=voters.voter_ids,
            high_watermark=self._replica.high_watermark,
            timeouts=self._timeouts,
            now=now,
        )
        opening = opening_records(voters, self._own, self._endpoints, role.election.granting)
        self._replica.append_control(opening, role.epoch, now)
        self.state.become(leader, Trigger.VOTES_WON)
        self._look_after_followers(leader, now)

    def _pre_votes_lost(self, role: Prospective, now: Now) -> None:
        """The others do not want an election."""
        if role.leader_id != NO_LEADER and role.address is not None:
            self._become_follower(
                role.epoch, role.leader_id, role.address, Trigger.LEADER_KEPT, now
            )
        else:
            due_ms = self._fresh_ms(now)
            unattached = Unattached(role.epoch, due_ms, leader_id=role.leader_id, voted=role.voted)
            self.state.become(unattached, Trigger.PRE_VOTES_LOST)

    def _become_follower(
        self, epoch: int, leader_id: int, address: Address, on: Trigger, now: Now
    ) -> None:
        voted = self.role.voted if epoch == self.role.epoch else NO_VOTE
        due_ms = now.monotonic_ms + self._timeouts.fetch_ms
        follower = Follower(epoch, due_ms, leader_id=leader_id, address=address, voted=voted)
        self.state.become(follower, on)

    # Asking

    def _ask(self, now: Now) -> None:
        role = self.role
        due = () if role.pending is None else role.pending.take_due(now.monotonic_ms)
        for voter_id in due:
            request: QuorumRequest
            if isinstance(role, Resigned):
                own = self._voters.address_of(role.leader_id)
                request = EndQuorumEpoch(role.epoch, role.leader_id, role.successors, own)
            else:
                is_pre_vote = isinstance(role, Prospective)
                key, end = self._voters.key_of(voter_id), self._replica.log.log_end
                request = Vote(role.epoch, self._own, key, *end, is_pre_vote)
            self._send(voter_id, request)

    def _send(self, voter_id: int, request: QuorumRequest) -> None:
        voter = self._voters.latest.by_id(voter_id)
        if voter is not None:
            self._requests.append(OutboundRequest(voter, request))

    def _fresh_ms(self, now: Now) -> int:
        """When to give up what is begun now: who cannot stand, never; who cannot lose, at once."""
        if not self._voters.has_rivals:
            return now.monotonic_ms if self._voters.is_voter else NEVER_MS
        return now.monotonic_ms + self._timeouts.election(self._entropy)
