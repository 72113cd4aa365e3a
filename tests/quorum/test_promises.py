"""What a voter promises while its disk takes its time: nobody hears of it before it is durable."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.quorum.conftest import DIRECTORY_ID, ENDPOINT, OpenQuorum, formatted

from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.election_state import ElectionState, read_election_state
from tidelog.quorum.messages import EpochBegun, QuorumAnswer, ReplicaKey, VoteAsked
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.roles import Candidate
from tidelog.quorum.serving import MetadataFetch

DIRECTORY = "/data/__cluster_metadata-0"
OTHER, THIRD = ReplicaKey(2, UUID(int=2002)), ReplicaKey(3, UUID(int=2003))
SOON = Now(100_000, 1000)


def voter(key: ReplicaKey) -> Voter:
    endpoint = VoterEndpoint(name=ENDPOINT.name, host=f"node-{key.id}", port=9093)
    return Voter(voter_id=key.id, voter_directory_id=key.directory_id, endpoints=(endpoint,))


OWN = ReplicaKey(1, DIRECTORY_ID)


@pytest.fixture
def quorum(open_quorum: OpenQuorum) -> Quorum[str]:
    files = formatted(tuple(map(voter, (OWN, OTHER, THIRD))))
    quorum = open_quorum(files, promises_by_jobs=True)
    quorum.start(Now(0, 1000))
    return quorum


def keep(quorum: Quorum[str], now: Now) -> None:
    job = quorum.promise_job()
    assert job is not None
    assert quorum.promise_job() is None, "one promise is written at a time"
    job.run()
    quorum.promise_kept(job, now)


def asked(candidate: ReplicaKey, epoch: int) -> VoteAsked:
    return VoteAsked(epoch, candidate, OWN, 0, 0, False)


def stored(quorum: Quorum[str]) -> ElectionState:
    return read_election_state(quorum._files, DIRECTORY)


def test_a_vote_is_owed_until_it_is_on_disk_and_binds_at_once(quorum: Quorum[str]) -> None:
    syncs = quorum._files.sync_count  # type: ignore[attr-defined]
    assert quorum.vote_asked(asked(OTHER, 5), SOON).granted
    assert quorum.owes_promise
    assert quorum._files.sync_count == syncs  # type: ignore[attr-defined]
    assert not quorum.vote_asked(asked(THIRD, 5), SOON).granted
    assert quorum.wants() is None
    assert quorum.answer_for(MetadataFetch(3)).leader_epoch == 0

    keep(quorum, SOON)

    assert not quorum.owes_promise
    assert (stored(quorum).epoch, stored(quorum).voted_id) == (5, 2)
    assert quorum.answer_for(MetadataFetch(3)).leader_epoch == 5


def test_a_promise_made_while_another_is_written_is_owed_as_well(quorum: Quorum[str]) -> None:
    quorum.vote_asked(asked(OTHER, 5), SOON)
    job = quorum.promise_job()
    assert job is not None
    quorum.vote_asked(asked(THIRD, 6), SOON)
    job.run()
    quorum.promise_kept(job, SOON)
    assert quorum.owes_promise

    keep(quorum, SOON)

    assert (stored(quorum).epoch, stored(quorum).voted_id) == (6, 3)
    assert not quorum.owes_promise


def test_a_candidate_asks_nobody_before_its_own_vote_is_on_disk_and_leads_only_after_that(
    quorum: Quorum[str],
) -> None:
    quorum.time_passed(SOON)
    for letter in quorum.take_letters():
        quorum.answered(letter, QuorumAnswer(0, 0, -1, None, True), SOON)
    assert isinstance(quorum.role, Candidate)
    assert quorum.take_letters() == []
    keep(quorum, SOON)
    letters = quorum.take_letters()
    assert [letter.question.epoch for letter in letters] == [1, 1]
    end = quorum.end_offset

    quorum.answered(letters[0], QuorumAnswer(0, 1, -1, None, True), SOON)
    assert (quorum.is_leader, quorum.end_offset) == (False, end)
    keep(quorum, SOON)

    assert quorum.is_leader
    assert stored(quorum) == ElectionState(1, 1)
    assert quorum.end_offset > end


def test_a_candidate_that_hears_of_a_leader_meanwhile_does_not_lead(quorum: Quorum[str]) -> None:
    quorum.time_passed(SOON)
    for letter in quorum.take_letters():
        quorum.answered(letter, QuorumAnswer(0, 0, -1, None, True), SOON)
    keep(quorum, SOON)
    letters = quorum.take_letters()
    quorum.answered(letters[0], QuorumAnswer(0, 1, -1, None, True), SOON)
    job = quorum.promise_job()
    assert job is not None
    quorum.epoch_begun(EpochBegun(2, 3, OWN, ("node-3", 9093)), SOON)
    job.run()
    quorum.promise_kept(job, SOON)

    assert (quorum.is_leader, quorum.leader_id, quorum.epoch) == (False, 3, 2)
    assert quorum.wants() is None
    keep(quorum, SOON)
    assert quorum.wants() is not None
