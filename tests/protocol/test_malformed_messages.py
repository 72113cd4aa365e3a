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
from tests.protocol.kio_messages.entity_messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tests.protocol.kio_messages.entity_schema import MessageKind
from tests.protocol.pairs import DAMAGED, name
from tests.tiers import examples

from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.fetch import decode_fetch, decode_fetch_response
from tidelog.protocol.frame import MalformedRequest, read_request_header
from tidelog.protocol.primitives import ELEMENTS_MAX
from tidelog.protocol.produce import decode_produce, decode_produce_response

Decode = Callable[[memoryview], Any]
FullEntity = Callable[[int, int, MessageKind], Any]

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


def request_decoders(api_key: int, version: int) -> list[Decode]:
    decoders: list[Decode] = [lambda body: decode_request(api_key, version, body)]
    if api_key == ApiKey.PRODUCE:
        decoders.append(lambda body: decode_produce(body, version))
    if api_key == ApiKey.FETCH:
        decoders.append(lambda body: decode_fetch(body, version))
    return decoders


def response_decoders(api_key: int, version: int) -> list[Decode]:
    decoders: list[Decode] = [lambda frame: decode_response(api_key, version, frame)]
    if api_key == ApiKey.PRODUCE:
        decoders.append(lambda frame: decode_produce_response(frame, version))
    if api_key == ApiKey.FETCH:
        decoders.append(lambda frame: decode_fetch_response(frame, version))
    return decoders


def request_body(api_key: int, version: int, fields: Any) -> bytes:
    frame = encode_request(api_key, version, 7, None, fields)
    return frame[read_request_header(frame).body_offset :]


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


@pytest.mark.parametrize(("api_key", "version"), DAMAGED, ids=name)
def test_a_damaged_request_is_a_value_or_malformed(
    api_key: ApiKey, version: int, full_entity: FullEntity
) -> None:
    body = request_body(api_key, version, full_entity(api_key, version, "request"))
    decoders = request_decoders(api_key, version)

    for decode in decoders:
        decode(memoryview(body))
        for length in range(len(body)):
            refuses(decode, memoryview(body)[:length])
    for damaged in with_one_byte_changed(body):
        all_agree(decoders, damaged)
    for damaged in with_a_harmful_length(body):
        all_agree(decoders, damaged)


@pytest.mark.parametrize(("api_key", "version"), DAMAGED, ids=name)
def test_a_damaged_response_is_a_value_or_malformed(
    api_key: ApiKey, version: int, full_entity: FullEntity
) -> None:
    frame = encode_response(api_key, version, 7, full_entity(api_key, version, "response"))
    decoders = response_decoders(api_key, version)

    for decode in decoders:
        decode(memoryview(frame))
        for length in range(len(frame)):
            refuses(decode, memoryview(frame)[:length])
    for position in range(len(frame)):
        damaged = bytearray(frame)
        damaged[position] ^= 0xFF
        if api_key is ApiKey.PRODUCE:
            # Only the general reader minds a time of append that is no date.
            is_refused(decoders[1], damaged)
        else:
            all_agree(decoders, damaged)


@pytest.mark.parametrize(("api_key", "version"), DAMAGED, ids=name)
def test_a_length_that_is_only_claimed_takes_no_memory(
    api_key: ApiKey, version: int, full_entity: FullEntity
) -> None:
    body = request_body(api_key, version, full_entity(api_key, version, "request"))
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
