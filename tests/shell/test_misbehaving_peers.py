from __future__ import annotations

import asyncio
import os
import random
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.node.core.effects import Close, Effect, PauseReading, ResumeReading, Send
from tidelog.protocol.parts import FileRegion
from tidelog.shell.os_filesystem import OsFileSystem

if TYPE_CHECKING:
    from tests.shell.conftest import Client, Shell


def misbehave(port: int, seed: int) -> None:
    """One peer's life: any mix of good frames, garbage, silence and sudden ends."""
    dice = random.Random(seed)
    with socket.socket() as peer:
        if dice.randrange(2):
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.settimeout(0.1)
        with suppress(OSError):
            peer.connect(("127.0.0.1", port))
            for _ in range(dice.randrange(6)):
                body = dice.randbytes(dice.choice([1, 50, 5000, 300_000, 2_000_000]))
                framed = len(body).to_bytes(4, "big") + body
                match dice.randrange(6):
                    case 0:
                        peer.sendall(framed)
                        peer.recv(len(framed))
                    case 1:
                        peer.sendall(framed[: dice.randrange(len(framed))])
                        break
                    case 2:
                        peer.sendall(dice.randbytes(dice.randrange(100)))
                    case 3:
                        peer.sendall(framed)
                    case 4:
                        peer.sendall(framed * 3)
                        peer.recv(1)
                    case _:
                        peer.shutdown(socket.SHUT_WR)
        if dice.randrange(2):
            reset = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)


async def behave(client: Client, turns: int) -> None:
    for turn in range(turns):
        body = b"!%d" % turn
        await client.send_frame(body)
        assert await client.receive_frame() == body


@pytest.mark.parametrize("seed", range(4))
def test_a_good_peer_is_served_among_bad_ones(shell: Shell, tmp_path: Path, seed: int) -> None:
    files = OsFileSystem(max_descriptors=1)
    segment = files.open(str(tmp_path / "segment"))
    segment.append(os.urandom(3_000_000))
    dice = random.Random(seed)

    def answer(connection: int, frame: memoryview) -> list[Effect]:
        send: list[Effect] = [Send(connection, [bytes(frame)])]
        if frame[0] == ord("!"):
            return send
        match dice.randrange(6):
            case 0:
                return [Send(connection, [FileRegion(segment, 0, 3_000_000)])]
            case 1:
                return [*send, Close(connection, "enough")]
            case 2:
                return [*send, PauseReading(connection), ResumeReading(connection)]
            case 3:
                return []
            case _:
                return send

    shell.node.on_frame = answer

    async def scenario() -> None:
        good = await shell.connect()
        port = shell.listener.endpoint.port
        bad = [asyncio.to_thread(misbehave, port, 1000 * seed + number) for number in range(60)]
        done = asyncio.gather(*bad)
        await behave(good, 300)
        await done
        await behave(good, 10)
        good.socket.close()
        await shell.until(lambda: shell.driver.connection_count == 0)

    shell.run(scenario())
    assert len(shell.node.closings()) == shell.node.kinds().count("ConnectionOpened")
    segment.close()
    assert files.open_descriptors == 0
