"""The moves of one voter, number 1 of several, seen from outside."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from tidelog.model.errors import ErrorCode, InvariantBroken
from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.election_state import ElectionState
from tidelog.quorum.elections import Elections
from tidelog.quorum.leader import Leader
from tidelog.quorum.membership import Membership
from tidelog.quorum.messages import (
    EpochBegun,
    EpochEnded,
    Letter,
    LogEnd,
    QuorumAnswer,
    ReplicaKey,
    VoteAsked,
)
from tidelog.quorum.timeouts import NEVER_MS, QuorumTimeouts
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
            persist=self.stored.append,
            lead=self._lead,
            entropy=Dice(),
            timeouts=TIMEOUTS,
        )
        self._voter_ids = self.members.voter_ids
        self.elections.start(stored, END, self.now)

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


# Standing


def test_a_voter_that_just_started_asks_soon_whether_it_is_needed() -> None:
    bench = VoterBench()
    assert bench.state == ("unattached", 3, -1)
    bench.wait(49)
    assert bench.letters() == []
    bench.wait(1)
    assert bench.state == ("prospective", 3, -1)
    assert [letter.to.voter_id for letter in bench.letters()] == [2, 3]


def test_a_pre_vote_asks_in_the_epoch_it_would_leave_and_promises_nothing() -> None:
    bench = VoterBench()
    [asked, _] = bench.stand()
    assert asked.question == VoteAsked(3, key(1), key(2), *END, True)
    assert bench.stored == [ElectionState(epoch=3)]


def test_a_majority_of_pre_votes_makes_a_candidate_that_voted_for_itself_on_disk() -> None:
    bench = VoterBench()
    [asked, _] = bench.campaign()
    assert bench.state == ("candidate", 4, -1)
    assert asked.question == VoteAsked(4, key(1), key(2), *END, False)
    assert bench.stored[-1] == ElectionState(4, -1, *key(1))


def test_a_majority_of_votes_makes_a_leader_that_says_so() -> None:
    bench = VoterBench()
    said = bench.win()
    assert bench.state == ("leader", 4, 1)
    assert bench.stored[-1] == ElectionState(4, 1)
    assert [letter.question for letter in said] == [
        EpochBegun(4, 1, key(2), address(1)),
        EpochBegun(4, 1, key(3), address(1)),
    ]


def test_two_of_five_votes_are_not_enough() -> None:
    bench = VoterBench(voters=5)
    pre_votes = bench.stand()
    bench.answer(pre_votes[0], GRANTED)
    assert bench.state == ("prospective", 3, -1)
    bench.answer(pre_votes[1], GRANTED)
    assert bench.state == ("candidate", 4, -1)


def test_the_sole_voter_elects_itself_at_once() -> None:
    assert VoterBench(voters=1).state == ("leader", 4, 1)


@pytest.mark.parametrize("pre_vote", [True, False])
def test_the_sole_voter_leads_again_after_hearing_of_a_later_epoch(pre_vote: bool) -> None:
    bench = VoterBench(voters=1)
    bench.ask_vote(2, 9, pre_vote=pre_vote)
    bench.wait_until_due()
    assert bench.state == ("leader", 10, 1)


def test_a_replica_without_a_vote_never_stands() -> None:
    bench = VoterBench(voters=1, own=2)
    bench.ask_vote(3, 9)
    bench.wait(10 * TIMEOUTS.election_ms)
    assert bench.state == ("unattached", 9, -1)


def test_who_is_not_encouraged_stays_in_its_epoch() -> None:
    bench = VoterBench()
    for letter in bench.stand():
        bench.answer(letter, REFUSED)
    assert bench.state == ("unattached", 3, -1)


def test_who_is_not_encouraged_goes_back_to_its_leader() -> None:
    bench = VoterBench()
    bench.follow(2, 5)
    for letter in bench.stand():
        bench.answer(letter, REFUSED)
    assert bench.state == ("follower", 5, 2)
    assert bench.elections.leader_address == address(2)


def test_a_candidate_that_lost_waits_out_its_time_before_it_stands_again() -> None:
    bench = VoterBench()
    for letter in bench.campaign():
        bench.answer(letter, REFUSED)
    bench.wait(1499)
    assert bench.state == ("candidate", 4, -1)
    bench.wait(1)
    assert bench.state == ("prospective", 4, -1)


def test_a_voter_that_knows_no_pre_votes_is_asked_for_its_vote() -> None:
    bench = VoterBench()
    bench.answer(bench.stand()[0], REFUSED, ErrorCode.unsupported_version)
    assert bench.state == ("candidate", 4, -1)


def test_a_question_that_was_lost_is_asked_again_after_the_retry_backoff() -> None:
    bench = VoterBench()
    [lost, _] = bench.stand()
    bench.elections.unanswered(lost, bench.now)
    bench.wait(19)
    assert bench.letters() == []
    bench.wait(1)
    assert bench.letters() == [lost]


def test_answers_to_questions_of_an_earlier_epoch_do_not_count() -> None:
    bench = VoterBench()
    pre_votes = bench.stand()
    bench.ask_vote(2, 7)
    for letter in pre_votes:
        bench.answer(letter, GRANTED)
    assert bench.state == ("unattached", 7, -1)


def test_a_voter_counts_once() -> None:
    bench = VoterBench(voters=5)
    [first, *_] = bench.stand()
    bench.answer(first, GRANTED)
    bench.answer(first, GRANTED)
    assert bench.state == ("prospective", 3, -1)


# Voting


def test_a_vote_is_on_disk_before_it_is_given_and_given_once_in_an_epoch() -> None:
    bench = VoterBench()
    assert bench.ask_vote(2, 4).granted
    assert bench.stored[-1] == ElectionState(4, -1, *key(2))
    assert not bench.ask_vote(3, 4).granted
    assert bench.ask_vote(2, 4).granted, "the answer may have been lost"


def test_a_vote_outlives_a_restart() -> None:
    bench = VoterBench(stored=ElectionState(4, -1, *key(2)))
    assert not bench.ask_vote(3, 4).granted
    assert bench.ask_vote(2, 4).granted


@pytest.mark.parametrize("last", [LogEnd(2, 99), LogEnd(3, 49)])
@pytest.mark.parametrize("pre_vote", [False, True])
def test_nobody_with_less_of_the_log_gets_a_vote(last: LogEnd, pre_vote: bool) -> None:
    assert not VoterBench().ask_vote(2, 4, last=last, pre_vote=pre_vote).granted


@pytest.mark.parametrize("last", [LogEnd(3, 50), LogEnd(3, 51), LogEnd(4, 1)])
def test_who_has_as_much_of_the_log_gets_a_vote(last: LogEnd) -> None:
    assert VoterBench().ask_vote(2, 5, last=last).granted


def test_a_later_epoch_is_adopted_whether_the_vote_is_given_or_not() -> None:
    bench = VoterBench()
    answer = bench.ask_vote(2, 9, last=LogEnd(1, 1))
    assert (answer.granted, answer.epoch) == (False, 9)
    assert bench.stored[-1] == ElectionState(9)


def test_an_earlier_epoch_is_fenced() -> None:
    bench = VoterBench()
    assert bench.ask_vote(2, 2, last=LogEnd(1, 1)).error == ErrorCode.fenced_leader_epoch
    begun = EpochBegun(2, 2, key(1), address(2))
    assert bench.elections.epoch_begun(begun, bench.now).error == ErrorCode.fenced_leader_epoch
    ended = EpochEnded(2, 2, ())
    assert bench.elections.epoch_ended(ended, bench.now).error == ErrorCode.fenced_leader_epoch


@pytest.mark.parametrize(
    ("epoch", "last", "pre_vote"),
    [
        (4, LogEnd(4, 60), False),
        (4, LogEnd(5, 60), True),
        (4, LogEnd(-1, 60), False),
        (4, LogEnd(3, -1), False),
    ],
)
def test_a_candidate_whose_log_cannot_be_is_refused(
    epoch: int, last: LogEnd, pre_vote: bool
) -> None:
    answer = VoterBench().ask_vote(2, epoch, last=last, pre_vote=pre_vote)
    assert answer.error == ErrorCode.invalid_request


def test_a_question_meant_for_another_replica_is_refused() -> None:
    other_directory = ReplicaKey(1, UUID(int=5))
    for voter in (key(2), other_directory):
        assert VoterBench().ask_vote(2, 4, voter=voter).error == ErrorCode.invalid_voter_key
    for untold in (ReplicaKey(1), ReplicaKey(-1)):
        assert VoterBench().ask_vote(2, 4, voter=untold).granted


def test_pre_votes_are_given_to_any_number_and_change_nothing() -> None:
    bench = VoterBench()
    assert bench.ask_vote(2, 3, pre_vote=True).granted
    assert bench.ask_vote(3, 3, pre_vote=True).granted
    assert bench.stored == [ElectionState(epoch=3)]


def test_a_follower_of_a_leader_that_answers_encourages_nobody() -> None:
    bench = VoterBench()
    bench.follow(2, 5)
    assert bench.ask_vote(3, 5, pre_vote=True).granted, "it has not heard of its leader yet"
    bench.elections.leader_answered(bench.now)
    assert not bench.ask_vote(3, 5, pre_vote=True).granted
    bench.elections.leader_hung_up(bench.now)
    assert bench.ask_vote(3, 5, pre_vote=True).granted


@pytest.mark.parametrize("become", [VoterBench.campaign, VoterBench.win])
def test_candidates_and_leaders_vote_for_nobody_else(
    become: Callable[[VoterBench], object],
) -> None:
    bench = VoterBench()
    become(bench)
    assert not bench.ask_vote(2, 4).granted


def test_a_leader_encourages_nobody_and_a_candidate_everybody() -> None:
    candidate, leader = VoterBench(), VoterBench()
    candidate.campaign()
    leader.win()
    assert candidate.ask_vote(2, 4, pre_vote=True).granted
    assert not leader.ask_vote(2, 4, pre_vote=True).granted


def test_a_known_leader_leaves_no_vote_in_its_epoch() -> None:
    bench = VoterBench(stored=ElectionState(4, 2))
    assert not bench.ask_vote(3, 4).granted


# Following


def test_an_epoch_with_two_leaders_stops_the_node() -> None:
    bench = VoterBench()
    bench.follow(2, 5)
    with pytest.raises(InvariantBroken):
        bench.elections.epoch_begun(EpochBegun(5, 3, key(1), address(3)), bench.now)


@pytest.mark.parametrize("become", [VoterBench.win, lambda bench: resign(bench)])
def test_another_leader_of_an_epoch_that_this_node_led_stops_it(
    become: Callable[[VoterBench], object],
) -> None:
    bench = VoterBench()
    become(bench)
    with pytest.raises(InvariantBroken):
        bench.elections.epoch_begun(EpochBegun(4, 3, key(1), address(3)), bench.now)


def resign(bench: VoterBench) -> None:
    bench.win()
    bench.elections.resign(bench.now)


def test_a_follower_stands_when_its_leader_was_silent_for_the_fetch_timeout() -> None:
    bench = VoterBench()
    bench.follow(2, 5)
    bench.wait(1000)
    bench.elections.leader_answered(bench.now)
    bench.wait(1999)
    assert bench.state == ("follower", 5, 2)
    bench.wait(1)
    assert bench.state == ("prospective", 5, 2)


@pytest.mark.parametrize(("own", "leader", "waits_ms"), [(1, 3, 100), (2, 3, 200), (3, 1, 200)])
def test_voters_whose_leader_hung_up_stand_one_after_the_other(
    own: int, leader: int, waits_ms: int
) -> None:
    bench = VoterBench(own=own)
    begun = EpochBegun(5, leader, key(own), address(leader))
    bench.elections.epoch_begun(begun, bench.now)
    bench.elections.leader_answered(bench.now)
    bench.elections.leader_hung_up(bench.now)
    bench.wait(waits_ms - 1)
    assert bench.state[0] == "follower"
    bench.wait(1)
    assert bench.state[0] == "prospective"
    assert bench.elections.lost_leader == leader


def test_a_leader_that_answers_again_is_not_lost() -> None:
    bench = VoterBench()
    bench.follow(2, 5)
    bench.elections.leader_hung_up(bench.now)
    bench.elections.leader_answered(bench.now)
    bench.wait(1999)
    assert bench.state == ("follower", 5, 2)
    assert bench.elections.lost_leader is None


def test_without_a_grace_time_a_closed_connection_tells_nothing() -> None:
    assert QuorumTimeouts(disconnect_grace_ms=0).after_hang_up(0, 2) is None


# Resigning


@pytest.mark.parametrize(
    ("rank", "successors", "waits_ms"),
    [(0, 3, 0), (1, 3, 250), (2, 3, 500), (1, 2, 500), (None, 3, 1000), (4, 5, 496)],
)
def test_successors_of_a_leader_that_resigned_wait_by_their_rank(
    rank: int | None, successors: int, waits_ms: int
) -> None:
    assert TIMEOUTS.after_resignation(rank, successors) == waits_ms


def test_the_first_successor_stands_at_once_and_is_encouraged_by_the_others() -> None:
    first, second = VoterBench(), VoterBench()
    for bench, successors in ((first, (1, 3)), (second, (3, 1))):
        bench.follow(2, 5)
        bench.elections.leader_answered(bench.now)
        ended = EpochEnded(5, 2, tuple(map(key, successors)), address(2))
        assert bench.elections.epoch_ended(ended, bench.now).error == ErrorCode.none
        bench.wait(0)
    assert first.state == ("prospective", 5, 2)
    assert second.state == ("follower", 5, 2)
    assert second.ask_vote(3, 5, pre_vote=True).granted


@pytest.mark.parametrize("begin", [VoterBench.wait_until_due, VoterBench.campaign, None])
def test_a_voter_that_is_removed_while_it_waits_leaves_elections_to_the_others(
    begin: Callable[[VoterBench], object] | None,
) -> None:
    bench = VoterBench()
    if begin is not None:
        begin(bench)
    bench.members = VoterSet(1, (member(2), member(3)))
    bench.letters()
    bench.wait(60_000)

    assert bench.state[0] == "unattached"
    assert bench.elections.due_ms == NEVER_MS
    assert bench.letters() == []


def test_a_leader_without_a_majority_resigns_and_says_so() -> None:
    bench = VoterBench()
    bench.win()
    bench.wait(2999)
    assert bench.state == ("leader", 4, 1)
    bench.letters()
    bench.wait(1)
    assert bench.state == ("resigned", 4, -1)
    said = [letter.question for letter in bench.letters()]
    assert said == [EpochEnded(4, 1, (key(2), key(3)), address(1))] * 2


def test_who_resigned_begins_a_new_epoch_when_nobody_else_does() -> None:
    bench = VoterBench()
    bench.win()
    bench.elections.resign(bench.now)
    bench.wait(1499)
    assert bench.state == ("resigned", 4, -1)
    bench.wait(1)
    assert bench.state == ("unattached", 5, -1)
    assert bench.stored[-1] == ElectionState(5)


# Starting again


def test_nobody_leads_an_epoch_again_after_a_restart() -> None:
    bench = VoterBench(stored=ElectionState(7, 1))
    assert bench.state == ("resigned", 7, -1)
    assert not bench.ask_vote(2, 7).granted
    bench.wait_until_due()
    assert bench.state == ("unattached", 8, -1)


def test_an_epoch_in_the_log_is_adopted_when_the_stored_one_is_earlier() -> None:
    bench = VoterBench(stored=ElectionState(2, 2, *key(2)))
    assert bench.state == ("unattached", 3, -1)
    assert bench.stored[-1] == ElectionState(3)


def test_a_leader_that_was_known_is_remembered_but_has_to_be_found_anew() -> None:
    bench = VoterBench(stored=ElectionState(5, 2))
    assert bench.state == ("unattached", 5, 2)
    assert bench.elections.leader_address is None
    bench.elections.heard_of(5, 2, None, bench.now)
    assert bench.elections.leader_address == address(2)
