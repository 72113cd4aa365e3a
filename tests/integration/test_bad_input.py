"""Bytes that are no requests, and requests sent in ways no client would: each costs its own
connection and nothing else."""

from __future__ import annotations

import random
import socket
import struct
import time
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest
from tests.integration.raw import (
    HungUp,
    Peer,
    Topic,
    api_versions,
    batch_of,
    correlation_id,
    create_topic,
    end_offset,
    fetch_from,
    forget_peak,
    framed,
    header,
    peak_bytes,
    produce,
    produce_to,
    request,
    resident_bytes,
    until,
)
from tests.integration.samples import sample
from tests.known_versions import known_versions
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import SUPPORTED, ApiKey, ListenerScope
from tidelog.testing.cluster import Cluster

FRAME_LIMIT = 104_857_600
MIB = 1 << 20

pytestmark = pytest.mark.usefixtures("others_are_served")


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(struct.pack(">i", -1), id="negative"),
        pytest.param(struct.pack(">i", -(2**31)), id="most negative"),
        pytest.param(struct.pack(">i", FRAME_LIMIT + 1), id="one too many"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="greatest"),
        pytest.param(struct.pack(">i", 0), id="zero"),
        pytest.param(b"GET / HTTP/1.1\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01", id="tls"),
        pytest.param(b"SSH-2.0-OpenSSH_9.9\r\n", id="ssh"),
    ],
)
def test_a_length_that_is_not_allowed_closes_the_connection(peer: Peer, start: bytes) -> None:
    peer.send(start)
    assert peer.hangs_up()


def test_a_length_of_the_limit_is_allowed_and_nothing_is_taken_for_it(
    cluster: Cluster, bootstrap: str
) -> None:
    pid = cluster.node().pid or 0
    before = resident_bytes(pid)
    forget_peak(pid)
    with ExitStack() as open_peers:
        peers = [open_peers.enter_context(Peer(bootstrap)) for _ in range(40)]
        for each in peers:
            each.send(struct.pack(">i", FRAME_LIMIT) + api_versions())
        with Peer(bootstrap) as good:
            assert correlation_id(good.ask(api_versions(99))) == 99
        assert peak_bytes(pid) - before < 8 * MIB
        for each in peers:
            each.socket.settimeout(0.0)
            with pytest.raises(BlockingIOError):
                each.socket.recv(1)


def test_what_is_held_of_an_unfinished_frame_is_what_has_arrived(
    cluster: Cluster, bootstrap: str
) -> None:
    pid = cluster.node().pid or 0
    before = resident_bytes(pid)
    forget_peak(pid)
    with Peer(bootstrap) as sender:
        sender.send(struct.pack(">i", FRAME_LIMIT) + bytes(10 * MIB))
        with Peer(bootstrap) as good:
            assert correlation_id(good.ask(api_versions(99))) == 99
    assert peak_bytes(pid) - before < 48 * MIB


def test_whole_frames_of_too_many_elements_are_refused_and_their_memory_given_back(
    cluster: Cluster, bootstrap: str
) -> None:
    pid = cluster.node().pid or 0
    before = resident_bytes(pid)
    count = 16 * MIB
    body = header(ApiKey.METADATA, 1) + struct.pack(">i", count) + bytes(2 * count)
    for _ in range(4):
        with Peer(bootstrap) as each:
            each.send_frame(body)
            assert each.hangs_up()
    until(lambda: resident_bytes(pid) - before < 48 * MIB)


@pytest.mark.parametrize("length", range(1, 10))
def test_a_frame_too_short_for_a_header_closes_the_connection(peer: Peer, length: int) -> None:
    peer.send_frame(api_versions()[:length])
    assert peer.hangs_up()


@pytest.mark.parametrize(
    "key", sorted({-1, 4, 5, 6, 7, 95, 1000, 32767, *map(int, ApiKey)} - set(map(int, SUPPORTED)))
)
def test_an_api_that_is_not_served_closes_the_connection(peer: Peer, key: int) -> None:
    peer.send_frame(struct.pack(">hhih", key, 0, 7, -1) + bytes(20))
    assert peer.hangs_up()


@pytest.mark.parametrize("key", SUPPORTED, ids=lambda key: key.name.lower())
def test_a_version_that_is_not_served_closes_the_connection(bootstrap: str, key: ApiKey) -> None:
    served = SUPPORTED[key]
    versions = {-1, served.decodable_from - 1, served.max + 1, 32767}
    if key is ApiKey.API_VERSIONS:
        versions = {-1}
    for version in versions:
        with Peer(bootstrap) as each:
            each.send_frame(struct.pack(">hhih", key, version, 7, -1) + bytes(100))
            assert each.hangs_up()


@pytest.mark.parametrize("version", [6, 7, 100, 32767])
def test_api_versions_in_a_version_too_high_is_answered_in_version_0_with_the_range(
    peer: Peer, version: int
) -> None:
    answer = peer.ask(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 41, -1) + b"\x00\x01\x01")
    asked, body = decode_response(ApiKey.API_VERSIONS, 0, answer)
    assert asked == 41
    assert body.error_code == ErrorCode.unsupported_version
    assert [(api.api_key, api.min_version, api.max_version) for api in body.api_keys] == [
        (18, 0, 5)
    ]
    assert correlation_id(peer.ask(api_versions(42))) == 42


@pytest.mark.parametrize("key", SUPPORTED, ids=lambda key: key.name.lower())
def test_the_controller_listener_serves_only_what_belongs_there(
    cluster: Cluster, key: ApiKey
) -> None:
    asked = sample(key, known_versions(key)[-1], Topic("test_bad_input.bystander", UUID(int=1)))
    address = cluster.local.descriptions[100].controller_listener
    assert address is not None
    with Peer(address) as controller:
        controller.send_frame(asked)
        assert controller.hangs_up() is (ListenerScope.CONTROLLER not in SUPPORTED[key].scope)


def i16(value: int) -> bytes:
    return struct.pack(">h", value)


def i32(value: int) -> bytes:
    return struct.pack(">i", value)


FOREVER = b"\xff" * 4 + b"\x07"  # the varint of 2^31 - 1
PRODUCE_3, PRODUCE_9 = i16(-1) + i16(-1) + i32(0), b"\x00" + i16(-1) + i32(0)
FETCH_4 = i32(-1) + i32(0) + i32(1) + i32(1 << 20) + b"\x00"
FETCH_12 = FETCH_4 + i32(0) + i32(-1)

MALFORMED = {
    "array longer than the frame": (ApiKey.METADATA, 1, i32(4096) + i16(1) + b"a"),
    "array below null": (ApiKey.METADATA, 1, i32(-2)),
    "array null where it must not be": (ApiKey.LIST_OFFSETS, 1, i32(-1) + i32(-1)),
    "compact array null where it must not be": (ApiKey.LIST_OFFSETS, 7, i32(-1) + b"\x00" * 3),
    "string longer than the frame": (ApiKey.METADATA, 1, i32(1) + i16(100) + b"a"),
    "string below null": (ApiKey.METADATA, 1, i32(1) + i16(-2) + b"a"),
    "string null where it must not be": (ApiKey.METADATA, 1, i32(1) + i16(-1)),
    "string that is no utf-8": (ApiKey.METADATA, 1, i32(1) + i16(2) + b"\xff\xfe"),
    "string with a surrogate": (ApiKey.METADATA, 1, i32(1) + i16(3) + b"\xed\xa0\x80"),
    "compact string longer than the frame": (ApiKey.CREATE_TOPICS, 7, b"\x02\x70a"),
    "compact string null where it must not be": (ApiKey.CREATE_TOPICS, 7, b"\x02\x00" + bytes(20)),
    "compact string that is no utf-8": (ApiKey.CREATE_TOPICS, 7, b"\x02\x03\xc3\x28" + bytes(20)),
    "varint of six bytes": (ApiKey.METADATA, 12, b"\x80" * 5 + b"\x01" + bytes(20)),
    "varint that never ends": (ApiKey.METADATA, 12, b"\xff" * 40),
    "varint above 32 bits": (ApiKey.METADATA, 12, b"\xff\xff\xff\xff\x7f" + bytes(20)),
    "tag longer than the frame": (ApiKey.API_VERSIONS, 3, b"\x02a\x02b\x01\x00\x70"),
    "tags without end": (ApiKey.API_VERSIONS, 3, b"\x02a\x02b\x7f" + b"\x00" * 200),
    "no body at all": (ApiKey.METADATA, 1, b""),
    "2^31 topics": (ApiKey.METADATA, 1, i32(2**31 - 1) + bytes(100)),
    "2^31 topics, compact": (ApiKey.METADATA, 12, FOREVER + bytes(100)),
    "2^31 assignments in a topic": (
        ApiKey.CREATE_TOPICS,
        2,
        i32(1) + i16(1) + b"a" + i32(-1) + i16(-1) + i32(2**31 - 1) + bytes(100),
    ),
    "produce: 2^31 topics": (ApiKey.PRODUCE, 3, PRODUCE_3 + i32(2**31 - 1) + bytes(100)),
    "produce: 2^31 topics, compact": (ApiKey.PRODUCE, 9, PRODUCE_9 + FOREVER + bytes(100)),
    "produce: 2^31 partitions": (
        ApiKey.PRODUCE,
        3,
        PRODUCE_3 + i32(1) + i16(1) + b"a" + i32(2**31 - 1) + bytes(100),
    ),
    "produce: 2^31 partitions, compact": (
        ApiKey.PRODUCE,
        13,
        PRODUCE_9 + b"\x02" + bytes(16) + FOREVER + bytes(100),
    ),
    "produce: records longer than the frame": (
        ApiKey.PRODUCE,
        3,
        PRODUCE_3 + i32(1) + i16(1) + b"a" + i32(1) + i32(0) + i32(2**31 - 1) + bytes(100),
    ),
    "produce: records below null": (
        ApiKey.PRODUCE,
        3,
        PRODUCE_3 + i32(1) + i16(1) + b"a" + i32(1) + i32(0) + i32(-2) + bytes(100),
    ),
    "produce: compact records longer than the frame": (
        ApiKey.PRODUCE,
        9,
        PRODUCE_9 + b"\x02\x02a\x02" + i32(0) + FOREVER + bytes(100),
    ),
    "fetch: 2^31 topics": (ApiKey.FETCH, 4, FETCH_4 + i32(2**31 - 1) + bytes(100)),
    "fetch: 2^31 topics, compact": (ApiKey.FETCH, 12, FETCH_12 + FOREVER + bytes(100)),
    "fetch: 2^31 partitions": (
        ApiKey.FETCH,
        4,
        FETCH_4 + i32(1) + i16(1) + b"a" + i32(2**31 - 1) + bytes(100),
    ),
    "fetch: topic null": (ApiKey.FETCH, 4, FETCH_4 + i32(1) + i16(-1) + bytes(100)),
    "fetch: cut short": (ApiKey.FETCH, 12, FETCH_12[:-3]),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_body_that_cannot_be_read_closes_the_connection(
    cluster: Cluster, peer: Peer, case: str
) -> None:
    key, version, body = MALFORMED[case]
    pid = cluster.node().pid or 0
    before = resident_bytes(pid)
    forget_peak(pid)
    peer.send_frame(header(key, version) + body)
    assert peer.hangs_up()
    assert peak_bytes(pid) - before < 8 * MIB


def test_a_client_id_that_cannot_be_read_closes_the_connection(bootstrap: str) -> None:
    for length, text in ((-2, b""), (32767, b"abc"), (2, b"\xc3\x28")):
        with Peer(bootstrap) as each:
            each.send_frame(struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 7, length) + text)
            assert each.hangs_up()


def test_what_the_peer_is_told_holds_no_trace_of_our_code(peer: Peer) -> None:
    peer.send_frame(header(ApiKey.METADATA, 12) + b"\xff" * 40)
    with pytest.raises(HungUp, match="0 of 4 bytes"):
        peer.receive()


def test_answers_keep_the_order_of_the_requests(bootstrap: str, peer: Peer, topic: str) -> None:
    made = create_topic(peer, topic)
    peer.send_frame(
        produce_to(9, made, [(0, batch_of(b"one"))], acks=1, correlation_id=1),
        produce_to(9, made, [(0, batch_of(b"two"))], acks=0, correlation_id=2),
        fetch_from(12, made, 2, max_wait_ms=60_000, min_bytes=10_000, correlation_id=3),
        api_versions(4),
        request(ApiKey.METADATA, 1, {"topics": None}, 5),
        produce_to(9, made, [(0, batch_of(b"three"))], acks=-1, correlation_id=6),
        produce_to(9, made, [(0, batch_of(b"four"))], acks=0, correlation_id=7),
        api_versions(8),
    )
    assert correlation_id(peer.receive()) == 1
    with Peer(bootstrap) as other:
        until(lambda: end_offset(other, made) == 4)  # what is parked holds answers, not work
        peer.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            peer.receive()
        produce(other, made, batch_of(bytes(10_000)))
    peer.socket.settimeout(10)
    assert [correlation_id(peer.receive()) for _ in range(5)] == [3, 4, 5, 6, 8]


def test_a_failed_request_without_acknowledgement_ends_the_connection_behind_earlier_answers(
    bootstrap: str, peer: Peer, topic: str
) -> None:
    made = create_topic(peer, topic)
    peer.send_frame(
        produce_to(9, made, [(0, batch_of(b"one"))], correlation_id=1),
        produce_to(9, made, [(0, b"no batch")], acks=0, correlation_id=2),
        produce_to(9, made, [(0, batch_of(b"too late"))], correlation_id=3),
    )
    assert correlation_id(peer.receive()) == 1
    assert peer.hangs_up()
    with Peer(bootstrap) as other:
        assert end_offset(other, made) == 1


def test_requests_that_arrive_byte_by_byte_are_answered(peer: Peer, topic: str) -> None:
    made = create_topic(peer, topic)
    sent = framed(produce_to(9, made, [(0, batch_of(b"slow"))], correlation_id=1))
    for byte in sent + framed(api_versions(2)):
        peer.send(bytes((byte,)))
    assert [correlation_id(peer.receive()) for _ in range(2)] == [1, 2]
    assert end_offset(peer, made) == 1


def test_a_peer_that_asks_much_and_reads_nothing_is_held_back(
    cluster: Cluster, bootstrap: str, topic: str
) -> None:
    pid = cluster.node().pid or 0
    with Peer(bootstrap) as greedy:
        made = create_topic(greedy, topic)
        for _ in range(8):
            assert produce(greedy, made, batch_of(random.randbytes(900_000))).error == 0
        before = resident_bytes(pid)
        forget_peak(pid)
        greedy.socket.settimeout(0.5)
        frames = b"".join(
            framed(fetch_from(12, made, 0, correlation_id=number)) for number in range(2000)
        )
        with pytest.raises(TimeoutError):
            while True:
                greedy.socket.sendall(frames)
        assert peak_bytes(pid) - before < 16 * MIB
        greedy.socket.settimeout(10)
        assert [correlation_id(greedy.receive()) for _ in range(20)] == list(range(20))


def test_a_request_cut_off_by_a_reset_has_no_effect(bootstrap: str, peer: Peer, topic: str) -> None:
    made = create_topic(peer, topic)
    sent = framed(produce_to(9, made, [(0, batch_of(b"half"))]))
    for cut in (2, 4, 20, len(sent) - 1):
        with Peer(bootstrap) as half:
            half.send(sent[:cut])
            linger = struct.pack("ii", 1, 0)
            half.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    assert end_offset(peer, made) == 0


def test_slow_peers_are_closed_at_the_idle_limit_and_one_address_has_only_so_many_connections(
    tmp_path: Path,
) -> None:
    settings = {"connections.max.idle.ms": "1500", "max.connections.per.ip": "12"}
    with Cluster(tmp_path / "cluster", settings=settings) as cluster, ExitStack() as open_peers:

        def connect() -> Peer:
            return open_peers.enter_context(Peer(cluster.bootstrap, timeout_s=5))

        good = connect()
        slow = [connect() for _ in range(11)]
        assert connect().hangs_up()  # the thirteenth
        began = time.monotonic()
        unfinished = iter(framed(bytes(100_000)))
        ended: dict[int, float] = {}
        while len(ended) < len(slow):
            assert correlation_id(good.ask(api_versions(1))) == 1
            byte = bytes((next(unfinished),))
            for number, each in enumerate(slow):
                each.send(byte)
                each.socket.settimeout(0.005)
                try:
                    if number not in ended and each.hangs_up():
                        ended[number] = time.monotonic() - began
                except TimeoutError:
                    continue
            assert time.monotonic() - began < 6
        assert min(ended.values()) > 1.0
        assert correlation_id(connect().ask(api_versions(2))) == 2
        assert correlation_id(good.ask(api_versions(3))) == 3
