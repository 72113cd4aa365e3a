"""Whom a voter takes for a voter of its quorum, by what those say whom it asked."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import pytest
from tests.node.node_bench import SETTINGS

from tidelog.model.config import NodeConfig
from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.node.metadata.voter_recognition import ELECTIONS, VoterRecognition
from tidelog.quorum.control_records import Voter
from tidelog.quorum.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    OutboundRequest,
    QuorumRequest,
    QuorumResponse,
    ReplicaKey,
    Vote,
)
from tidelog.quorum.voters import VoterSet

CONFIG: Final = NodeConfig.from_properties(SETTINGS)
PATIENCE_MS: Final = ELECTIONS * CONFIG.controller_quorum_election_timeout_ms
START: Final = Now(1000, 0)
SOON: Final = Now(1001, 0)
LATE: Final = Now(1001 + PATIENCE_MS, 0)
OTHER: Final = 100
"""Added to the number of a directory gives another one."""


def voter(node_id: int, directory: int = 0) -> Voter:
    return Voter(voter_id=node_id, voter_directory_id=UUID(int=node_id + directory), endpoints=())


def voters(*members: Voter) -> VoterSet:
    return VoterSet(1, members, 0)


def key(of: Voter) -> ReplicaKey:
    return ReplicaKey(*of.key)


THREE: Final = voters(voter(1), voter(2), voter(3))


@pytest.fixture
def recognition() -> VoterRecognition:
    """Of voter 1, which has just started."""
    started = VoterRecognition(CONFIG, key(voter(1)))
    started.start(START)
    return started


def pre_vote(of: Voter) -> QuorumRequest:
    return Vote(3, key(voter(1)), key(of), 3, 50, True)


def answered(
    recognition: VoterRecognition,
    asked: Voter,
    error: ErrorCode = ErrorCode.none,
    *,
    request: QuorumRequest | None = None,
    now: Now = SOON,
) -> QuorumResponse:
    sent = OutboundRequest(asked, request or pre_vote(asked))
    response = QuorumResponse(error, 3, 2, ("node-2", 9093), granted=True)
    return recognition.answered(sent, response, now)


def test_a_leader_is_followed_once_it_has_answered_as_the_replica_that_the_log_names(
    recognition: VoterRecognition,
) -> None:
    assert not recognition.believes(2, THREE, SOON)
    answered(recognition, voter(2))
    assert recognition.believes(2, THREE, SOON)
    assert not recognition.believes(3, THREE, SOON)


def test_a_replica_that_was_recognised_says_nothing_of_another_with_its_id(
    recognition: VoterRecognition,
) -> None:
    answered(recognition, voter(2))
    other = voters(voter(1), voter(2, OTHER), voter(3))
    assert not recognition.believes(2, other, SOON)


def test_a_replica_that_refused_says_nothing_of_another_with_its_id(
    recognition: VoterRecognition,
) -> None:
    for each in (2, 3):
        answered(recognition, voter(each), ErrorCode.invalid_voter_key)
    replaced = voters(voter(1), voter(2, OTHER), voter(3, OTHER))
    assert recognition.believes(2, replaced, LATE)
    assert recognition.misplaced is None
    assert not recognition.believes(2, THREE, LATE)
    assert recognition.misplaced is not None


def test_an_answer_that_may_have_come_before_the_look_at_the_directory_proves_nothing(
    recognition: VoterRecognition,
) -> None:
    """Apache Kafka refuses an epoch of the past before it looks whom it was meant for."""
    answered(recognition, voter(2), ErrorCode.fenced_leader_epoch)
    assert not recognition.believes(2, THREE, SOON)


def test_an_answer_to_a_request_that_named_no_replica_proves_nothing(
    recognition: VoterRecognition,
) -> None:
    said = answered(recognition, voter(2), request=EndQuorumEpoch(3, 1, ()))
    assert said.granted
    assert not recognition.believes(2, THREE, SOON)


def test_who_was_told_to_follow_proves_who_it_is(recognition: VoterRecognition) -> None:
    begun = BeginQuorumEpoch(3, 1, key(voter(2)))
    answered(recognition, voter(2), request=begun)
    assert recognition.believes(2, THREE, SOON)


def test_nothing_counts_of_what_another_replica_answers(recognition: VoterRecognition) -> None:
    said = answered(recognition, voter(2), ErrorCode.invalid_voter_key)
    assert (said.epoch, said.leader_id, said.address, said.granted) == (-1, -1, None, False)


def test_a_voter_without_an_answer_believes_in_the_end_but_not_in_who_refused(
    recognition: VoterRecognition,
) -> None:
    answered(recognition, voter(2), ErrorCode.invalid_voter_key)
    assert recognition.believes(3, THREE, LATE)
    assert not recognition.believes(2, THREE, LATE)
    assert recognition.misplaced is None


@pytest.mark.parametrize("by_fetch", [True, False])
def test_whom_a_voter_answers_is_not_misplaced_for_a_while(
    recognition: VoterRecognition, by_fetch: bool
) -> None:
    lately = Now(LATE.monotonic_ms - 1, 0)
    if by_fetch:
        recognition.leader_answered(lately)
    else:
        answered(recognition, voter(3), now=lately)
    for each in (2, 3):
        answered(recognition, voter(each), ErrorCode.invalid_voter_key, now=LATE)
    assert not recognition.believes(2, THREE, LATE)
    assert recognition.misplaced is None
    much_later = Now(LATE.monotonic_ms + PATIENCE_MS, 0)
    assert not recognition.believes(2, THREE, much_later)
    assert recognition.misplaced is not None


def test_who_has_no_vote_or_hears_of_nobody_else_has_nothing_to_doubt(
    recognition: VoterRecognition,
) -> None:
    assert recognition.believes(2, voters(voter(2), voter(3)), SOON)
    for leader_id in (-1, -7, 1):
        assert recognition.believes(leader_id, THREE, SOON)
