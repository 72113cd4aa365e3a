from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.protocol.kio_messages.entity_messages import encode_response

from tidelog.model.config import NodeConfig
from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadlines
from tidelog.node.core.effects import CloseLink, Effect, OpenLink, Send, SendOnLink
from tidelog.node.core.inputs import (
    Input,
    LinkClosed,
    LinkFrame,
    LinkOpened,
    StopRequested,
    TimePassed,
)
from tidelog.node.core.links import LinkListeners, LinkLost, Links
from tidelog.protocol.frame import read_request_header
from tidelog.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tidelog.shell.connection import FRAMES_PER_TURN, STOP_READING_ABOVE
from tidelog.shell.effects import ConnectionLimits
from tidelog.shell.host_names import HostNames, SocketAddress
from tidelog.shell.links import LinkLimits
from tidelog.shell.process import link_limits
from tidelog.shell.slabs import SLAB_SIZE

if TYPE_CHECKING:
    from tests.shell.conftest import Door, Shell


class Asker:
    """Opens links from a shell and remembers what it hears of them; echoes nothing."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.heard: list[tuple[str, int]] = []
        self.frames: list[bytes] = []
        self.reasons: list[str] = []
        self.by_peer: list[bool] = []
        self.on_opened: Callable[[int], list[Effect]] = lambda _: []
        self.on_frame: Callable[[LinkFrame], list[Effect]] = lambda _: []
        self.on_closed: Callable[[int], list[Effect]] = lambda _: []
        shell.node.on_input = self._step

    def _step(self, happened: Input) -> list[Effect]:
        match happened:
            case LinkOpened():
                self.heard.append(("opened", happened.link))
                return self.on_opened(happened.link)
            case LinkFrame():
                self.heard.append(("frame", happened.link))
                self.frames.append(bytes(happened.frame))
                return self.on_frame(happened)
            case LinkClosed():
                self.heard.append(("closed", happened.link))
                self.reasons.append(happened.reason)
                self.by_peer.append(happened.by_peer)
                return self.on_closed(happened.link)
            case _:
                return []

    def do(self, *effects: Effect) -> None:
        self.shell.driver.begin(effects)

    def open_to_itself(self, link: int = 1, host: str = "127.0.0.1") -> None:
        """Ask for a link to the listener of the same shell, where an echo answers."""
        self.do(OpenLink(link, host, self.shell.listener.endpoint.port))

    async def until_heard(self, what: str, count: int = 1) -> None:
        await self.shell.until(
            lambda: sum(1 for kind, _ in self.heard if kind == what) >= count,
        )


@pytest.fixture
def asker(shell: Shell) -> Asker:
    return Asker(shell)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_link_carries_requests_and_answers(shell: Shell, asker: Asker) -> None:
    asker.on_opened = lambda link: [SendOnLink(link, [b"he", b"llo"]), SendOnLink(link, [b"you"])]

    async def scenario() -> None:
        asker.open_to_itself()
        await asker.until_heard("frame", 2)

    shell.run(scenario())
    assert asker.heard == [("opened", 1), ("frame", 1), ("frame", 1)]
    assert asker.frames == [b"hello", b"you"]


def test_requests_leave_without_delay_on_a_socket_that_notices_a_dead_peer(
    shell: Shell, asker: Asker
) -> None:
    async def scenario() -> None:
        asker.open_to_itself()
        await asker.until_heard("opened")
        connected = shell.driver._links.connections[1]._socket
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not connected.getblocking()

    shell.run(scenario())


def test_many_requests_are_answered_in_order(shell: Shell, asker: Asker) -> None:
    bodies = [b"request %d" % number for number in range(10 * FRAMES_PER_TURN)]
    asker.on_opened = lambda link: [SendOnLink(link, [body]) for body in bodies]

    async def scenario() -> None:
        asker.open_to_itself()
        await asker.until_heard("frame", len(bodies))

    shell.run(scenario())
    assert asker.frames == bodies


@pytest.mark.parametrize("size", [SLAB_SIZE - 3, 20_000_000])
def test_large_answers_arrive_whole_and_writable(shell: Shell, asker: Asker, size: int) -> None:
    body = bytes(range(251)) * (size // 251 + 1)
    patched: list[bytes] = []

    def patch(happened: LinkFrame) -> list[Effect]:
        happened.frame[:3] = b"new"
        patched.append(bytes(happened.frame[:6]))
        return []

    asker.on_opened = lambda link: [SendOnLink(link, [b"send it"])]
    asker.on_frame = patch
    shell.node.on_frame = lambda connection, _: [Send(connection, [body])]

    async def scenario() -> None:
        asker.open_to_itself()
        await asker.until_heard("frame")

    shell.run(scenario())
    assert asker.frames == [body]
    assert patched == [b"new" + body[3:6]]


def test_two_nodes_that_flood_each_other_still_read_answers(shell: Shell, asker: Asker) -> None:
    size, rounds = 300_000, 60
    assert size * rounds > 4 * STOP_READING_ABOVE
    asker.on_opened = lambda link: [SendOnLink(link, [bytes(size)]) for _ in range(rounds)]

    async def scenario() -> None:
        asker.open_to_itself()
        await asker.until_heard("frame", rounds)

    shell.run(scenario())
    assert [len(frame) for frame in asker.frames] == [size] * rounds


def test_a_refused_connection_closes_the_link(shell: Shell, asker: Asker) -> None:
    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", free_port()))
        assert asker.heard == []
        await asker.until_heard("closed")

    shell.run(scenario())
    assert asker.heard == [("closed", 1)]
    assert asker.reasons == ["cannot connect: Connection refused"]
    assert asker.by_peer == [True]


def test_a_peer_that_hangs_up_closes_the_link_once(shell: Shell, asker: Asker, door: Door) -> None:
    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        (await door.accept()).socket.close()
        await asker.until_heard("closed")

    shell.run(scenario())
    assert asker.heard == [("opened", 1), ("closed", 1)]
    assert asker.reasons == ["the peer closed the connection"]


def test_a_reset_closes_the_link(shell: Shell, asker: Asker, door: Door) -> None:
    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        peer = await door.accept()
        await asker.until_heard("opened")
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.socket.close()
        await asker.until_heard("closed")

    shell.run(scenario())
    assert asker.reasons == ["receiving failed: Connection reset by peer"]


@pytest.mark.parametrize("length", [-1, 0, 1_001, 2**31 - 1])
def test_an_answer_above_the_limit_closes_the_link_before_it_arrives(
    make_shell: Callable[..., Shell], door: Door, length: int
) -> None:
    shell = make_shell(link_limits=LinkLimits(frame_bytes=1_000))
    asker = Asker(shell)

    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        peer = await door.accept()
        await peer.send_frame(bytes(1_000))
        await asker.until_heard("frame")
        await peer.send(length.to_bytes(4, "big", signed=True) + b"rest")
        await asker.until_heard("closed")
        assert await peer.is_closed()

    shell.run(scenario())
    assert asker.heard == [("opened", 1), ("frame", 1), ("closed", 1)]
    assert asker.reasons == [f"a frame of {length} bytes is not allowed, the limit is 1000"]


def test_a_peer_that_does_not_take_requests_cannot_hold_up_its_own_end(
    make_shell: Callable[..., Shell], door: Door
) -> None:
    shell = make_shell(link_limits=LinkLimits(frame_bytes=1_000))
    asker = Asker(shell)
    asker.on_opened = lambda link: [SendOnLink(link, [bytes(50_000_000)])]

    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        peer = await door.accept()
        await peer.send(b"\x7f\xff\xff\xff")
        await asker.until_heard("closed")

    shell.run(scenario())
    assert shell.driver.link_count == 0


def test_nothing_is_heard_of_a_link_that_the_node_closed(
    shell: Shell, asker: Asker, door: Door
) -> None:
    asker.on_frame = lambda happened: [CloseLink(happened.link, "enough")]

    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        peer = await door.accept()
        await peer.send(b"\0\0\0\1a\0\0\0\1b\0\0\0\1c")
        await asker.until_heard("frame")
        assert await peer.is_closed()
        asker.do(SendOnLink(1, [b"too late"]), CloseLink(1, "again"))

    shell.run(scenario())
    assert asker.heard == [("opened", 1), ("frame", 1)]
    assert shell.driver.link_count == 0


def test_a_link_that_is_given_up_is_reset_and_what_it_had_to_send_is_forgotten(
    shell: Shell, asker: Asker, door: Door
) -> None:
    big = bytes(50_000_000)
    asker.on_opened = lambda link: [SendOnLink(link, [big]), SendOnLink(link, [b"and more"])]

    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        peer = await door.accept()
        await peer.receive(1)
        asker.do(SendOnLink(1, [b"in the same breath"]), CloseLink(1, "no answer in time"))
        await shell.until(lambda: shell.driver.link_count == 0)
        with pytest.raises(ConnectionResetError):
            await peer.receive(len(big))

    shell.run(scenario())
    assert asker.heard == [("opened", 1)]


def test_a_link_that_is_given_up_with_nothing_under_way_is_reset_as_well(
    shell: Shell, asker: Asker, door: Door
) -> None:
    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        peer = await door.accept()
        await asker.until_heard("opened")
        asker.do(SendOnLink(1, [b"in the same breath"]), CloseLink(1, "no answer in time"))
        with pytest.raises(ConnectionResetError):
            await peer.receive(1000)

    shell.run(scenario())


def test_a_link_closed_as_soon_as_it_opens_goes_away(
    shell: Shell, asker: Asker, door: Door
) -> None:
    asker.on_opened = lambda link: [CloseLink(link, "no need")]

    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        assert await (await door.accept()).is_closed()

    shell.run(scenario())
    assert asker.heard == [("opened", 1)]


def test_a_link_closed_before_it_opens_is_never_heard_of(
    shell: Shell, asker: Asker, door: Door
) -> None:
    async def scenario() -> None:
        asker.do(
            OpenLink(1, "127.0.0.1", door.port),
            CloseLink(1, "changed our mind"),
            OpenLink(2, "localhost", door.port),
            CloseLink(2, "so did we here"),
            OpenLink(3, "127.0.0.1", door.port),
        )
        await asker.until_heard("opened")
        asker.do(OpenLink(4, "localhost", door.port))
        await asker.until_heard("opened", 2)

    shell.run(scenario())
    assert asker.heard == [("opened", 3), ("opened", 4)]


def test_a_node_may_open_the_next_link_when_it_hears_that_one_is_lost(
    shell: Shell, asker: Asker, door: Door
) -> None:
    asker.on_closed = lambda link: [OpenLink(link + 1, "127.0.0.1", door.port)]

    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", free_port()))
        await door.accept()
        await asker.until_heard("opened")

    shell.run(scenario())
    assert asker.heard == [("closed", 1), ("opened", 2)]


def test_a_host_that_never_answers_is_given_up_in_time(
    make_shell: Callable[..., Shell], door: Door
) -> None:
    shell = make_shell(link_limits=LinkLimits(connect_within_s=0.05))
    asker = Asker(shell)
    door.socket.listen(0)
    crowd = [socket.socket() for _ in range(8)]

    async def scenario() -> None:
        # Connections beyond the backlog are neither accepted nor refused.
        for one in crowd:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", door.port))
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        await asker.until_heard("closed")

    shell.run(scenario())
    for one in crowd:
        one.close()
    assert asker.reasons == ["no connection within 0.05 s"]
    assert asker.by_peer == [False]


def test_host_names_are_resolved_and_every_address_is_tried(
    shell: Shell, asker: Asker, door: Door
) -> None:
    async def scenario() -> None:
        asker.do(OpenLink(1, "localhost", door.port))
        await door.accept()
        await asker.until_heard("opened")

    shell.run(scenario())
    assert asker.heard == [("opened", 1)]


def test_ipv6_peers_are_reached(shell: Shell, asker: Asker, make_door: Callable[..., Door]) -> None:
    door = make_door(socket.AF_INET6, "::1")

    async def scenario() -> None:
        asker.do(OpenLink(1, "::1", door.port))
        await door.accept()
        await asker.until_heard("opened")

    shell.run(scenario())
    assert asker.heard == [("opened", 1)]


@pytest.mark.parametrize("host", ["no-such-host.invalid", "", "a..b", "x" * 70, "nul\0byte"])
def test_a_host_nobody_knows_closes_the_link(shell: Shell, asker: Asker, host: str) -> None:
    async def scenario() -> None:
        asker.do(OpenLink(1, host, 9092))
        await asker.until_heard("closed")

    shell.run(scenario())
    assert asker.heard == [("closed", 1)]
    assert asker.reasons[0].startswith("the host name is not resolved")


def test_a_name_is_looked_up_once_for_all_who_ask(shell: Shell) -> None:
    names = HostNames(shell.loop)
    found: list[object] = []

    async def scenario() -> None:
        for _ in range(5):
            names.resolve("localhost", 9092, found.append)
        assert len(names._asked) == 1
        await shell.until(lambda: len(found) == 5)

    shell.run(scenario())
    assert all(result is found[0] for result in found)
    assert isinstance(found[0], list)
    assert all(isinstance(address, SocketAddress) for address in found[0])


def test_links_end_with_the_node(shell: Shell, asker: Asker, door: Door) -> None:
    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        peer = await door.accept()
        await asker.until_heard("opened")
        asker.do(SendOnLink(1, [b"goodbye"]), OpenLink(2, "localhost", door.port))
        shell.driver.close()
        assert await peer.receive_frame() == b"goodbye"
        assert await peer.is_closed()

    shell.run(scenario())
    assert asker.heard == [("opened", 1)]
    assert shell.driver.link_count == 0


def test_idle_links_are_kept(make_shell: Callable[..., Shell], door: Door) -> None:
    shell = make_shell(ConnectionLimits(idle_ms=20))
    asker = Asker(shell)

    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        peer = await door.accept()
        idle = await shell.connect()
        assert await idle.is_closed()
        await peer.send_frame(b"still there")
        await asker.until_heard("frame")

    shell.run(scenario())
    assert asker.heard == [("opened", 1), ("frame", 1)]


def test_a_stopped_node_hears_nothing_of_its_links(shell: Shell, asker: Asker, door: Door) -> None:
    async def scenario() -> None:
        asker.do(OpenLink(1, "127.0.0.1", door.port))
        peer = await door.accept()
        await asker.until_heard("opened")
        shell.driver.request_stop("SIGTERM")
        shell.driver.close()
        assert await peer.is_closed()

    shell.run(scenario())
    assert asker.heard == [("opened", 1)]
    assert any(isinstance(happened, StopRequested) for happened in shell.node.inputs)


def test_a_peer_that_comes_up_late_is_asked_then(
    shell: Shell, make_door: Callable[..., Door]
) -> None:
    effects: list[Effect] = []
    deadlines = Deadlines()
    links = Links(effects, deadlines, "broker-101", LinkListeners("", ""))
    port = free_port()
    refused: list[str] = []
    answered: list[str] = []

    def step(happened: Input) -> list[Effect]:
        match happened:
            case LinkOpened():
                links.opened(happened)
            case LinkFrame():
                links.frame_arrived(happened)
            case LinkClosed():
                links.closed(happened)
            case TimePassed():
                deadlines.run_due(happened.now)
        shell.node.next_deadline_ms = deadlines.next_ms
        taken = effects[:]
        effects.clear()
        return taken

    def ask(now: Now) -> None:
        link = links.to_broker(("127.0.0.1", port), "control")
        link.ask(now, DescribeClusterRequest(), 0, then, timeout_ms=10_000)

    def then(answer: DescribeClusterResponse | LinkLost, now: Now) -> None:
        if isinstance(answer, LinkLost):
            refused.append(answer.reason)
            ask(now)
        else:
            answered.append(answer.cluster_id)

    async def scenario() -> None:
        ask(shell.driver.now)
        shell.driver.begin(step(TimePassed(shell.driver.now)))
        await shell.until(lambda: len(refused) == 3)
        peer = await make_door(port=port).accept()
        header = read_request_header(await peer.receive_frame())
        fields = {"cluster_id": "tides"}
        await peer.send_frame(
            encode_response(header.api_key, header.api_version, header.correlation_id, fields)
        )
        await shell.until(lambda: bool(answered))

    shell.node.on_input = step
    shell.run(scenario())
    assert answered == ["tides"]
    assert all("Connection refused" in reason for reason in refused)


def test_answers_may_be_as_large_as_what_the_settings_let_in() -> None:
    given = {
        "node.id": "101",
        "process.roles": "broker",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "100@127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": "data",
    }
    defaults = link_limits(NodeConfig.from_properties(given))
    assert defaults.frame_bytes > 104_857_600
    assert defaults.receive_buffer_bytes == -1

    generous = {
        "replica.fetch.response.max.bytes": "500000000",
        "replica.socket.receive.buffer.bytes": "200000",
    }
    changed = link_limits(NodeConfig.from_properties({**given, **generous}))
    assert changed.frame_bytes > 500_000_000
    assert changed.receive_buffer_bytes == 200_000
