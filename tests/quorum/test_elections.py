"""How one voter stands for election and votes for others, seen from outside."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from tests.quorum.voter_bench import END, GRANTED, REFUSED, TIMEOUTS, VoterBench, address, key

from tidelog.model.errors import ErrorCode
from tidelog.quorum.election_state import ElectionState
from tidelog.quorum.messages import BeginQuorumEpoch, EndQuorumEpoch, LogEnd, ReplicaKey, Vote

# Standing


def test_a_voter_that_just_started_asks_soon_whether_it_is_needed() -> None:
    bench = VoterBench()
    assert bench.state == ("unattached", 3, -1)
    bench.wait(49)
    assert bench.requests() == []
    bench.wait(1)
    assert bench.state == ("prospective", 3, -1)
    assert [request.to.voter_id for request in bench.requests()] == [2, 3]


def test_a_pre_vote_asks_in_the_epoch_it_would_leave_and_binds_nobody() -> None:
    bench = VoterBench()
    [asked, _] = bench.stand()
    assert asked.request == Vote(3, key(1), key(2), *END, True)
    assert bench.stored == ElectionState(epoch=3)


def test_a_majority_of_pre_votes_makes_a_candidate_that_voted_for_itself_on_disk() -> None:
    bench = VoterBench()
    [asked, _] = bench.campaign()
    assert bench.state == ("candidate", 4, -1)
    assert asked.request == Vote(4, key(1), key(2), *END, False)
    assert bench.stored == ElectionState(4, -1, *key(1))


def test_a_majority_of_votes_makes_a_leader_that_says_so() -> None:
    bench = VoterBench()
    said = bench.win()
    assert bench.state == ("leader", 4, 1)
    assert bench.stored == ElectionState(4, 1)
    assert [request.request for request in said] == [
        BeginQuorumEpoch(4, 1, key(2), address(1)),
        BeginQuorumEpoch(4, 1, key(3), address(1)),
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
    bench.ask_vote(3, 9, voter=key(2))
    bench.wait(10 * TIMEOUTS.election_ms)
    assert bench.state == ("unattached", 9, -1)


def test_who_is_not_encouraged_stays_in_its_epoch() -> None:
    bench = VoterBench()
    for request in bench.stand():
        bench.answer(request, REFUSED)
    assert bench.state == ("unattached", 3, -1)


def test_who_is_not_encouraged_goes_back_to_its_leader() -> None:
    bench = VoterBench()
    bench.follow(2, 5)
    for request in bench.stand():
        bench.answer(request, REFUSED)
    assert bench.state == ("follower", 5, 2)
    assert bench.elections.leader_address == address(2)


def test_a_candidate_that_lost_waits_out_its_time_before_it_stands_again() -> None:
    bench = VoterBench()
    for request in bench.campaign():
        bench.answer(request, REFUSED)
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
    bench.elections.request_failed(lost, bench.now)
    bench.wait(19)
    assert bench.requests() == []
    bench.wait(1)
    assert bench.requests() == [lost]


def test_answers_to_questions_of_an_earlier_epoch_do_not_count() -> None:
    bench = VoterBench()
    pre_votes = bench.stand()
    bench.ask_vote(2, 7)
    for request in pre_votes:
        bench.answer(request, GRANTED)
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
    assert bench.stored == ElectionState(4, -1, *key(2))
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
    assert bench.stored == ElectionState(9)


def test_an_earlier_epoch_is_fenced() -> None:
    bench = VoterBench()
    assert bench.ask_vote(2, 2, last=LogEnd(1, 1)).error == ErrorCode.fenced_leader_epoch
    begun = BeginQuorumEpoch(2, 2, key(1), address(2))
    assert (
        bench.elections.handle_begin_quorum_epoch(begun, bench.now).error
        == ErrorCode.fenced_leader_epoch
    )
    ended = EndQuorumEpoch(2, 2, ())
    assert (
        bench.elections.handle_end_quorum_epoch(ended, bench.now).error
        == ErrorCode.fenced_leader_epoch
    )


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
    assert bench.stored == ElectionState(epoch=3)


def test_a_follower_of_a_leader_that_answers_encourages_nobody() -> None:
    bench = VoterBench()
    bench.follow(2, 5)
    assert bench.ask_vote(3, 5, pre_vote=True).granted, "it has not heard of its leader yet"
    bench.elections.leader_answered(bench.now)
    assert not bench.ask_vote(3, 5, pre_vote=True).granted
    bench.elections.leader_disconnected(bench.now)
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
