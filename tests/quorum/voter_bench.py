"""One voter, number 1 of several, with a clock of its own and the others played by a test."""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.election_state import ElectionState
from tidelog.quorum.elections import Elections
from tidelog.quorum.leader import Leader
from tidelog.quorum.membership import Membership
from tidelog.quorum.messages import (
    EpochBegun,
    Letter,
    LogEnd,
    QuorumAnswer,
    ReplicaKey,
    VoteAsked,
)
from tidelog.quorum.timeouts import QuorumTimeouts
from tidelog.quorum.voter_set import VoterSet

TIMEOUTS = QuorumTimeouts()
END = LogEnd(3, 50)
FRESH = ElectionState(epoch=3)
GRANTED, REFUSED = True, False


class Dice:
    """The same throws every time."""

    def uuid(self) -> UUID:
        return UUID(int=4711)

    def below(self, bound: int) -> int:
        return bound // 2


def key(voter_id: int) -> ReplicaKey:
    return ReplicaKey(voter_id, UUID(int=1000 + voter_id))


def address(voter_id: int) -> tuple[str, int]:
    return f"node-{voter_id}", 9093


def member(voter_id: int) -> Voter:
    host, port = address(voter_id)
    endpoint = VoterEndpoint(name="CONTROLLER", host=host, port=port)
    return Voter(
        voter_id=voter_id, voter_directory_id=key(voter_id).directory_id, endpoints=(endpoint,)
    )


class VoterBench:
    """Voter 1 with a clock of its own and a record of everything it wrote down."""

    def __init__(self, voters: int = 3, stored: ElectionState = FRESH, own: int = 1) -> None:
        self.now = Now(10_000, 0)
        self.stored = [stored]
        self.members = VoterSet(1, tuple(map(member, range(1, voters + 1))))
        self.elections = Elections(
            members=Membership(key(own), "CONTROLLER", lambda: self.members),
            persist=self._persist,
            lead=self._lead,
            entropy=Dice(),
            timeouts=TIMEOUTS,
        )
        self._voter_ids = self.members.voter_ids
        self.elections.start(stored, END, self.now)

    def _persist(self, state: ElectionState) -> bool:
        self.stored.append(state)
        return True

    def _lead(self, epoch: int, granting: tuple[int, ...], now: Now) -> Leader:
        return Leader(
            epoch=epoch,
            leader_id=1,
            epoch_start_offset=END.offset,
            voter_ids=self._voter_ids,
            high_watermark=0,
            timeouts=TIMEOUTS,
            now=now,
        )

    @property
    def state(self) -> tuple[str, int, int]:
        """Role, epoch, leader."""
        return self.elections.role.name, self.elections.epoch, self.elections.leader_id

    def wait(self, milliseconds: int) -> None:
        until_ms = self.now.monotonic_ms + milliseconds
        while self.elections.due_ms <= until_ms:
            self.now = Now(max(self.elections.due_ms, self.now.monotonic_ms), 0)
            self.elections.time_passed(END, self.now)
        self.now = Now(until_ms, 0)

    def wait_until_due(self) -> None:
        self.wait(self.elections.due_ms - self.now.monotonic_ms)

    def letters(self) -> list[Letter]:
        return self.elections.take_letters()

    def answer(self, letter: Letter, granted: bool, error: int = ErrorCode.none) -> None:
        answer = QuorumAnswer(error, letter.question.epoch, granted=granted)
        self.elections.answered(letter, answer, END, self.now)

    def ask_vote(
        self,
        candidate: int,
        epoch: int,
        *,
        pre_vote: bool = False,
        last: LogEnd = END,
        voter: ReplicaKey | None = None,
    ) -> QuorumAnswer:
        asked = VoteAsked(epoch, key(candidate), voter or key(1), *last, pre_vote)
        return self.elections.vote_asked(asked, END, self.now)

    def follow(self, leader: int, epoch: int) -> None:
        begun = EpochBegun(epoch, leader, key(1), address(leader))
        assert self.elections.epoch_begun(begun, self.now).error == ErrorCode.none

    def stand(self) -> list[Letter]:
        """Wait until it asks for pre-votes."""
        self.wait_until_due()
        return self.letters()

    def campaign(self) -> list[Letter]:
        """Let one of the others encourage it; its questions for real votes."""
        self.answer(self.stand()[0], GRANTED)
        return self.letters()

    def win(self) -> list[Letter]:
        """Let one of the others vote for it; what it says as leader."""
        self.answer(self.campaign()[0], GRANTED)
        return self.letters()
