"""The conversation without a connection: versions, correlation, framing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.kio_messages.entity_messages import encode_response
from tests.tiers import examples

from tidelog.client.errors import BrokenConversation, RequestRefused
from tidelog.client.session import Answer, Session
from tidelog.model.errors import ErrorCode, InvariantBroken
from tidelog.protocol import codec
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.frame import FrameSplitter, RequestHeader, read_request_header
from tidelog.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from tidelog.protocol.messages.metadata import MetadataRequest


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


def requests_of(session: Session) -> list[tuple[RequestHeader, memoryview]]:
    frames = FrameSplitter().receive(session.data_to_send())
    return [(read_request_header(frame), frame) for frame in frames]


def versions_answer(
    request: RequestHeader, served: Mapping[ApiKey, tuple[int, int]], *, error: int = 0
) -> bytes:
    version = 0 if error == ErrorCode.unsupported_version else request.api_version
    keys = [
        ApiVersion(api_key=int(key), min_version=low, max_version=high)
        for key, (low, high) in served.items()
    ]
    answer = ApiVersionsResponse(error_code=ErrorCode(error), api_keys=keys)
    return framed(codec.encode_response(answer, version, request.correlation_id))


def greeted(served: Mapping[ApiKey, tuple[int, int]] | None = None) -> Session:
    session = Session("tester", software_version="1.0")
    session.greet()
    ((request, _),) = requests_of(session)
    ranges = {key: (known.min, known.max) for key, known in SUPPORTED.items()}
    session.receive(versions_answer(request, ranges if served is None else served))
    return session


def metadata_answer(correlation_id: int, version: int, cluster_id: str) -> bytes:
    fields = {"cluster_id": cluster_id, "controller_id": 100, "brokers": [], "topics": []}
    return framed(encode_response(ApiKey.METADATA, version, correlation_id, fields))


def test_a_session_greets_in_the_newest_version_and_names_itself() -> None:
    session = Session("tester", software_version="1.0")

    session.greet()

    ((request, frame),) = requests_of(session)
    assert request.api_key is ApiKey.API_VERSIONS
    assert request.api_version == SUPPORTED[ApiKey.API_VERSIONS].max
    assert request.client_id == "tester"
    body = codec.decode_body(ApiVersionsRequest, request.api_version, frame[request.body_offset :])
    assert (body.client_software_name, body.client_software_version) == ("tidelog", "1.0")


def test_an_older_peer_is_greeted_again_in_the_version_it_names() -> None:
    session = Session("tester")
    session.greet()
    ((first, _),) = requests_of(session)
    refusal = versions_answer(
        first, {ApiKey.API_VERSIONS: (0, 2)}, error=ErrorCode.unsupported_version
    )

    assert session.receive(refusal) == []
    assert not session.ready
    ((second, _),) = requests_of(session)
    assert second.api_version == 2
    session.receive(versions_answer(second, {ApiKey.METADATA: (0, 5)}))
    assert session.ready
    assert session.version_of(ApiKey.METADATA) == 5


def test_a_peer_that_refuses_every_greeting_is_given_up() -> None:
    session = Session("tester")
    session.greet()
    ((first, _),) = requests_of(session)
    refusal = versions_answer(
        first, {ApiKey.API_VERSIONS: (0, 5)}, error=ErrorCode.unsupported_version
    )

    with pytest.raises(BrokenConversation):
        session.receive(refusal)


def test_a_greeting_refused_with_another_error_says_so() -> None:
    session = Session("tester")
    session.greet()
    ((request, _),) = requests_of(session)

    with pytest.raises(RequestRefused) as caught:
        session.receive(versions_answer(request, {}, error=ErrorCode.invalid_request))
    assert caught.value.code is ErrorCode.invalid_request


def test_nothing_is_asked_before_the_greeting_is_answered() -> None:
    with pytest.raises(InvariantBroken):
        Session("tester").ask(MetadataRequest(topics=None))


def test_a_request_uses_the_highest_version_both_sides_know() -> None:
    session = greeted({ApiKey.METADATA: (0, 7)})

    session.ask(MetadataRequest(topics=None))

    ((request, _),) = requests_of(session)
    assert request.api_version == 7


def test_a_caller_may_hold_a_version_down() -> None:
    session = greeted()

    session.ask(MetadataRequest(topics=None), at_most=4)

    ((request, _),) = requests_of(session)
    assert request.api_version == 4


@pytest.mark.parametrize("served", [{}, {ApiKey.METADATA: (90, 99)}, {ApiKey.PRODUCE: (0, 2)}])
def test_an_api_without_a_common_version_is_refused_before_it_is_sent(
    served: Mapping[ApiKey, tuple[int, int]],
) -> None:
    session = greeted(served)
    api_key = ApiKey.PRODUCE if ApiKey.PRODUCE in served else ApiKey.METADATA

    with pytest.raises(RequestRefused) as caught:
        session.version_of(api_key)
    assert caught.value.code is ErrorCode.unsupported_version
    assert session.data_to_send() == b""


def test_answers_belong_to_the_requests_in_their_order() -> None:
    session = greeted()
    first = session.ask(MetadataRequest(topics=None))
    second = session.ask(MetadataRequest(topics=[]))
    version = session.version_of(ApiKey.METADATA)

    answers = session.receive(
        metadata_answer(first, version, "a") + metadata_answer(second, version, "b")
    )

    assert [(each.correlation_id, each.body.cluster_id) for each in answers] == [
        (first, "a"),
        (second, "b"),
    ]
    assert session.in_flight == 0


def test_an_answer_out_of_order_ends_the_conversation() -> None:
    session = greeted()
    session.ask(MetadataRequest(topics=None))
    second = session.ask(MetadataRequest(topics=[]))

    with pytest.raises(BrokenConversation):
        session.receive(metadata_answer(second, session.version_of(ApiKey.METADATA), "b"))


def test_an_answer_nobody_asked_for_ends_the_conversation() -> None:
    session = greeted()

    with pytest.raises(BrokenConversation):
        session.receive(metadata_answer(7, 12, "x"))


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x05\x00\x00\x00\x01\xff"])
def test_bytes_that_are_no_answer_end_the_conversation(garbage: bytes) -> None:
    session = greeted()
    session.ask(MetadataRequest(topics=None))

    with pytest.raises(BrokenConversation):
        session.receive(garbage)


def test_a_request_without_an_answer_leaves_no_hole() -> None:
    session = greeted()
    session.ask_with(ApiKey.PRODUCE, lambda version: b"body", None)
    asked = session.ask(MetadataRequest(topics=None))

    answers = session.receive(metadata_answer(asked, session.version_of(ApiKey.METADATA), "c"))

    assert [each.correlation_id for each in answers] == [asked]
    (produce, frame), _ = requests_of(session)
    assert bytes(frame[produce.body_offset :]) == b"body"


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=40), max_size=60))
def test_answers_are_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    session = greeted()
    version = session.version_of(ApiKey.METADATA)
    asked = [session.ask(MetadataRequest(topics=None)) for _ in range(3)]
    stream = b"".join(metadata_answer(each, version, str(each)) for each in asked)

    answers: list[Answer] = []
    for size in cuts:
        answers += session.receive(stream[:size])
        stream = stream[size:]
    answers += session.receive(stream)

    assert [(each.correlation_id, each.body.cluster_id) for each in answers] == [
        (each, str(each)) for each in asked
    ]
