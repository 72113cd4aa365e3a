"""Answers of the quorum on the wire: those that speak of something else say nothing."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from tidelog.node.metadata.quorum_messages import fetched
from tidelog.node.metadata.quorum_requests import answer_in, vote_response
from tidelog.protocol.fetch import FetchedPartition, FetchedTopic, FetchResponse
from tidelog.protocol.messages.vote import (
    VoteResponse,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)
from tidelog.quorum.messages import QuorumResponse


def fetch_response(
    topic_id: UUID = METADATA_TOPIC_ID, index: int = 0, error: int = 0
) -> FetchResponse:
    partition = FetchedPartition(index=index, error=0, high_watermark=7, current_leader=(2, 5))
    return FetchResponse(1, 0, error, 0, [FetchedTopic(None, topic_id, [partition])], [])


def test_an_answer_to_a_fetch_tells_the_leader_and_what_is_committed() -> None:
    answer = fetched(fetch_response())
    assert not isinstance(answer, ErrorCode)
    assert (answer.leader_id, answer.leader_epoch, answer.high_watermark) == (2, 5, 7)


@pytest.mark.parametrize(
    "response",
    [
        fetch_response(topic_id=UUID(int=5)),
        fetch_response(index=1),
        fetch_response(error=4711),
        fetch_response()._replace(topics=[]),
        fetch_response()._replace(topics=fetch_response().topics * 2),
    ],
)
def test_an_answer_to_a_fetch_that_does_not_speak_of_the_metadata_log_is_an_error(
    response: FetchResponse,
) -> None:
    assert fetched(response) is ErrorCode.unknown_server_error


def vote_answer(topic: str = METADATA_TOPIC, index: int = 0, times: int = 1) -> VoteResponse:
    partition = VoteResponsePartitionData(
        partition_index=index, leader_id=2, leader_epoch=5, vote_granted=True
    )
    return VoteResponse(
        topics=[VoteResponseTopicData(topic_name=topic, partitions=[partition] * times)]
    )


def test_an_answer_to_a_vote_is_read_as_it_was_written() -> None:
    said = QuorumResponse(ErrorCode.none, 5, 2, ("node-2", 9093), granted=True)
    assert answer_in(vote_response(said)) == said


@pytest.mark.parametrize(
    "response", [vote_answer("orders"), vote_answer(index=1), vote_answer(times=2)]
)
def test_an_answer_to_a_vote_that_does_not_speak_of_the_metadata_log_knows_no_epoch(
    response: VoteResponse,
) -> None:
    assert answer_in(response) == QuorumResponse(ErrorCode.unknown_server_error, -1)
