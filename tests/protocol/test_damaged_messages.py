"""Whatever arrives, a decoder gives a value or MalformedRequest, soon and in little memory.

Every served API and version is damaged systematically, starting from a message in which every
field is set: cut at each byte, each byte changed, and each place overwritten with the lengths
that hurt most. The corpus holds what real clients send and frames that were built to do harm.
"""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.known_versions import known_versions
from tests.protocol.generated.fetch import FetchRequest
from tests.protocol.generated.produce import ProduceRequest
from tests.protocol.pairs import PAIRS, name
from tests.protocol.samples import full_message
from tests.tiers import examples

from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.codec import (
    decode_body,
    decode_request,
    decode_response,
    encode,
    encode_response,
)
from tidelog.protocol.fetch import decode_fetch, decode_fetch_response
from tidelog.protocol.frame import MalformedRequest, read_request_header
from tidelog.protocol.message import RequestMessage, ResponseMessage
from tidelog.protocol.messages import request_class
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.primitives import ELEMENTS_MAX, uvarint
from tidelog.protocol.produce import decode_produce, decode_produce_response

Decode = Callable[[memoryview], Any]

CORPUS = Path(__file__).parent / "corpus"
BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF)
HARMFUL_LENGTHS = (
    struct.pack(">i", (1 << 31) - 1),
    struct.pack(">i", -2),
    struct.pack(">h", (1 << 15) - 1),
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 11,
)
LONGEST_S = 1.0
MOST_MEMORY = 1 << 20


REQUESTS: dict[ApiKey, type[RequestMessage[Any]]] = {
    ApiKey.PRODUCE: ProduceRequest,
    ApiKey.FETCH: FetchRequest,
}


def request_of(api_key: ApiKey) -> type[RequestMessage[Any]]:
    return REQUESTS.get(api_key) or request_class(api_key)


def request_decoders(api_key: ApiKey, version: int) -> list[Decode]:
    request = request_of(api_key)
    decoders: list[Decode] = [lambda body: decode_body(request, version, body)]
    if api_key is ApiKey.PRODUCE:
        decoders.append(lambda body: decode_produce(body, version))
    if api_key is ApiKey.FETCH:
        decoders.append(lambda body: decode_fetch(body, version))
    return decoders


def response_decoders(api_key: ApiKey, version: int) -> list[Decode]:
    response = request_of(api_key).RESPONSE
    decoders: list[Decode] = [lambda frame: decode_response(response, version, frame)]
    if api_key is ApiKey.PRODUCE:
        decoders.append(lambda frame: decode_produce_response(frame, version))
    if api_key is ApiKey.FETCH:
        decoders.append(lambda frame: decode_fetch_response(frame, version))
    return decoders


def request_body(api_key: ApiKey, version: int) -> bytes:
    return encode(full_message(request_of(api_key), version), version)


def response_frame(api_key: ApiKey, version: int) -> bytes:
    response: ResponseMessage = full_message(request_of(api_key).RESPONSE, version)
    return encode_response(response, version, 7)


def is_refused(decode: Decode, message: bytes | bytearray) -> bool:
    """Whether it is malformed; any other outcome but a value fails the test."""
    started = time.thread_time()
    try:
        decode(memoryview(message))
    except MalformedRequest as refused:
        assert str(refused)
        return True
    finally:
        assert time.thread_time() - started < LONGEST_S
    return False


def all_agree(decoders: list[Decode], message: bytes | bytearray) -> None:
    """What is written by hand for speed refuses exactly what the general reader refuses."""
    assert len({is_refused(decode, message) for decode in decoders}) == 1


def refuses(decode: Decode, message: bytes | memoryview) -> None:
    with pytest.raises(MalformedRequest):
        decode(memoryview(message))


def with_one_byte_changed(message: bytes) -> Iterator[bytearray]:
    changed = bytearray(message)
    for position, original in enumerate(message):
        for byte in BYTES:
            changed[position] = byte
            yield changed
        changed[position] = original


def with_a_harmful_length(message: bytes) -> Iterator[bytearray]:
    for position in range(len(message)):
        for length in HARMFUL_LENGTHS:
            changed = bytearray(message)
            changed[position : position + len(length)] = length
            yield changed


@pytest.mark.parametrize(("api_key", "version"), PAIRS, ids=name)
def test_a_damaged_request_is_a_value_or_malformed(api_key: ApiKey, version: int) -> None:
    body = request_body(api_key, version)
    decoders = request_decoders(api_key, version)

    for decode in decoders:
        decode(memoryview(body))
        for length in range(len(body)):
            refuses(decode, memoryview(body)[:length])
    for damaged in with_one_byte_changed(body):
        all_agree(decoders, damaged)
    for damaged in with_a_harmful_length(body):
        all_agree(decoders, damaged)


@pytest.mark.parametrize(("api_key", "version"), PAIRS, ids=name)
def test_a_damaged_response_is_a_value_or_malformed(api_key: ApiKey, version: int) -> None:
    frame = response_frame(api_key, version)
    decoders = response_decoders(api_key, version)

    for decode in decoders:
        decode(memoryview(frame))
        for length in range(len(frame)):
            refuses(decode, memoryview(frame)[:length])
    for position in range(len(frame)):
        damaged = bytearray(frame)
        damaged[position] ^= 0xFF
        all_agree(decoders, damaged)


@pytest.mark.parametrize(("api_key", "version"), PAIRS, ids=name)
def test_a_length_that_is_only_claimed_takes_no_memory(api_key: ApiKey, version: int) -> None:
    body = request_body(api_key, version)
    claim = (
        HARMFUL_LENGTHS[0] if version < SUPPORTED[api_key].first_flexible else HARMFUL_LENGTHS[3]
    )

    for decode in request_decoders(api_key, version):
        tracemalloc.start()
        for position in range(len(body)):
            is_refused(decode, body[:position] + claim + body[position:])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MOST_MEMORY


@pytest.mark.parametrize("api_key", SUPPORTED, ids=lambda key: key.name)
@given(data=st.data())
@settings(max_examples=examples(60), deadline=None, database=None)
def test_any_bytes_are_a_request_or_malformed(api_key: ApiKey, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(known_versions(api_key)))
    body = data.draw(st.binary(max_size=120))

    all_agree(request_decoders(api_key, version), body)


def test_a_frame_full_of_tiny_elements_is_refused_before_they_fill_the_memory() -> None:
    names = struct.pack(">i", ELEMENTS_MAX + 1) + bytes(2 * (ELEMENTS_MAX + 1))
    tracemalloc.start()

    refuses(lambda body: decode_request(ApiKey.METADATA, 0, body), names)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_MEMORY


def peak_of(decode: Decode, message: bytes) -> int:
    """The most memory that refusing a message took."""
    tracemalloc.start()
    refuses(decode, message)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("count", [(1 << 31) - 1, 1 << 24, ELEMENTS_MAX + 1])
def test_the_length_of_an_array_reserves_nothing(count: int) -> None:
    """Apache Kafka up to 4.3.1 made a list of the length that an array claimed."""
    few = bytes(64)
    compact = lambda body: decode_request(ApiKey.METADATA, 12, body)  # noqa: E731
    plain = lambda body: decode_request(ApiKey.METADATA, 0, body)  # noqa: E731

    assert peak_of(compact, uvarint(count + 1) + few) < MOST_MEMORY
    assert peak_of(plain, struct.pack(">i", count) + few) < MOST_MEMORY


def test_a_string_is_no_longer_than_a_record_could_hold_it() -> None:
    longest = HeartbeatRequest(group_id="g" * 32_767)
    assert decode_body(HeartbeatRequest, 4, encode(longest, 4)) == longest
    body = uvarint(32_769) + b"g" * 32_768 + encode(longest, 4)[32_770:]
    with pytest.raises(MalformedRequest, match="group_id of 32768 bytes"):
        decode_body(HeartbeatRequest, 4, body)


def test_the_length_of_a_nested_array_reserves_nothing() -> None:
    body = encode(full_message(request_of(ApiKey.OFFSET_COMMIT), 9), 9)
    inner = body.index(b"\x03", body.index(b"some-text", 30))
    changed = body[:inner] + uvarint(1 << 30) + body[inner + 1 :]

    assert peak_of(lambda b: decode_request(ApiKey.OFFSET_COMMIT, 9, b), changed) < MOST_MEMORY


@pytest.mark.parametrize(
    "tags",
    [
        uvarint((1 << 31) - 1),
        uvarint((1 << 31) - 1) + b"\x00\x00" * 100_000,
        b"\x21" + b"\x63\x00" * 33,
        b"\x01\x63" + uvarint((1 << 31) - 1),
        b"\x01\x63" + uvarint((1 << 32) - 1),
    ],
    ids=["count", "count with many", "more than allowed", "size", "greatest size"],
)
def test_tagged_fields_reserve_nothing(tags: bytes) -> None:
    """Apache Kafka up to 4.3.1 kept every tagged field that it did not know, as large as it
    claimed to be."""
    body = b"\x00\x01\x00" + tags

    assert peak_of(lambda b: decode_request(ApiKey.METADATA, 12, b), body) < MOST_MEMORY


def test_what_an_unknown_tagged_field_holds_is_not_kept() -> None:
    tags = b"\x20" + b"".join(
        uvarint(99 + i) + uvarint(1 << 16) + bytes(1 << 16) for i in range(32)
    )
    body = memoryview(b"\x00\x01\x00" + tags)
    tracemalloc.start()

    decode_request(ApiKey.METADATA, 12, body)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_MEMORY


def corpus(outcome: str) -> list[Any]:
    return [
        pytest.param(bytes.fromhex(_without_comments(path.read_text("utf-8"))), id=path.stem)
        for path in sorted((CORPUS / outcome).glob("*.hex"))
    ]


def _without_comments(text: str) -> str:
    return "".join(line for line in text.splitlines() if not line.startswith("#"))


def decode_frame(frame: bytes) -> None:
    header = read_request_header(frame)
    body = memoryview(bytearray(frame))[header.body_offset :]
    for decode in request_decoders(header.api_key, header.api_version):
        decode(body)


@pytest.mark.parametrize("frame", corpus("accepted"))
def test_what_stock_clients_send_is_understood(frame: bytes) -> None:
    decode_frame(frame)


@pytest.mark.parametrize("frame", corpus("refused"))
def test_what_was_built_to_do_harm_is_refused(frame: bytes) -> None:
    started = time.thread_time()
    with pytest.raises(MalformedRequest):
        decode_frame(frame)
    assert time.thread_time() - started < LONGEST_S


def test_the_corpus_covers_every_outcome() -> None:
    assert len(corpus("accepted")) >= 10
    assert len(corpus("refused")) >= 20
