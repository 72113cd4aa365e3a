"""Who leads: the moves of this node from role to role, and what it says to other voters about it.

    elections.start(now, log_end)
    answer = elections.vote_asked(question, log_end, now)       # and epoch_begun, epoch_ended
    for letter in elections.take_letters(): ...                 # to be sent; later, for each:
    elections.answered(letter, answer, now)                     # or unanswered(letter, now)
    elections.time_passed(log_end, now)                         # at due_ms
    elections.promise_kept(now)                                 # once what it promised is durable

Invariant  The epoch never falls, and what is promised in it is durable before anybody can know
           of it: every move has `quorum-state` written (C2), and until it is, whoever uses this
           says nothing to anybody. Nobody leads before that.
Invariant  An epoch has one leader; to hear of two stops the node (C1).
Invariant  Pre-votes of the same epoch change nothing on the side that gives them.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode, invariant
from tidelog.model.ids import NO_LEADER
from tidelog.model.time import Now
from tidelog.quorum.election_state import ElectionState
from tidelog.quorum.leader import Leader
from tidelog.quorum.membership import Membership
from tidelog.quorum.messages import (
    Address,
    EpochBegun,
    EpochEnded,
    Letter,
    LogEnd,
    Question,
    QuorumAnswer,
    ReplicaKey,
    VoteAsked,
    is_fine,
)
from tidelog.quorum.roles import (
    NO_VOTE,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Role,
    Unattached,
    voted_in,
)
from tidelog.quorum.tally import Reminders
from tidelog.quorum.timeouts import NEVER_MS, QuorumTimeouts


class Elections:
    """The role of this node in the quorum."""

    def __init__(
        self,
        *,
        members: Membership,
        persist: Callable[[ElectionState], bool],
        lead: Callable[[int, tuple[int, ...], Now], Leader],
        entropy: Entropy,
        timeouts: QuorumTimeouts,
    ) -> None:
        """`lead` is told an epoch and who voted for it, and begins to lead it; `persist` says
        whether the promise is durable already."""
        self._members = members
        self._own = members.own
        self._persist_state = persist
        self._lead = lead
        self._entropy = entropy
        self._timeouts = timeouts
        self._letters: list[Letter] = []
        self._promised = ElectionState()
        self._is_kept = True
        self.role: Role = Unattached(0, NEVER_MS)
        self.lost_leader: int | None = None
        """Who led before and hung up; nobody has heard of it since, as far as this node knows."""

    def start(self, stored: ElectionState, log_end: LogEnd, now: Now) -> None:
        """Go on from what was promised before; nobody leads an epoch again that it led before."""
        self._promised = stored
        due_ms = NEVER_MS
        if self._members.has_rivals:
            due_ms = now.monotonic_ms + self._timeouts.first_election(self._entropy)
        if stored.epoch < log_end.epoch:
            self._become(Unattached(log_end.epoch, due_ms))
        elif stored.leader_id == self._own.id:
            nobody = Reminders((), now.monotonic_ms)
            soon_ms = min(due_ms, now.monotonic_ms + self._timeouts.election_ms)
            self.role = Resigned(
                stored.epoch, soon_ms, nobody, leader_id=self._own.id, successors=()
            )
        else:
            self.role = Unattached(
                stored.epoch, due_ms, leader_id=stored.leader_id, voted=voted_in(stored)
            )
        if self._members.is_voter and not self._members.has_rivals:
            self._stand(log_end, now)

    # What it is

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
        """When `time_passed` has something to do."""
        role = self.role
        asks_ms = None if role.reminders is None else role.reminders.due_ms
        return role.due_ms if asks_ms is None else min(role.due_ms, asks_ms)

    def take_letters(self) -> list[Letter]:
        """What is to be sent to other voters."""
        letters, self._letters = self._letters, []
        return letters

    # What others say

    def vote_asked(self, asked: VoteAsked, log_end: LogEnd, now: Now) -> QuorumAnswer:
        """Somebody wants this node's vote."""
        later = (
            asked.last_epoch > asked.epoch if asked.pre_vote else asked.last_epoch >= asked.epoch
        )
        if asked.end_offset < 0 or asked.last_epoch < 0 or later:
            return self._answer(ErrorCode.invalid_request)
        if asked.epoch < self.epoch:
            return self._answer(ErrorCode.fenced_leader_epoch)
        self.heard_of(asked.epoch, NO_LEADER, None, now)
        if not asked.voter.is_same(self._own):
            return self._answer(ErrorCode.invalid_voter_key)
        role = self.role
        if LogEnd(asked.last_epoch, asked.end_offset) < log_end:
            granted = False
        elif asked.pre_vote:
            granted = role.grants_pre_vote()
        else:
            granted = role.grants_vote(asked.candidate)
            if granted:
                self._vote_for(asked.candidate, now)
        return self._answer(ErrorCode.none, granted=granted)

    def _vote_for(self, candidate: ReplicaKey, now: Now) -> None:
        role = self.role
        invariant(isinstance(role, Unattached | Prospective), "only who follows nobody votes")
        if isinstance(role, Unattached | Prospective) and role.voted == NO_VOTE:
            role.voted = candidate
            if isinstance(role, Unattached) and self._members.is_voter:
                role.due_ms = now.monotonic_ms + self._timeouts.election(self._entropy)
            self._promise(role.promised)

    def epoch_begun(self, begun: EpochBegun, now: Now) -> QuorumAnswer:
        """A leader says that it leads."""
        if begun.epoch < self.epoch:
            return self._answer(ErrorCode.fenced_leader_epoch)
        self.heard_of(begun.epoch, begun.leader_id, begun.address, now)
        if not begun.voter.is_same(self._own):
            return self._answer(ErrorCode.invalid_voter_key)
        return self._answer(ErrorCode.none)

    def epoch_ended(self, ended: EpochEnded, now: Now) -> QuorumAnswer:
        """A leader says that it will not lead any longer."""
        if ended.epoch < self.epoch:
            return self._answer(ErrorCode.fenced_leader_epoch)
        self.heard_of(ended.epoch, ended.leader_id, ended.address, now)
        role = self.role
        if (
            isinstance(role, Follower)
            and role.leader_id == ended.leader_id
            and self._members.is_voter
        ):
            ranks = [rank for rank, key in enumerate(ended.successors) if key.is_same(self._own)]
            pause_ms = self._timeouts.after_resignation(
                ranks[0] if ranks else None, len(ended.successors)
            )
            role.resigned(now.monotonic_ms + pause_ms)
        return self._answer(ErrorCode.none)

    def _answer(self, error: int, *, granted: bool = False) -> QuorumAnswer:
        leader_id = self.leader_id
        return QuorumAnswer(
            error, self.epoch, leader_id, self._members.address_of(leader_id), granted
        )

    def answered(self, letter: Letter, answer: QuorumAnswer, log_end: LogEnd, now: Now) -> None:
        """A voter answered; what it knows of the quorum comes first."""
        self.heard_of(answer.epoch, answer.leader_id, answer.address, now)
        role, voter_id, question = self.role, letter.to.voter_id, letter.question
        if question.epoch != role.epoch:
            return
        match question, role:
            case VoteAsked(pre_vote=pre_vote), Prospective() | Candidate():
                if pre_vote is not isinstance(role, Prospective):
                    return
                if pre_vote and answer.error == ErrorCode.unsupported_version:
                    self._campaign(log_end, now)  # somebody knows no pre-votes
                    return
                role.tally.counted(voter_id, granted=is_fine(answer) and answer.granted)
                self._look_at(role, log_end, now)
            case EpochEnded(), Resigned():
                role.reminders.answered(voter_id)
            case _:
                pass

    def unanswered(self, letter: Letter, now: Now) -> None:
        """A question got lost: ask again, if it still matters."""
        reminders = self.role.reminders
        if letter.question.epoch == self.epoch and reminders is not None:
            reminders.unanswered(letter.to.voter_id, now.monotonic_ms + self._timeouts.retry_ms)

    def heard_of(self, epoch: int, leader_id: int, address: Address | None, now: Now) -> None:
        """Somebody names an epoch, and perhaps its leader."""
        role = self.role
        if epoch < role.epoch or (leader_id == self._own.id and epoch == role.epoch):
            return
        found = address or self._members.address_of(leader_id)
        is_known = leader_id not in (NO_LEADER, self._own.id)
        if epoch == role.epoch:
            if not is_known:
                return
            invariant(
                role.leader_id in (NO_LEADER, leader_id),
                f"epoch {epoch} has the leaders {role.leader_id} and {leader_id}",
            )
            if isinstance(role, Follower | Prospective) and role.leader_id == leader_id:
                return
        if is_known and found is not None:
            self._follow(epoch, leader_id, found, now)
        elif epoch > role.epoch:
            due_ms = self._fresh_ms(now)
            if not isinstance(role, Leader):  # who would stand soon anyway need not wait longer
                due_ms = min(due_ms, role.due_ms)
            self._become(Unattached(epoch, due_ms, leader_id=leader_id if is_known else NO_LEADER))

    def leader_answered(self, now: Now) -> None:
        """A fetch from the leader succeeded."""
        if isinstance(self.role, Follower):
            self.lost_leader = None
            self.role.fetched(now.monotonic_ms + self._timeouts.fetch_ms)

    def leader_hung_up(self, now: Now) -> None:
        """The connection to the leader was closed or refused: evidence that it is gone."""
        role = self.role
        if not isinstance(role, Follower):
            return
        if not self._members.is_voter:
            self.role = Unattached(role.epoch, NEVER_MS, voted=role.voted)
            return
        pause_ms = self._timeouts.after_hang_up(*self._members.rank_without(role.leader_id))
        if pause_ms is not None:
            self.lost_leader = role.leader_id
            role.hung_up(now.monotonic_ms + pause_ms)

    # Time

    def time_passed(self, log_end: LogEnd, now: Now) -> None:
        """Do what is due."""
        role, is_due = self.role, now.monotonic_ms >= self.role.due_ms
        match role:
            case Unattached() | Follower() | Candidate():
                if is_due and self._members.is_voter:
                    self._stand(log_end, now)
                elif is_due:  # it may have had a vote when it began to wait
                    self.role = Unattached(role.epoch, NEVER_MS, voted=role.voted)
            case Prospective():
                if is_due:
                    self._give_up(role, now)
            case Resigned():
                if is_due:  # only a voter may begin an epoch
                    epoch = role.epoch + self._members.is_voter
                    self._become(Unattached(epoch, self._fresh_ms(now)))
            case Leader():
                self._look_after_followers(role, now)
        self._ask(log_end, now)

    def _look_after_followers(self, leader: Leader, now: Now) -> None:
        if leader.is_removed or leader.has_lost_the_majority(now.monotonic_ms):
            self.resign(now)
            return
        for voter_id in leader.silent_voters(now.monotonic_ms):
            key, own = self._members.key_of(voter_id), self._members.address_of(leader.leader_id)
            self._send(voter_id, EpochBegun(leader.epoch, leader.leader_id, key, own))

    def resign(self, now: Now) -> None:
        """Stop leading, and let the best of the others know that it may stand at once."""
        leader = self.role
        if not isinstance(leader, Leader):
            return
        successors = leader.successors()
        self.role = Resigned(
            leader.epoch,
            now.monotonic_ms + self._timeouts.election(self._entropy),
            Reminders(successors, now.monotonic_ms),
            leader_id=leader.leader_id,
            successors=tuple(map(self._members.key_of, successors)),
        )
        self._ask(LogEnd(0, 0), now)

    # Moves

    def _stand(self, log_end: LogEnd, now: Now) -> None:
        """Ask the others what they would think of an election."""
        role = self.role
        prospective = Prospective(
            role.epoch,
            self._fresh_ms(now),
            self._members.new_tally(now.monotonic_ms),
            leader_id=self.leader_id if isinstance(role, Resigned) else role.leader_id,
            address=self.leader_address,
            voted=role.voted,
        )
        self.role = prospective
        self._look_at(prospective, log_end, now)

    def _look_at(self, role: Prospective | Candidate, log_end: LogEnd, now: Now) -> None:
        """Go on with an election: it may be won, or lost, or there are voters to be asked."""
        if role.tally.is_won and isinstance(role, Prospective):
            self._campaign(log_end, now)
        elif role.tally.is_won and isinstance(role, Candidate):
            self._promise(ElectionState(role.epoch, self._own.id))
            self._lead_if_promised(role, now)
        elif role.tally.is_lost and isinstance(role, Prospective):
            self._give_up(role, now)
        else:
            self._ask(log_end, now)

    def _lead_if_promised(self, role: Candidate, now: Now) -> None:
        if self._is_kept:
            leader = self._lead(role.epoch, role.tally.granting, now)
            self.role = leader
            self._look_after_followers(leader, now)

    def promise_kept(self, now: Now) -> None:
        """What was promised last is durable: who won with it may lead."""
        self._is_kept = True
        if isinstance(self.role, Candidate) and self.role.tally.is_won:
            self._lead_if_promised(self.role, now)

    def _campaign(self, log_end: LogEnd, now: Now) -> None:
        """Begin an epoch, vote for this node in it, and ask the others to do so."""
        epoch, due_ms = self.role.epoch + 1, self._fresh_ms(now)
        candidate = Candidate(
            epoch, due_ms, self._members.new_tally(now.monotonic_ms), voted=self._own
        )
        self._become(candidate)
        self._look_at(candidate, log_end, now)

    def _give_up(self, role: Prospective, now: Now) -> None:
        """The others do not want an election."""
        if role.leader_id != NO_LEADER and role.address is not None:
            self._follow(role.epoch, role.leader_id, role.address, now)
        else:
            due_ms = self._fresh_ms(now)
            self._become(Unattached(role.epoch, due_ms, leader_id=role.leader_id, voted=role.voted))

    def _follow(self, epoch: int, leader_id: int, address: Address, now: Now) -> None:
        voted = self.role.voted if epoch == self.role.epoch else NO_VOTE
        due_ms = now.monotonic_ms + self._timeouts.fetch_ms
        self._become(Follower(epoch, due_ms, leader_id=leader_id, address=address, voted=voted))

    def _become(self, role: Role) -> None:
        invariant(role.epoch >= self.role.epoch, "the epoch of the quorum never falls")
        self._promise(role.promised)
        self.role = role

    def _promise(self, state: ElectionState) -> None:
        if state != self._promised:
            self._promised = state
            self._is_kept = self._persist_state(state)

    # Asking

    def _ask(self, log_end: LogEnd, now: Now) -> None:
        role = self.role
        due = () if role.reminders is None else role.reminders.take_due(now.monotonic_ms)
        for voter_id in due:
            question: Question
            if isinstance(role, Resigned):
                own = self._members.address_of(role.leader_id)
                question = EpochEnded(role.epoch, role.leader_id, role.successors, own)
            else:
                is_pre_vote = isinstance(role, Prospective)
                key = self._members.key_of(voter_id)
                question = VoteAsked(role.epoch, self._own, key, *log_end, is_pre_vote)
            self._send(voter_id, question)

    def _send(self, voter_id: int, question: Question) -> None:
        voter = self._members.find(voter_id)
        if voter is not None:
            self._letters.append(Letter(voter, question))

    def _fresh_ms(self, now: Now) -> int:
        """When to give up what is begun now: who cannot stand, never; who cannot lose, at once."""
        if not self._members.has_rivals:
            return now.monotonic_ms if self._members.is_voter else NEVER_MS
        return now.monotonic_ms + self._timeouts.election(self._entropy)
