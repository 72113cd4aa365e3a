"""What cannot be true: a request that says so is refused, an answer as good as lost, and the voter
goes on as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias
from uuid import UUID

import pytest
from tests.quorum.voter_bench import END, GRANTED, TIMEOUTS, VoterBench, address, key

from tidelog.model.errors import DiskError, ErrorCode, Refusal
from tidelog.quorum.batches import record_batch
from tidelog.quorum.control_records import KRaftVersionRange, Voter, VoterEndpoint
from tidelog.quorum.election_state import ElectionState
from tidelog.quorum.fetching import MetadataFetch, MetadataFetchResponse
from tidelog.quorum.messages import (
    EPOCH_MAX,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    QuorumResponse,
    ReplicaKey,
    Vote,
)
from tidelog.quorum.metadata_replica import LostCommittedMetadata
from tidelog.quorum.quorum import AfterFetch
from tidelog.quorum.snapshots import SnapshotId, read_snapshot
from tidelog.quorum.voters import UpdateVoter
from tidelog.records.builder import NewRecord, build_batch
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem

Words: TypeAlias = BeginQuorumEpoch | EndQuorumEpoch
FAR: Final = 1 << 30


def said(bench: VoterBench, words: Words) -> QuorumResponse:
    if isinstance(words, BeginQuorumEpoch):
        return bench.elections.handle_begin_quorum_epoch(words, bench.now)
    return bench.elections.handle_end_quorum_epoch(words, bench.now)


def words_of(epoch: int, leader_id: int) -> tuple[Words, ...]:
    """Addressed to this replica, and to nobody."""
    return (
        BeginQuorumEpoch(epoch, leader_id, key(1), address(3)),
        BeginQuorumEpoch(epoch, leader_id, ReplicaKey(-1), address(3)),
        EndQuorumEpoch(epoch, leader_id, (key(1),), address(3)),
    )


def answer(bench: VoterBench, epoch: int, leader_id: int) -> None:
    """The first of those whom it asks says so."""
    sent = bench.stand()[0]
    response = QuorumResponse(ErrorCode.none, epoch, leader_id, address(3))
    bench.elections.handle_response(sent, response, bench.now)


# Another leader


def follow(bench: VoterBench) -> None:
    bench.follow(2, 4)


def fetch(bench: VoterBench) -> None:
    bench.follow(2, 4)
    bench.elections.leader_answered(bench.now)


def resign(bench: VoterBench) -> None:
    bench.win()
    bench.elections.resign(bench.now)


@pytest.mark.parametrize("become", [follow, fetch, VoterBench.win, resign])
@pytest.mark.parametrize("words", words_of(4, 3))
def test_a_request_that_names_another_leader_of_an_epoch_is_refused(
    become: Callable[[VoterBench], object], words: Words
) -> None:
    bench = VoterBench()
    become(bench)
    before, due_ms = (bench.state, bench.stored), bench.quorum.role.due_ms

    response = said(bench, words)

    assert (response.error, response.epoch) == (ErrorCode.invalid_request, -1)
    assert ((bench.state, bench.stored), bench.quorum.role.due_ms) == (before, due_ms)


@pytest.mark.parametrize("words", words_of(4, 3))
def test_who_was_elected_follows_nobody_in_its_epoch_while_its_disk_does_not_know_it(
    words: Words,
) -> None:
    bench = VoterBench(writes_by_jobs=True)
    pre_vote = bench.stand()[0]
    bench.answer(pre_vote, GRANTED)
    write(bench)
    bench.answer(bench.requests()[0], GRANTED)
    assert bench.state == ("candidate", 4, -1)

    assert said(bench, words).error == ErrorCode.invalid_request

    write(bench)
    assert bench.state == ("leader", 4, 1)


def write(bench: VoterBench) -> None:
    job = bench.quorum.state.write_job()
    assert job is not None
    job.run()
    bench.elections.election_state_written(job, bench.now)


def test_an_answer_that_names_another_leader_than_the_one_that_gives_is_not_used() -> None:
    bench = VoterBench()
    fetch(bench)
    sync(bench)
    asked = bench.quorum.next_fetch()
    assert asked is not None
    words = MetadataFetchResponse[memoryview](
        leader_id=3, leader_epoch=4, leader_address=address(3), high_watermark=50
    )
    assert bench.quorum.handle_fetch_response(asked, words, bench.now) is AfterFetch.DISBELIEVE
    assert bench.state == ("follower", 4, 2)
    assert bench.quorum.replica.high_watermark == 0


def test_a_leader_learns_of_no_other_in_its_epoch_and_asks_again() -> None:
    bench = VoterBench()
    sent = bench.win()[0]
    response = QuorumResponse(ErrorCode.none, 4, 3, address(3))
    bench.elections.handle_response(sent, response, bench.now)
    assert bench.state == ("leader", 4, 1)


def test_a_vote_whose_answer_cannot_be_is_asked_for_again() -> None:
    bench = VoterBench()
    answer(bench, EPOCH_MAX, -1)
    assert bench.requests() == []
    bench.wait(TIMEOUTS.retry_ms)
    assert [sent.to.voter_id for sent in bench.requests()] == [2]
    assert bench.state == ("prospective", 3, -1)


def test_a_leader_that_was_only_named_yields_to_what_an_answer_says() -> None:
    bench = VoterBench()
    stranger = BeginQuorumEpoch(4, 77, ReplicaKey(-1), ("nowhere", 1))
    assert said(bench, stranger).error == ErrorCode.none
    assert bench.state == ("follower", 4, 77)

    answer(bench, 4, 3)

    assert bench.state == ("follower", 4, 3)
    assert bench.stored == ElectionState(4, 3)


def test_a_leader_that_was_only_named_is_no_hindrance_after_a_restart() -> None:
    bench = VoterBench(stored=ElectionState(4, 77))
    answer(bench, 4, 3)
    assert bench.state == ("follower", 4, 3)


# Ids


@pytest.mark.parametrize("leader_id", [-1, -2])
def test_a_leader_without_an_id_is_refused(leader_id: int) -> None:
    for words in words_of(9, leader_id):
        bench = VoterBench()
        assert said(bench, words).error == ErrorCode.invalid_request
        assert bench.state == ("unattached", 3, -1)


@pytest.mark.parametrize("epoch", [3, 9])
def test_nobody_else_leads_under_the_id_of_this_node(epoch: int) -> None:
    for words in words_of(epoch, 1):
        bench = VoterBench()
        assert said(bench, words).error == ErrorCode.invalid_request
        assert bench.state == ("unattached", 3, -1)


def test_an_answer_that_has_this_node_lead_tells_the_epoch_and_no_more() -> None:
    bench = VoterBench()
    answer(bench, 9, 1)
    assert bench.state == ("unattached", 9, -1)


def test_an_answer_with_a_leader_without_an_id_tells_the_epoch_and_no_more() -> None:
    bench = VoterBench()
    answer(bench, 9, -7)
    assert bench.state == ("unattached", 9, -1)
    assert bench.stored == ElectionState(9)


def test_a_candidate_without_an_id_gets_no_vote() -> None:
    for candidate in (ReplicaKey(-1), ReplicaKey(-1, UUID(int=5)), ReplicaKey(-2)):
        bench = VoterBench()
        asked = Vote(4, candidate, key(1), *END, False)
        assert bench.elections.handle_vote(asked, bench.now).error == ErrorCode.invalid_request
        assert bench.state == ("unattached", 3, -1)


def test_a_vote_for_a_replica_is_none_for_another_with_its_id() -> None:
    bench = VoterBench()
    for candidate, granted in (
        (key(2), True),
        (key(2), True),
        (ReplicaKey(2), False),
        (ReplicaKey(2, UUID(int=5)), False),
    ):
        asked = Vote(4, candidate, key(1), *END, False)
        assert bench.elections.handle_vote(asked, bench.now).granted is granted
    assert bench.stored == ElectionState(4, -1, *key(2))


# Epochs


@pytest.mark.parametrize(("known", "epoch"), [(3, FAR + 1), (3, EPOCH_MAX), (FAR, FAR + 1025)])
def test_an_epoch_far_from_all_that_are_known_is_not_adopted(known: int, epoch: int) -> None:
    bench = VoterBench(stored=ElectionState(known))
    for words in words_of(epoch, 3):
        assert said(bench, words).error == ErrorCode.invalid_request
    for pre_vote in (True, False):
        assert bench.ask_vote(3, epoch, pre_vote=pre_vote).error == ErrorCode.invalid_request
    answer(bench, epoch, 3)
    assert bench.stored == ElectionState(known)


@pytest.mark.parametrize(("known", "epoch"), [(3, FAR), (FAR, FAR + 1024)])
def test_an_epoch_that_can_be_is_adopted(known: int, epoch: int) -> None:
    bench = VoterBench(stored=ElectionState(known))
    assert bench.ask_vote(3, epoch).granted


@pytest.mark.parametrize("voters", [1, 3])
@pytest.mark.parametrize("leader", [-1, 1, 2])
def test_in_the_last_epoch_of_all_nobody_stands(voters: int, leader: int) -> None:
    bench = VoterBench(voters=voters, stored=ElectionState(EPOCH_MAX, leader))
    bench.elections.ask_voters(bench.now)
    bench.wait(60_000)
    assert bench.state[:2] == ("unattached", EPOCH_MAX)
    assert bench.requests() == []


def test_a_vote_given_in_another_epoch_does_not_count() -> None:
    bench = VoterBench()
    for sent in bench.campaign():
        response = QuorumResponse(ErrorCode.none, 3, granted=True)
        bench.elections.handle_response(sent, response, bench.now)
    assert bench.state == ("candidate", 4, -1)


# What a leader gives


def given(bench: VoterBench, **what: Any) -> AfterFetch:
    """The leader that it follows answers its fetch."""
    asked = bench.quorum.next_fetch()
    assert asked is not None
    role = bench.quorum.role
    response = MetadataFetchResponse[memoryview](
        leader_id=role.leader_id, leader_epoch=role.epoch, **what
    )
    return bench.quorum.handle_fetch_response(asked, response, bench.now)


@pytest.fixture
def follower() -> VoterBench:
    """With one batch of 50 records, and one record of epoch 4 behind it."""
    bench = VoterBench()
    follow(bench)
    sync(bench)
    batch = record_batch([b"more"], 0, base_offset=50, leader_epoch=4)
    assert given(bench, records=memoryview(batch), high_watermark=0) is AfterFetch.FETCH_AGAIN
    sync(bench)
    return bench


def sync(bench: VoterBench) -> None:
    job = bench.quorum.sync_job()
    if job is not None:
        job.run()
        bench.quorum.synced(job)


@pytest.mark.parametrize("diverging", [(4, -1), (-1, 5), (4, 51), (9, 3), (4, 52), (3, 7)], ids=str)
def test_a_divergence_that_cuts_nothing_or_tears_a_batch_is_not_followed(
    follower: VoterBench, diverging: tuple[int, int]
) -> None:
    assert given(follower, diverging=diverging) is AfterFetch.DISBELIEVE
    assert follower.quorum.log.end_offset == 51


def test_a_divergence_at_the_end_of_a_batch_is_followed(follower: VoterBench) -> None:
    assert given(follower, diverging=(3, 50)) is AfterFetch.FETCH_AGAIN
    assert follower.quorum.log.end_offset == 50


def test_a_leader_that_lacks_what_was_committed_stops_the_node(follower: VoterBench) -> None:
    given(follower, high_watermark=51)
    with pytest.raises(LostCommittedMetadata):
        given(follower, diverging=(3, 50))


@pytest.mark.parametrize(
    "snapshot", [(0, 4), (-1, 4), (60, -1), (60, 5), (60, 3), (51, 4), (40, 5)], ids=str
)
def test_a_snapshot_that_the_leader_cannot_have_for_this_log_is_not_fetched(
    follower: VoterBench, snapshot: tuple[int, int]
) -> None:
    assert given(follower, snapshot=SnapshotId(*snapshot)) is AfterFetch.DISBELIEVE


def test_a_snapshot_that_lacks_what_was_committed_is_not_fetched(follower: VoterBench) -> None:
    follower.follow(3, 7)
    assert given(follower, snapshot=SnapshotId(0, 7)) is AfterFetch.DISBELIEVE
    given(follower, high_watermark=51)
    assert given(follower, snapshot=SnapshotId(50, 7)) is AfterFetch.DISBELIEVE
    assert given(follower, snapshot=SnapshotId(51, 7)) is AfterFetch.FETCH_SNAPSHOT


def test_a_leader_that_gives_nothing_of_what_it_calls_committed_is_not_believed(
    follower: VoterBench,
) -> None:
    assert given(follower, high_watermark=52) is AfterFetch.DISBELIEVE
    assert follower.quorum.leader_high_watermark == 0
    assert given(follower, high_watermark=51) is AfterFetch.FETCH_AGAIN
    assert follower.quorum.leader_high_watermark == 51
    assert given(follower, high_watermark=-1) is AfterFetch.FETCH_AGAIN, "it does not know it yet"
    assert follower.quorum.leader_high_watermark == 51


def test_a_hole_in_the_log_is_not_taken(follower: VoterBench) -> None:
    behind = record_batch([b"x"], 0, base_offset=52, leader_epoch=4)
    assert given(follower, records=memoryview(behind)) is AfterFetch.DISBELIEVE
    two = record_batch([b"x"], 0, base_offset=51, leader_epoch=4) + behind[:]
    two[-len(behind) :] = record_batch([b"x"], 0, base_offset=53, leader_epoch=4)
    assert given(follower, records=memoryview(two)) is AfterFetch.DISBELIEVE
    assert follower.quorum.log.end_offset == 51


def unreadable_control_batch(base_offset: int = 0) -> bytearray:
    """Of a kind that nobody knows."""
    record = NewRecord(b"\x00\x00\x00\x63", b"what", 0)
    return build_batch([record], base_offset=base_offset, leader_epoch=4, control=True)


def test_a_control_record_that_nobody_understands_is_never_written(follower: VoterBench) -> None:
    batch = unreadable_control_batch(51)
    assert given(follower, records=memoryview(batch)) is AfterFetch.DISBELIEVE
    assert follower.quorum.log.end_offset == 51
    follower.start()
    assert follower.quorum.log.end_offset == 51


def test_a_snapshot_that_nobody_understands_is_a_damaged_one() -> None:
    files = MemoryFileSystem()
    file = files.open("/snapshot")
    file.append(unreadable_control_batch())
    file.close()
    with pytest.raises(DiskError, match="damaged"):
        read_snapshot(files, "/snapshot")


def test_a_leader_that_gives_nonsense_is_not_heard_and_loses_its_followers(
    follower: VoterBench,
) -> None:
    for _ in range(TIMEOUTS.fetch_ms // 100):
        if follower.state[0] == "follower":
            assert given(follower, diverging=(9, 3)) is AfterFetch.DISBELIEVE
        follower.wait(100)
    assert follower.state == ("prospective", 4, 2)


def test_a_high_watermark_within_a_batch_commits_what_lies_before_the_batch() -> None:
    bench = VoterBench()
    follow(bench)
    sync(bench)
    given(bench, high_watermark=7)
    assert bench.quorum.replica.high_watermark == 0
    given(bench, high_watermark=50)
    assert bench.quorum.replica.high_watermark == 50
    assert len([*bench.quorum.replica.committed_since(0)]) == 50


# What is asked of a leader


@pytest.fixture
def leader() -> VoterBench:
    bench = VoterBench()
    bench.win()
    bench.quorum.append(["a", "b"], bench.now)
    sync(bench)
    return bench


def fetched_by(bench: VoterBench, voter_id: int, offset: int) -> None:
    epoch = 4 if offset > 50 else 3
    asked = MetadataFetch(*key(voter_id), leader_epoch=4, offset=offset, last_epoch=epoch)
    bench.quorum.handle_fetch(asked, bench.now)


def test_a_voter_that_fetches_from_within_a_batch_holds_what_lies_before_it(
    leader: VoterBench,
) -> None:
    end = leader.quorum.log.end_offset
    fetched_by(leader, 2, 51)
    assert not leader.quorum.is_active, "the first batch of its epoch has several records"
    assert leader.quorum.log.boundary(end - 1) == end - 2, "two records in a batch"
    fetched_by(leader, 2, end - 1)
    assert leader.quorum.replica.high_watermark == end - 2
    fetched_by(leader, 2, end)
    assert leader.quorum.replica.high_watermark == end


@pytest.mark.parametrize(
    ("host", "port", "versions"),
    [("", 9093, (0, 1)), ("0.0.0.0", 9093, (0, 1)), ("here", 0, (0, 1)), ("here", 9093, (2, 5))],
)
def test_a_voter_that_cannot_be_found_or_understood_is_not_written_down(
    leader: VoterBench, host: str, port: int, versions: tuple[int, int]
) -> None:
    fetched_by(leader, 2, leader.quorum.log.end_offset)
    before = leader.quorum.voters
    described = Voter(
        voter_id=3,
        voter_directory_id=key(3).directory_id,
        endpoints=(VoterEndpoint(name="CONTROLLER", host=host, port=port),),
        kraft_version_feature=KRaftVersionRange(
            min_supported_version=versions[0], max_supported_version=versions[1]
        ),
    )
    refused = leader.quorum.change_voters(UpdateVoter(described, 4), leader.now)
    assert isinstance(refused, Refusal) and refused.code == ErrorCode.invalid_request
    assert leader.quorum.voters is before
