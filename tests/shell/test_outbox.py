from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.node.core.effects import Effect, Send
from tidelog.observe.events import ConnectionDropped
from tidelog.protocol.parts import FileRegion, ReadableFile
from tidelog.shell.listener import SocketOptions
from tidelog.shell.os_filesystem import OsFile, OsFileSystem
from tidelog.shell.outbox import Outbox
from tidelog.shell.transfer import ReadAndSend, Sendfile, Transfer

if TYPE_CHECKING:
    from tests.shell.conftest import Shell

SIZE = 10_000_000
TRANSFERS: list[Transfer] = [Sendfile(), ReadAndSend()]


@pytest.fixture
def files() -> OsFileSystem:
    return OsFileSystem(max_descriptors=1)


@pytest.fixture
def file(files: OsFileSystem, tmp_path: Path) -> Iterator[OsFile]:
    file = files.open(str(tmp_path / "segment"))
    file.append(os.urandom(SIZE))
    yield file
    file.close()
    assert files.open_descriptors == 0


@pytest.fixture(params=TRANSFERS, ids=lambda transfer: type(transfer).__name__)
def shell(request: pytest.FixtureRequest, make_shell: Callable[..., Shell]) -> Shell:
    return make_shell(transfer=request.param, options=SocketOptions(send_buffer_bytes=65536))


def test_file_regions_and_bytes_make_one_answer(shell: Shell, file: OsFile) -> None:
    content = file.read(0, SIZE)
    shell.node.on_frame = lambda connection, _: [
        Send(
            connection,
            [
                b"head",
                FileRegion(file, 0, 100),
                FileRegion(file, 50, 5_000_000),
                bytearray(b"middle"),
                FileRegion(file, 7_000_000, 3_000_000),
                memoryview(b"tail"),
            ],
        )
    ]

    async def scenario() -> None:
        client = await shell.connect()
        await client.send_frame(b"fetch")
        assert (
            await client.receive_frame()
            == (b"head" + content[:100] + content[50:5_000_050] + b"middle" + content[7_000_000:])
            + b"tail"
        )

    shell.run(scenario())


class Bottomless:
    """A peer that takes file bytes as fast as they come."""

    more_follows = 0

    def send(self, peer: socket.socket, file: ReadableFile, position: int, count: int) -> int:
        return count


def test_a_quick_reader_gets_a_bounded_share_of_each_turn(file: OsFile) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        outbox = Outbox(Bottomless())
        outbox.add([FileRegion(file, 0, SIZE)])
        turns = 1
        while not outbox.write(ours):
            turns += 1
    assert turns == 5
    assert outbox.queued_bytes == 0


def test_a_slow_reader_gets_everything_while_others_are_served(shell: Shell, file: OsFile) -> None:
    def fetch(connection: int, frame: memoryview) -> list[Effect]:
        if bytes(frame[:5]) == b"fetch":
            return [Send(connection, [b"h", FileRegion(file, 0, SIZE)])]
        return shell.node.echo(connection, frame)

    shell.node.on_frame = fetch

    async def scenario() -> None:
        slow = await shell.connect(receive_buffer=16384)
        other = await shell.connect()
        await slow.send_frame(b"fetch")
        await slow.send_frame(b"next")
        await slow.receive(4 + 1000)
        for number in range(100):
            await other.send_frame(b"%d" % number)
            assert await other.receive_frame() == b"%d" % number
        assert await slow.receive(SIZE + 1 - 1000) == file.read(999, SIZE)
        assert await slow.receive_frame() == b"next"

    shell.run(scenario())


def test_a_file_closed_and_removed_while_it_is_sent_arrives_whole(
    shell: Shell, files: OsFileSystem, file: OsFile
) -> None:
    extra = files.open(file.path + ".other")
    extra.append(b"z" * SIZE)
    shell.node.on_frame = lambda connection, _: [Send(connection, [FileRegion(extra, 0, SIZE)])]

    async def scenario() -> None:
        client = await shell.connect(receive_buffer=16384)
        await client.send_frame(b"fetch")
        await client.receive(1000)
        extra.close()
        files.remove(extra.path)
        file.append(b"takes the only descriptor")
        assert len(await client.receive(SIZE + 4 - 1000)) == SIZE + 4 - 1000

    shell.run(scenario())


def test_a_file_cut_while_it_is_sent_closes_only_that_connection(
    shell: Shell, file: OsFile
) -> None:
    def fetch(connection: int, frame: memoryview) -> list[Effect]:
        if bytes(frame[:5]) == b"fetch":
            return [Send(connection, [FileRegion(file, 0, SIZE)])]
        return shell.node.echo(connection, frame)

    shell.node.on_frame = fetch

    async def scenario() -> None:
        client = await shell.connect(receive_buffer=16384)
        other = await shell.connect()
        await client.send_frame(b"fetch")
        await client.receive(1000)
        file.truncate(2000)
        with pytest.raises((EOFError, ConnectionResetError)):
            await client.receive(SIZE)
        await other.send_frame(b"fine")
        assert await other.receive_frame() == b"fine"

    shell.run(scenario())
    assert any(
        isinstance(event, ConnectionDropped) and "cut" in event.cause for event in shell.events
    )
    assert len(shell.node.closings()) == 1


def test_a_small_region_beyond_the_end_closes_the_connection(shell: Shell, file: OsFile) -> None:
    shell.node.on_frame = lambda connection, _: [
        Send(connection, [FileRegion(file, 0, 20_000), FileRegion(file, SIZE - 10, 20)])
    ]

    async def scenario() -> None:
        client = await shell.connect()
        await client.send_frame(b"fetch")
        assert await client.is_closed()

    shell.run(scenario())


def test_a_lost_peer_releases_the_files_it_was_being_sent(
    shell: Shell, files: OsFileSystem, file: OsFile
) -> None:
    shell.node.on_frame = lambda connection, _: [Send(connection, [FileRegion(file, 0, SIZE)])]

    async def scenario() -> None:
        client = await shell.connect(receive_buffer=16384)
        await client.send_frame(b"fetch")
        await client.receive(1000)
        client.socket.close()
        await shell.until(lambda: shell.driver.connection_count == 0)

    shell.run(scenario())
