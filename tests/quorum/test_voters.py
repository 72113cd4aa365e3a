"""Voters come and go, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.fetching import MetadataFetch
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.timeouts import DEFAULT_TIMEOUTS
from tidelog.quorum.voters import AddVoter, RemoveVoter, UpdateVoter, VoterChange
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem

OpenQuorum = Callable[..., Quorum[str]]
NOW = Now(10, 1000)
OWN = ReplicaKey(1, UUID(int=12345))


def new_voter(voter_id: int = 2, listener: str = "CONTROLLER", port: int = 9093) -> Voter:
    endpoint = VoterEndpoint(name=listener, host=f"node-{voter_id}", port=port)
    return Voter(
        voter_id=voter_id, voter_directory_id=UUID(int=1000 + voter_id), endpoints=(endpoint,)
    )


def sync(quorum: Quorum[str]) -> None:
    while (job := quorum.sync_job()) is not None:
        job.run()
        quorum.synced(job)


@pytest.fixture
def leader(open_quorum: OpenQuorum, files: MemoryFileSystem) -> Quorum[str]:
    """The only voter so far."""
    quorum = open_quorum(files)
    quorum.start(NOW)
    sync(quorum)
    return quorum


def fetch(leader: Quorum[str], voter_id: int = 2, now: Now = NOW) -> None:
    """A node says that it has everything."""
    directory_id = UUID(int=1000 + voter_id)
    asked = MetadataFetch(voter_id, directory_id, leader.epoch, leader.log.end_offset, leader.epoch)
    assert leader.handle_fetch(asked, now).is_fine


def add(leader: Quorum[str], voter_id: int = 2) -> None:
    fetch(leader, voter_id)
    assert isinstance(leader.change_voters(AddVoter(new_voter(voter_id)), NOW), int)
    sync(leader)
    fetch(leader, voter_id)


def refused(leader: Quorum[str], change: VoterChange, now: Now = NOW) -> ErrorCode:
    outcome = leader.change_voters(change, now)
    assert isinstance(outcome, Refusal)
    return outcome.code


def test_a_node_that_has_caught_up_gets_a_vote_which_counts_at_once(leader: Quorum[str]) -> None:
    fetch(leader)
    mark = leader.replica.high_watermark
    leader.change_voters(AddVoter(new_voter()), NOW)
    sync(leader)
    assert leader.voters.voter_ids == (1, 2)
    assert leader.replica.high_watermark == mark, "one of two is no majority"
    fetch(leader)
    assert leader.replica.high_watermark == leader.log.end_offset


def test_a_long_elected_leader_goes_on_leading_when_its_second_voter_joins(
    leader: Quorum[str],
) -> None:
    later = Now(NOW.monotonic_ms + 60_000, NOW.wall_ms + 60_000)
    fetch(leader, now=later)
    assert isinstance(leader.change_voters(AddVoter(new_voter()), later), int)
    leader.elections.time_passed(later)
    assert leader.is_leader, "the new voter has as long as any other to fetch"
    patience_ms = DEFAULT_TIMEOUTS.check_quorum_ms
    leader.elections.time_passed(Now(later.monotonic_ms + patience_ms, later.wall_ms + patience_ms))
    assert not leader.is_leader, "and no longer"


def test_a_node_that_has_not_caught_up_gets_no_vote(leader: Quorum[str]) -> None:
    assert refused(leader, AddVoter(new_voter())) is ErrorCode.request_timed_out
    fetch(leader)
    much_later = Now(4_000_000, 4_000_000)
    assert refused(leader, AddVoter(new_voter()), much_later) is ErrorCode.request_timed_out


def test_one_change_waits_for_the_one_before(leader: Quorum[str]) -> None:
    add(leader)
    fetch(leader, 3)
    leader.change_voters(AddVoter(new_voter(3)), NOW)
    assert refused(leader, RemoveVoter(OWN)) is ErrorCode.request_timed_out


def test_changes_wait_for_the_leaders_own_first_record(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = open_quorum(files)
    quorum.start(NOW)
    assert refused(quorum, AddVoter(new_voter())) is ErrorCode.request_timed_out


def test_a_node_does_not_vote_twice(leader: Quorum[str]) -> None:
    add(leader)
    assert refused(leader, AddVoter(new_voter())) is ErrorCode.duplicate_voter


def test_who_does_not_vote_cannot_be_removed_or_described(leader: Quorum[str]) -> None:
    assert refused(leader, RemoveVoter(ReplicaKey(9))) is ErrorCode.voter_not_found
    other_directory = ReplicaKey(1, UUID(int=5))
    assert refused(leader, RemoveVoter(other_directory)) is ErrorCode.voter_not_found
    assert refused(leader, UpdateVoter(new_voter(), leader.epoch)) is ErrorCode.voter_not_found


def test_the_last_voter_stays(leader: Quorum[str]) -> None:
    assert refused(leader, RemoveVoter(OWN)) is ErrorCode.invalid_request


def test_a_voter_must_be_reachable_for_the_others(leader: Quorum[str]) -> None:
    fetch(leader)
    elsewhere = new_voter(listener="ELSEWHERE")
    assert refused(leader, AddVoter(elsewhere)) is ErrorCode.invalid_request


def test_only_the_leader_changes_voters(open_quorum: OpenQuorum, files: MemoryFileSystem) -> None:
    follower = open_quorum(files, node_id=2)
    follower.start(NOW)
    assert refused(follower, AddVoter(new_voter())) is ErrorCode.not_leader_or_follower


def test_voters_of_the_configuration_do_not_change(
    open_quorum: OpenQuorum, files_without_voters: MemoryFileSystem
) -> None:
    quorum = open_quorum(files_without_voters, static_voters=(new_voter(1),))
    quorum.start(NOW)
    sync(quorum)
    assert refused(quorum, AddVoter(new_voter())) is ErrorCode.unsupported_version


def test_a_voter_that_moved_is_described_anew_in_its_leaders_epoch(leader: Quorum[str]) -> None:
    add(leader)
    moved = new_voter(port=19093)
    assert refused(leader, UpdateVoter(moved, 0)) is ErrorCode.fenced_leader_epoch
    assert refused(leader, UpdateVoter(moved, 9)) is ErrorCode.unknown_leader_epoch
    leader.change_voters(UpdateVoter(moved, leader.epoch), NOW)
    assert leader.voters.by_id(2) == moved


def test_a_leader_that_is_removed_resigns_when_that_is_committed(leader: Quorum[str]) -> None:
    add(leader)
    leader.change_voters(RemoveVoter(OWN), NOW)
    sync(leader)
    leader.elections.time_passed(NOW)
    assert leader.is_leader
    fetch(leader)
    leader.elections.time_passed(Now(leader.elections.due_ms, 0))
    assert leader.role.name == "resigned"
    leader.elections.time_passed(Now(leader.elections.due_ms, 0))
    assert leader.role.name == "unattached", "from now on it follows"
    assert leader.next_fetch() is not None


def test_a_snapshot_waits_until_the_voters_in_it_are_committed(leader: Quorum[str]) -> None:
    add(leader)
    fetch(leader, 3)
    leader.change_voters(AddVoter(new_voter(3)), NOW)
    assert not leader.replica.snapshot_due(Now(4_000_000, 4_000_000))
    sync(leader)
    fetch(leader, 3)
    assert leader.replica.snapshot_due(Now(4_000_000, 4_000_000))
