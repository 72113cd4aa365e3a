from __future__ import annotations

import io
import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32
from tests.protocol.pairs import PAIRS, name

from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.frame import (
    FRAME_LIMIT,
    FrameSplitter,
    MalformedRequest,
    RequestHeader,
    frame_bounds,
    read_request_header,
)


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def header(api_key: int, version: int, client: bytes = b"\x00\x02me", tags: bytes = b"") -> bytes:
    return struct.pack(">hhi", api_key, version, 7) + client + tags


def test_a_frame_is_found_in_place_and_the_next_one_behind_it() -> None:
    buffer = memoryview(b"???" + framed(b"first", b"second"))

    assert frame_bounds(buffer, 3, len(buffer)) == (7, 12)
    assert frame_bounds(buffer, 12, len(buffer)) == (16, 22)
    assert frame_bounds(buffer, 22, len(buffer)) is None


@pytest.mark.parametrize("arrived", range(9))
def test_a_frame_is_not_there_until_its_last_byte_is(arrived: int) -> None:
    buffer = bytearray(framed(b"first") + b"stale bytes of the buffer")

    assert frame_bounds(buffer, 0, arrived) is None
    assert frame_bounds(buffer, 0, 9) == (4, 9)


@pytest.mark.parametrize("length", [-1, -(1 << 31), 0, FRAME_LIMIT + 1, (1 << 31) - 1])
def test_four_bytes_are_enough_to_refuse_a_length(length: int) -> None:
    with pytest.raises(MalformedRequest):
        frame_bounds(struct.pack(">i", length), 0, 4)


def test_the_limit_itself_is_allowed() -> None:
    assert frame_bounds(struct.pack(">i", FRAME_LIMIT), 0, 4) is None
    with pytest.raises(MalformedRequest):
        frame_bounds(struct.pack(">i", 524_289), 0, 4, limit=524_288)


@given(
    payloads=st.lists(st.binary(min_size=1, max_size=20), max_size=6),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
@settings(deadline=None)
def test_frames_do_not_depend_on_how_the_stream_is_cut(
    payloads: list[bytes], cuts: list[int]
) -> None:
    stream = framed(*payloads)
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    splitter = FrameSplitter()

    frames = [
        bytes(frame)
        for start, end in pairwise(edges)
        for frame in splitter.receive(stream[start:end])
    ]

    assert frames == payloads
    assert splitter.pending_bytes == 0


def test_a_splitter_holds_what_has_arrived_and_not_what_was_claimed() -> None:
    splitter = FrameSplitter()

    assert splitter.receive(struct.pack(">i", FRAME_LIMIT) + b"x") == []
    assert splitter.pending_bytes == 5


def test_frames_before_a_forbidden_length_still_count() -> None:
    splitter = FrameSplitter(limit=100)

    frames = splitter.receive(framed(b"good") + struct.pack(">i", 101))

    assert [bytes(frame) for frame in frames] == [b"good"]
    with pytest.raises(MalformedRequest):
        splitter.receive(b"")


def test_frames_can_be_written_to_while_the_splitter_goes_on() -> None:
    splitter = FrameSplitter()
    (frame,) = splitter.receive(framed(b"first") + b"\x00")

    frame[0] = ord("F")
    splitter.receive(framed(b"second")[1:])

    assert bytes(frame) == b"First"


@pytest.mark.parametrize(("api_key", "version"), PAIRS, ids=name)
def test_headers_are_read_as_kio_writes_them(api_key: ApiKey, version: int) -> None:
    flexible = version >= SUPPORTED[api_key].first_flexible
    kind = HeaderV2 if flexible else HeaderV1
    for client_id in (None, "", "rdkafka", "zażółć"):
        encoded = io.BytesIO()
        entity = kind(
            request_api_key=i16(api_key),
            request_api_version=i16(version),
            correlation_id=i32(-5),
            client_id=client_id,
        )
        entity_writer(type(entity))(encoded, entity)
        frame = encoded.getvalue()

        assert read_request_header(memoryview(frame + b"body")) == RequestHeader(
            api_key, version, -5, client_id, len(frame)
        )


def test_unknown_tags_of_a_header_are_skipped() -> None:
    frame = header(ApiKey.METADATA, 12, tags=b"\x01\x09\x03abc")

    assert read_request_header(frame).body_offset == len(frame)


@pytest.mark.parametrize("api_key", [-1, 4, 7, int(ApiKey.CREATE_DELEGATION_TOKEN), 95, 32767])
def test_an_api_that_is_not_served_is_refused(api_key: int) -> None:
    with pytest.raises(MalformedRequest):
        read_request_header(header(api_key, 0, tags=b"\x00"))


@pytest.mark.parametrize("api_key", SUPPORTED, ids=lambda key: key.name)
def test_a_version_outside_the_range_is_refused_except_for_a_newer_api_versions(
    api_key: ApiKey,
) -> None:
    served = SUPPORTED[api_key]
    with pytest.raises(MalformedRequest):
        read_request_header(header(api_key, served.decodable_from - 1, tags=b"\x00"))

    newer = header(api_key, served.max + 1, tags=b"\x00")
    if api_key is ApiKey.API_VERSIONS:
        assert read_request_header(newer).api_version == served.max + 1
    else:
        with pytest.raises(MalformedRequest):
            read_request_header(newer)


def test_a_header_cut_anywhere_is_refused() -> None:
    whole = header(ApiKey.METADATA, 12, tags=b"\x01\x09\x03abc")

    for length in range(len(whole)):
        with pytest.raises(MalformedRequest):
            read_request_header(memoryview(whole)[:length])


@pytest.mark.parametrize("client", [b"\xff\xfe", b"\x7f\xffme", b"\x00\x01\xff"])
def test_a_client_id_that_is_no_string_is_refused(client: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_request_header(header(ApiKey.METADATA, 1, client=client))
