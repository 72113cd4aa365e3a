"""What a voter is while its disk takes its time: nobody hears of it before it is durable."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.quorum.conftest import DIRECTORY_ID, ENDPOINT, OpenQuorum, formatted

from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.election_state import ElectionState, read_election_state
from tidelog.quorum.fetching import MetadataFetch
from tidelog.quorum.messages import BeginQuorumEpoch, QuorumResponse, ReplicaKey, Vote
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.roles import Candidate

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
    quorum = open_quorum(files, writes_by_jobs=True)
    quorum.start(Now(0, 1000))
    return quorum


def keep(quorum: Quorum[str], now: Now) -> None:
    job = quorum.state.write_job()
    assert job is not None
    assert quorum.state.write_job() is None, "one state is written at a time"
    job.run()
    quorum.elections.election_state_written(job, now)


def asked(candidate: ReplicaKey, epoch: int) -> Vote:
    return Vote(epoch, candidate, OWN, 0, 0, False)


def stored(quorum: Quorum[str]) -> ElectionState:
    return read_election_state(quorum.log._files, DIRECTORY)


def test_nobody_hears_of_a_vote_until_it_is_on_disk_and_it_binds_at_once(
    quorum: Quorum[str],
) -> None:
    syncs = quorum.log._files.sync_count  # type: ignore[attr-defined]
    assert quorum.elections.handle_vote(asked(OTHER, 5), SOON).granted
    assert quorum.state.awaits_disk
    assert quorum.log._files.sync_count == syncs  # type: ignore[attr-defined]
    assert not quorum.elections.handle_vote(asked(THIRD, 5), SOON).granted
    assert quorum.next_fetch() is None
    assert quorum.answer_for(MetadataFetch(3)).leader_epoch == 0

    keep(quorum, SOON)

    assert not quorum.state.awaits_disk
    assert (stored(quorum).epoch, stored(quorum).voted_id) == (5, 2)
    assert quorum.answer_for(MetadataFetch(3)).leader_epoch == 5


def test_a_vote_given_while_another_is_written_waits_for_the_disk_as_well(
    quorum: Quorum[str],
) -> None:
    quorum.elections.handle_vote(asked(OTHER, 5), SOON)
    job = quorum.state.write_job()
    assert job is not None
    quorum.elections.handle_vote(asked(THIRD, 6), SOON)
    job.run()
    quorum.elections.election_state_written(job, SOON)
    assert quorum.state.awaits_disk

    keep(quorum, SOON)

    assert (stored(quorum).epoch, stored(quorum).voted_id) == (6, 3)
    assert not quorum.state.awaits_disk


def test_a_candidate_asks_nobody_before_its_own_vote_is_on_disk_and_leads_only_after_that(
    quorum: Quorum[str],
) -> None:
    quorum.elections.time_passed(SOON)
    for sent in quorum.elections.take_requests():
        quorum.elections.handle_response(sent, QuorumResponse(0, 0, -1, None, True), SOON)
    assert isinstance(quorum.role, Candidate)
    assert quorum.elections.take_requests() == []
    keep(quorum, SOON)
    requests = quorum.elections.take_requests()
    assert [sent.request.epoch for sent in requests] == [1, 1]
    end = quorum.log.end_offset

    quorum.elections.handle_response(requests[0], QuorumResponse(0, 1, -1, None, True), SOON)
    assert (quorum.is_leader, quorum.log.end_offset) == (False, end)
    keep(quorum, SOON)

    assert quorum.is_leader
    assert stored(quorum) == ElectionState(1, 1)
    assert quorum.log.end_offset > end


def test_a_candidate_that_hears_of_a_leader_meanwhile_does_not_lead(quorum: Quorum[str]) -> None:
    quorum.elections.time_passed(SOON)
    for sent in quorum.elections.take_requests():
        quorum.elections.handle_response(sent, QuorumResponse(0, 0, -1, None, True), SOON)
    keep(quorum, SOON)
    requests = quorum.elections.take_requests()
    quorum.elections.handle_response(requests[0], QuorumResponse(0, 1, -1, None, True), SOON)
    job = quorum.state.write_job()
    assert job is not None
    quorum.elections.handle_begin_quorum_epoch(BeginQuorumEpoch(2, 3, OWN, ("node-3", 9093)), SOON)
    job.run()
    quorum.elections.election_state_written(job, SOON)

    assert (quorum.is_leader, quorum.leader_id, quorum.epoch) == (False, 3, 2)
    assert quorum.next_fetch() is None
    keep(quorum, SOON)
    assert quorum.next_fetch() is not None
