"""The process of the links: `python -m tidelog.local.link_proxies DIR`.

A connection is forwarded to the node behind the proxy, byte by byte in order. Who opened it is in
its first request: nodes call themselves `broker-ID` there.

Invariant  What passes a link is delayed as long as the fault that holds when it arrives says;
           nothing is lost or overtaken, and the end of a connection waits for its turn as well.
Invariant  While a link is cut nothing passes: neither bytes nor the news that a connection ended.
"""

from __future__ import annotations

import asyncio
import signal
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.local.links import Link, LinkFault, link_between, read_faults
from tidelog.local.local_cluster import LocalCluster
from tidelog.local.node_setup import taken_port

_READ_BYTES: Final = 262_144
_CHUNKS: Final = 64
_HEADER: Final = struct.Struct(">ihhih")
"""Size, API, version, correlation id and the length of the client id: a request's beginning."""
_CLIENT: Final = "broker-"
_FINE: Final = LinkFault()


class _Chunk(NamedTuple):
    due: float
    data: bytes
    """Empty: the connection ended here."""


class Faults:
    """What is wrong now; tells those who wait for a change."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._changed = asyncio.Event()
        self._known = read_faults(home)

    def read(self) -> None:
        self._known = read_faults(self._home)
        self._changed.set()
        self._changed = asyncio.Event()

    def of(self, link: Link | None) -> LinkFault:
        return _FINE if link is None else self._known.get(link, _FINE)

    async def until_passable(self, link: Link | None) -> None:
        while self.of(link).cut:
            await self._changed.wait()


async def forward(
    node_id: int,
    target: tuple[str, int],
    faults: Faults,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """One connection to a node, until both sides are done."""
    behind: asyncio.StreamWriter | None = None
    try:
        beginning, client = await _introduction(reader)
        link = None if client is None else link_between(client, node_id)
        await faults.until_passable(link)
        answers, behind = await asyncio.open_connection(*target)
        behind.write(beginning)
        pumps = (_pump(reader, behind, link, faults), _pump(answers, writer, link, faults))
        await _until_one_ends([asyncio.ensure_future(pump) for pump in pumps])
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        for each in (writer, behind):
            if each is not None:
                each.transport.abort()


async def _until_one_ends(tasks: list[asyncio.Task[None]]) -> None:
    """Nodes do not close by halves: the end of one direction is that of the other, too."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _introduction(reader: asyncio.StreamReader) -> tuple[bytes, int | None]:
    """The first bytes of a connection, and the node that they come from if it says so."""
    header = await reader.readexactly(_HEADER.size)
    length = max(0, _HEADER.unpack(header)[-1])
    name = await reader.readexactly(length)
    number = name.decode("utf-8", "replace").removeprefix(_CLIENT)
    return header + name, int(number) if number.isascii() and number.isdigit() else None


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link | None, faults: Faults
) -> None:
    """One direction."""
    chunks: asyncio.Queue[_Chunk] = asyncio.Queue(_CHUNKS)
    hearing = asyncio.ensure_future(_hear(reader, chunks, link, faults))
    loop = asyncio.get_running_loop()
    try:
        while True:
            chunk = await chunks.get()
            if (wait_s := chunk.due - loop.time()) > 0:
                await asyncio.sleep(wait_s)
            await faults.until_passable(link)
            if not chunk.data:
                return
            writer.write(chunk.data)
            await writer.drain()
    finally:
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)


async def _hear(
    reader: asyncio.StreamReader,
    chunks: asyncio.Queue[_Chunk],
    link: Link | None,
    faults: Faults,
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        data = b""
        with suppress(OSError):
            data = await reader.read(_READ_BYTES)
        await chunks.put(_Chunk(loop.time() + faults.of(link).delay_ms / 1000, data))
        if not data:
            return


async def serve(directory: Path) -> None:
    """All proxies of a cluster, until the process is asked to end."""
    home = directory / "links"
    faults = Faults(home)
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, faults.read)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    servers = []
    for node in LocalCluster.open(directory).descriptions.values():
        for proxy, target in node.proxied.items():
            host, port = _address(proxy)
            take = _taker(node.node_id, _address(target), faults)
            try:
                servers.append(await asyncio.start_server(take, host, port))
            except OSError as error:
                sys.exit(f"{taken_port(port, 'links between nodes')} ({error.strerror})")
    (home / "ready").touch()
    await over.wait()
    for server in servers:
        server.close()


def _taker(
    node_id: int, target: tuple[str, int], faults: Faults
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await forward(node_id, target, faults, reader, writer)

    return take


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
