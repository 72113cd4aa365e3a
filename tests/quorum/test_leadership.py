"""How one voter follows a leader, loses it, resigns and starts again, seen from outside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.quorum.voter_bench import TIMEOUTS, VoterBench, address, key

from tidelog.model.errors import ErrorCode
from tidelog.quorum.election_state import ElectionState
from tidelog.quorum.messages import BeginQuorumEpoch, EndQuorumEpoch
from tidelog.quorum.timeouts import NEVER_MS, QuorumTimeouts

# Following


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
    begun = BeginQuorumEpoch(5, leader, key(own), address(leader))
    bench.elections.handle_begin_quorum_epoch(begun, bench.now)
    bench.elections.leader_answered(bench.now)
    bench.elections.leader_disconnected(bench.now)
    bench.wait(waits_ms - 1)
    assert bench.state[0] == "follower"
    bench.wait(1)
    assert bench.state[0] == "prospective"
    assert bench.elections.take_lost_leader() == leader


def test_a_leader_that_answers_again_is_not_lost() -> None:
    bench = VoterBench()
    bench.follow(2, 5)
    bench.elections.leader_disconnected(bench.now)
    bench.elections.leader_answered(bench.now)
    bench.wait(1999)
    assert bench.state == ("follower", 5, 2)
    assert bench.elections.take_lost_leader() is None


def test_without_a_grace_time_a_closed_connection_tells_nothing() -> None:
    assert QuorumTimeouts(disconnect_grace_ms=0).after_disconnect(0, 2) is None


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
        ended = EndQuorumEpoch(5, 2, tuple(map(key, successors)), address(2))
        assert bench.elections.handle_end_quorum_epoch(ended, bench.now).error == ErrorCode.none
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
    bench.voters_become(2, 3)
    bench.requests()
    bench.wait(60_000)

    assert bench.state[0] == "unattached"
    assert bench.elections.due_ms == NEVER_MS
    assert bench.requests() == []


def test_a_leader_without_a_majority_resigns_and_says_so() -> None:
    bench = VoterBench()
    bench.win()
    bench.wait(2999)
    assert bench.state == ("leader", 4, 1)
    bench.requests()
    bench.wait(1)
    assert bench.state == ("resigned", 4, -1)
    said = [request.request for request in bench.requests()]
    assert said == [EndQuorumEpoch(4, 1, (key(2), key(3)), address(1))] * 2


def test_who_resigned_begins_a_new_epoch_when_nobody_else_does() -> None:
    bench = VoterBench()
    bench.win()
    bench.elections.resign(bench.now)
    bench.wait(1499)
    assert bench.state == ("resigned", 4, -1)
    bench.wait(1)
    assert bench.state == ("unattached", 5, -1)
    assert bench.stored == ElectionState(5)


def test_a_leader_that_lost_its_vote_does_not_forget_on_disk_that_it_led() -> None:
    """Or it could vote in its own epoch, had a loss of power taken its log from it as well."""
    bench = VoterBench()
    bench.win()
    bench.voters_become(2, 3)
    bench.elections.resign(bench.now)
    bench.wait(60_000)
    assert bench.state == ("unattached", 4, -1)
    assert bench.stored == ElectionState(4, 1)


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
    assert bench.stored == ElectionState(3)


def test_a_leader_that_was_known_is_remembered_but_has_to_be_found_anew() -> None:
    bench = VoterBench(stored=ElectionState(5, 2))
    assert bench.state == ("unattached", 5, 2)
    assert bench.elections.leader_address is None
    bench.elections.heard_of(5, 2, None, bench.now, asked=True)
    assert bench.elections.leader_address == address(2)
