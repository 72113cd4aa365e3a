"""Sockets under TLS: the same frames, whatever the peer does before, between and after them."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.certificates import Authority

from tidelog.model.config import NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.node.core.effects import Close, Effect, OpenLink, Send, SendOnLink
from tidelog.node.core.inputs import ConnectionOpened, Input, LinkClosed, LinkFrame, LinkOpened
from tidelog.observe.events import CertificatesKept, CertificatesReloaded, ConnectionDropped
from tidelog.protocol.parts import FileRegion
from tidelog.security.distinguished_name import certificate_subject
from tidelog.shell.certificates import NodeCertificates
from tidelog.shell.effects import ConnectionLimits
from tidelog.shell.os_filesystem import OsFileSystem
from tidelog.shell.slabs import SLAB_SIZE
from tidelog.shell.transfer import Sendfile

if TYPE_CHECKING:
    from tests.shell.conftest import Client, Shell


def certificates(authority: Authority, keys: Path, **more: str) -> NodeCertificates:
    """Of a node whose listener PLAIN, contrary to its name, speaks TLS."""
    properties = {
        "node.id": "1",
        "process.roles": "broker",
        "listeners": "PLAIN://127.0.0.1:9092",
        "inter.broker.listener.name": "PLAIN",
        "listener.security.protocol.map": "PLAIN:SSL,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "2@127.0.0.1:9093",
        "log.dirs": "data",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trusted),
        **more,
    }
    return NodeCertificates(NodeConfig.from_properties(properties))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def keys(authority: Authority) -> Path:
    return authority.key_store("node.pem", "localhost", "127.0.0.1")


@pytest.fixture
def secure(
    make_shell: Callable[..., Shell], authority: Authority, keys: Path
) -> Callable[..., Shell]:
    def make(limits: ConnectionLimits | None = None, **more: str) -> Shell:
        return make_shell(limits, Sendfile(), certificates=certificates(authority, keys, **more))

    return make


def client_context(authority: Authority, keys: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.trusted))
    if keys is not None:
        context.load_cert_chain(keys)
    return context


class TlsClient:
    """A peer on the same loop that speaks TLS, over a `Client` that moves its bytes."""

    def __init__(self, below: Client, context: ssl.SSLContext) -> None:
        self.below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._received = bytearray()

    @classmethod
    async def connect(cls, shell: Shell, context: ssl.SSLContext) -> TlsClient:
        client = cls(await shell.connect(), context)
        while True:
            try:
                client._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await client._exchange()
        await client._flush()
        return client

    async def send(self, data: bytes) -> None:
        self._tls.write(data)
        await self._flush()

    async def send_frame(self, body: bytes) -> None:
        await self.send(len(body).to_bytes(4, "big") + body)

    async def receive_frame(self) -> bytes:
        length = int.from_bytes(await self._receive(4), "big")
        return await self._receive(length)

    async def is_closed(self) -> bool:
        """Wait for the peer's goodbye."""
        while True:
            try:
                return not self._tls.read(65536)
            except ssl.SSLWantReadError:
                await self._exchange()

    async def _receive(self, count: int) -> bytes:
        while len(self._received) < count:
            try:
                received = self._tls.read(1 << 20)
                assert received, "the peer said goodbye"
                self._received += received
            except ssl.SSLWantReadError:
                await self._exchange()
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await self.below.send(data)

    async def _exchange(self) -> None:
        await self._flush()
        data = await asyncio.get_running_loop().sock_recv(self.below.socket, 262_144)
        if not data:
            raise ConnectionResetError
        self._incoming.write(data)


def framed(bodies: list[bytes]) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@pytest.mark.parametrize("sizes", [[5], [1] * 500, [SLAB_SIZE - 3], [20_000_000, 7, 300_000]])
def test_frames_go_both_ways_whatever_their_size(
    secure: Callable[..., Shell], authority: Authority, sizes: list[int]
) -> None:
    shell = secure()
    bodies = [os.urandom(1) * size for size in sizes]

    async def scenario() -> None:
        client = await TlsClient.connect(shell, client_context(authority))
        sending = asyncio.ensure_future(client.send(framed(bodies)))
        for body in bodies:
            assert await client.receive_frame() == body
        await sending

    shell.run(scenario())


def test_a_frame_may_arrive_byte_by_byte(
    secure: Callable[..., Shell], authority: Authority
) -> None:
    shell = secure()

    async def scenario() -> None:
        client = await TlsClient.connect(shell, client_context(authority))
        for byte in (9).to_bytes(4, "big") + b"patiently":
            await client.send(bytes((byte,)))
        assert await client.receive_frame() == b"patiently"

    shell.run(scenario())


def test_bytes_that_only_openssl_still_has_are_not_waited_for(
    secure: Callable[..., Shell], authority: Authority
) -> None:
    shell = secure()
    shell.node.on_frame = lambda connection, frame: [Send(connection, [b"%d" % len(frame)])]
    frame = framed([bytes(SLAB_SIZE + 1)])

    async def scenario() -> None:
        client = await TlsClient.connect(shell, client_context(authority))
        await client.send(frame[:10])  # so that the buffer is full in the middle of a record
        await shell.until(lambda: shell.driver.pending_bytes == 10)
        await client.send(frame[10:])
        assert await client.receive_frame() == b"%d" % (SLAB_SIZE + 1)

    shell.run(scenario())


def test_bytes_of_files_are_encrypted_like_all_others(
    secure: Callable[..., Shell], authority: Authority, tmp_path: Path
) -> None:
    shell = secure()
    content = os.urandom(5_000_000)
    (tmp_path / "log").write_bytes(content)
    file = OsFileSystem().open(str(tmp_path / "log"))
    shell.node.on_frame = lambda connection, frame: [
        Send(connection, [b"before", FileRegion(file, 0, len(content)), b"behind"]),
        Send(connection, [bytes(frame)]),
    ]

    async def scenario() -> None:
        client = await TlsClient.connect(shell, client_context(authority))
        await client.send_frame(b"more?")
        assert await client.receive_frame() == b"before" + content + b"behind"
        assert await client.receive_frame() == b"more?"

    shell.run(scenario())
    file.close()


def test_a_peer_that_reads_nothing_is_not_read_and_loses_nothing(
    secure: Callable[..., Shell], authority: Authority
) -> None:
    shell = secure()
    answer = os.urandom(600_000)
    shell.node.on_frame = lambda connection, frame: [Send(connection, [answer])]

    async def scenario() -> None:
        client = await TlsClient.connect(shell, client_context(authority))
        for _ in range(60):
            await client.send_frame(b"ask")
        await shell.until(lambda: shell.driver.queued_bytes > 262_144)
        for _ in range(200):
            await asyncio.sleep(0)
        assert shell.node.frames < 60
        for _ in range(60):
            assert await client.receive_frame() == answer

    shell.run(scenario())
    assert shell.node.frames == 60


def test_a_peer_without_tls_is_let_go_and_others_notice_nothing(
    secure: Callable[..., Shell], authority: Authority
) -> None:
    shell = secure()

    async def scenario() -> None:
        good = await TlsClient.connect(shell, client_context(authority))
        plain = await shell.connect()
        await plain.send_frame(b"\x00\x12\x00\x03 a request for versions")
        await shell.until(lambda: bool(shell.events))
        await good.send_frame(b"undisturbed")
        assert await good.receive_frame() == b"undisturbed"

    shell.run(scenario())
    (dropped,) = shell.events
    assert isinstance(dropped, ConnectionDropped)
    assert dropped.cause == "the TLS handshake failed: the peer does not speak TLS"
    assert shell.node.frames == 1


def test_a_peer_with_tls_is_told_apart_where_there_is_none(
    shell: Shell, authority: Authority
) -> None:
    async def scenario() -> None:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await TlsClient.connect(shell, client_context(authority))

    shell.run(scenario())
    (dropped,) = shell.events
    assert isinstance(dropped, ConnectionDropped)
    assert dropped.cause == "the peer speaks TLS, which this listener does not"


def test_a_peer_that_does_not_finish_its_handshake_is_let_go(
    secure: Callable[..., Shell],
) -> None:
    shell = secure(ConnectionLimits(handshake_within_s=0.05))

    async def scenario() -> None:
        silent = await shell.connect()
        assert await silent.is_closed()

    shell.run(scenario())
    (dropped,) = shell.events
    assert isinstance(dropped, ConnectionDropped)
    assert dropped.cause == "no TLS handshake within 0.05 s"
    assert "ConnectionOpened" not in shell.node.kinds()
    assert shell.driver.connection_count == 0


def test_the_node_hears_of_a_connection_when_it_is_secured_and_of_its_certificate(
    secure: Callable[..., Shell], authority: Authority
) -> None:
    shell = secure(**{"ssl.client.auth": "requested"})
    own = authority.key_store("alice.pem", "alice.example", common_name="alice")

    async def scenario() -> None:
        for keys in (own, None):
            client = await TlsClient.connect(shell, client_context(authority, keys))
            await client.send_frame(b"x")
            await client.receive_frame()

    shell.run(scenario())
    named, unnamed = (each for each in shell.node.inputs if isinstance(each, ConnectionOpened))
    assert named.certificate is not None
    assert certificate_subject(named.certificate).startswith("CN=alice,")
    assert unnamed.certificate is None


def test_a_peer_without_the_certificate_that_is_required_never_reaches_the_node(
    secure: Callable[..., Shell], authority: Authority
) -> None:
    shell = secure(**{"ssl.client.auth": "required"})

    async def scenario() -> None:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            client = await TlsClient.connect(shell, client_context(authority))
            await client.send_frame(b"x")
            await client.receive_frame()
        await shell.until(lambda: bool(shell.events))

    shell.run(scenario())
    assert shell.node.frames == 0
    assert "ConnectionOpened" not in shell.node.kinds()


def test_everything_is_sent_before_a_connection_is_closed(
    secure: Callable[..., Shell], authority: Authority
) -> None:
    shell = secure()
    answer = os.urandom(3_000_000)
    shell.node.on_frame = lambda connection, frame: [
        Send(connection, [answer]),
        Close(connection, "done"),
    ]

    async def scenario() -> None:
        client = await TlsClient.connect(shell, client_context(authority))
        await client.send_frame(b"x")
        assert await client.receive_frame() == answer
        assert await client.is_closed()

    shell.run(scenario())


def test_damaged_bytes_end_their_connection_alone(
    secure: Callable[..., Shell], authority: Authority
) -> None:
    shell = secure()

    async def scenario() -> None:
        good = await TlsClient.connect(shell, client_context(authority))
        bad = await TlsClient.connect(shell, client_context(authority))
        await bad.send_frame(b"fine")
        assert await bad.receive_frame() == b"fine"
        await bad.below.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        await shell.until(lambda: bool(shell.node.closings()))
        await good.send_frame(b"undisturbed")
        assert await good.receive_frame() == b"undisturbed"

    shell.run(scenario())


class _Asker:
    """Opens a link and asks one thing on it."""

    def __init__(self, shell: Shell, question: bytes) -> None:
        self.shell = shell
        self.question = question
        self.answers: list[bytes] = []
        self.closed: list[str] = []
        shell.node.on_input = self.happened

    def happened(self, happened: Input) -> list[Effect]:
        if isinstance(happened, LinkOpened):
            return [SendOnLink(happened.link, [self.question])]
        if isinstance(happened, LinkFrame):
            self.answers.append(bytes(happened.frame))
        elif isinstance(happened, LinkClosed):
            self.closed.append(happened.reason)
        return []

    def ask(self, host: str, port: int) -> None:
        self.shell.driver.begin([OpenLink(1, host, port, "PLAIN")])


def test_a_link_is_encrypted_where_the_listener_it_leads_to_is(
    secure: Callable[..., Shell],
) -> None:
    shell = secure()
    asker = _Asker(shell, os.urandom(2_000_000))

    async def scenario() -> None:
        asker.ask("localhost", shell.listener.endpoint.port)
        await shell.until(lambda: bool(asker.answers))

    shell.run(scenario())
    assert asker.answers == [asker.question]


def test_a_link_to_somebody_with_another_name_is_not_opened(
    make_shell: Callable[..., Shell], authority: Authority
) -> None:
    elsewhere = authority.key_store("other.pem", "other.example")
    shell = make_shell(certificates=certificates(authority, elsewhere))
    asker = _Asker(shell, b"secret")

    async def scenario() -> None:
        asker.ask("localhost", shell.listener.endpoint.port)
        await shell.until(lambda: bool(asker.closed))

    shell.run(scenario())
    assert "certificate is not accepted: Hostname mismatch" in asker.closed[0]
    assert shell.node.frames == 0


def test_a_link_to_somebody_without_tls_is_not_opened(
    secure: Callable[..., Shell], make_shell: Callable[..., Shell], authority: Authority
) -> None:
    shell = secure()
    asker = _Asker(shell, b"secret")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"\x00\x00\x00\x04nope")
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        asker.ask("127.0.0.1", server.sockets[0].getsockname()[1])
        await shell.until(lambda: bool(asker.closed))
        server.close()
        await server.wait_closed()

    shell.run(scenario())
    assert asker.closed == ["the TLS handshake failed: the peer does not speak TLS"]


def touch(path: Path, content: str, age_ns: int) -> None:
    path.write_text(content)
    os.utime(path, ns=(age_ns, age_ns))


def test_certificates_are_read_again_when_their_files_change(
    secure: Callable[..., Shell], authority: Authority, keys: Path, tmp_path: Path
) -> None:
    shown = certificates(authority, keys)
    events: list[object] = []
    first = shown.of_listener("PLAIN", 0, events.append)
    assert shown.of_listener("PLAIN", 5_000, events.append) is first

    touch(keys, "not a key", 1_000_000_000)
    assert shown.of_listener("PLAIN", 10_000, events.append) is first
    assert shown.of_listener("PLAIN", 20_000, events.append) is first
    (kept,) = events
    assert isinstance(kept, CertificatesKept)
    assert "ssl.keystore" in kept.cause

    touch(keys, "".join(authority.issue("localhost")), 2_000_000_000)
    renewed = shown.of_listener("PLAIN", 30_000, events.append)
    assert renewed is not first
    assert isinstance(events[-1], CertificatesReloaded)

    keys.unlink()
    assert shown.of_listener("PLAIN", 40_000, events.append) is renewed
    assert isinstance(events[-1], CertificatesKept)


def test_a_node_does_not_start_with_certificates_that_are_no_good(
    authority: Authority, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"listener PLAIN: ssl\.keystore\.location"):
        certificates(authority, tmp_path / "nowhere.pem")
