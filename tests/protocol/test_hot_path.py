"""Produce and Fetch are written by hand; the generated classes say what the bytes must be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from tests.protocol.generated.fetch import FetchRequest, FetchResponse
from tests.protocol.generated.produce import ProduceRequest, ProduceResponse
from tests.protocol.samples import random_messages
from tests.tiers import examples

from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.codec import decode_response, encode, encode_response
from tidelog.protocol.fetch import (
    decode_fetch,
    decode_fetch_response,
    encode_fetch,
    encode_fetch_response,
    joined,
)
from tidelog.protocol.message import replace
from tidelog.protocol.produce import (
    decode_produce,
    decode_produce_response,
    encode_produce,
    encode_produce_response,
)

PRODUCE = SUPPORTED[ApiKey.PRODUCE]
FETCH = SUPPORTED[ApiKey.FETCH]
PRODUCE_VERSIONS = range(PRODUCE.decodable_from, PRODUCE.max + 1)
FETCH_VERSIONS = range(FETCH.decodable_from, FETCH.max + 1)
CORRELATION_ID = 7


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_requests_come_back(version: int) -> None:
    @given(request=random_messages(ProduceRequest, version))
    @settings(max_examples=examples(20), deadline=None, database=None)
    def comes_back(request: ProduceRequest) -> None:
        body = encode(request, version)
        read = decode_produce(memoryview(bytearray(body)), version)

        assert encode_produce(version, *read) == body

    comes_back()


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_requests_come_back(version: int) -> None:
    @given(request=random_messages(FetchRequest, version))
    @settings(max_examples=examples(20), deadline=None, database=None)
    def comes_back(request: FetchRequest) -> None:
        body = encode(request, version)

        assert encode_fetch(version, decode_fetch(memoryview(body), version)) == body

    comes_back()


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_responses_come_back(version: int) -> None:
    @given(response=random_messages(ProduceResponse, version))
    @settings(max_examples=examples(20), deadline=None, database=None)
    def comes_back(response: ProduceResponse) -> None:
        read = decode_produce_response(encode_response(response, version, CORRELATION_ID), version)
        written = encode_produce_response(
            version, read.correlation_id, read.topics, read.node_endpoints, read.throttle_ms
        )

        assert decode_response(ProduceResponse, version, written) == (CORRELATION_ID, response)

    comes_back()


def with_records(response: FetchResponse) -> FetchResponse:
    """We never write null where records could stand."""
    return replace(
        response,
        responses=tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(partition, records=partition.records or b"")
                    for partition in topic.partitions
                ),
            )
            for topic in response.responses
        ),
    )


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_responses_come_back(version: int) -> None:
    @given(response=random_messages(FetchResponse, version))
    @settings(max_examples=examples(20), deadline=None, database=None)
    def comes_back(response: FetchResponse) -> None:
        frame = encode_response(response, version, CORRELATION_ID)
        read = decode_fetch_response(memoryview(frame), version)
        written: Any = encode_fetch_response(
            version,
            read.correlation_id,
            read.error,
            read.session_id,
            read.topics,
            read.node_endpoints,
            read.throttle_ms,
        )

        again = decode_response(FetchResponse, version, joined(written))
        assert again == (CORRELATION_ID, with_records(response))

    comes_back()
