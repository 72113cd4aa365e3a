"""What passes a link between two nodes, and what does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tidelog.local.link_proxies import Faults, forward
from tidelog.local.links import LinkFault, LinkProxies
from tidelog.local.local_cluster import LocalCluster
from tidelog.local.node_process import NodeTrouble

SOON_S = 5.0
SILENCE_S = 0.2
GREETING = bytes.fromhex("0000001c 0012 0004 00000001 000a") + b"broker-101" + b"rest"


class Ends:
    """A connection of node 101 to node 100, seen from both ends."""

    def __init__(self, home: Path) -> None:
        self.links = LinkProxies(home.parent)
        self.home = home
        home.mkdir()
        self.faults = Faults(home)
        self.arrived = asyncio.Queue[bytes]()
        self._tasks: set[asyncio.Task[None] | None] = set()

    def changed(self) -> None:
        self.faults.read()

    async def between(self, test: Callable[[Ends, asyncio.StreamWriter], Awaitable[None]]) -> None:
        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._tasks.add(asyncio.current_task())
            while data := await reader.read(65_536):
                await self.arrived.put(data)
            await self.arrived.put(b"")
            writer.close()
            await writer.wait_closed()

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._tasks.add(asyncio.current_task())
            await forward(100, target, self.faults, reader, writer)

        node = await asyncio.start_server(hear, "127.0.0.1", 0)
        target = node.sockets[0].getsockname()
        proxy = await asyncio.start_server(take, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*proxy.sockets[0].getsockname())
        writer.write(GREETING)
        await test(self, writer)
        writer.close()
        await asyncio.gather(*(each for each in self._tasks if each is not None))
        for server in (node, proxy):
            server.close()
            await server.wait_closed()

    async def hears(self, expected: bytes) -> None:
        heard = b""
        async with asyncio.timeout(SOON_S):
            while heard != expected:
                heard += await self.arrived.get()

    async def hears_nothing(self) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SILENCE_S):
                await self.arrived.get()


def test_what_waits_at_a_cut_link_arrives_when_it_is_healed(tmp_path: Path) -> None:
    async def story(ends: Ends, writer: asyncio.StreamWriter) -> None:
        await ends.hears(GREETING)
        ends.links.cut(101, 100)
        ends.changed()
        writer.write(b"more")
        await ends.hears_nothing()
        ends.links.heal(100, 101)
        ends.changed()
        await ends.hears(b"more")

    asyncio.run(Ends(tmp_path / "links").between(story))


def test_the_end_of_a_connection_does_not_pass_a_cut_link_either(tmp_path: Path) -> None:
    async def story(ends: Ends, writer: asyncio.StreamWriter) -> None:
        await ends.hears(GREETING)
        ends.links.cut(100, 101)
        ends.changed()
        writer.close()
        await ends.hears_nothing()
        ends.links.heal(100, 101)
        ends.changed()
        async with asyncio.timeout(SOON_S):
            assert await ends.arrived.get() == b""

    asyncio.run(Ends(tmp_path / "links").between(story))


def test_a_slow_link_delays_and_keeps_the_order(tmp_path: Path) -> None:
    async def story(ends: Ends, writer: asyncio.StreamWriter) -> None:
        await ends.hears(GREETING)
        ends.links.slow(100, 101, 300)
        ends.changed()
        began = time.monotonic()
        writer.write(b"one ")
        await asyncio.sleep(0.01)
        writer.write(b"two")
        await ends.hears(b"one two")
        assert time.monotonic() - began >= 0.3

    asyncio.run(Ends(tmp_path / "links").between(story))


def test_other_links_are_whole(tmp_path: Path) -> None:
    async def story(ends: Ends, writer: asyncio.StreamWriter) -> None:
        ends.links.cut(100, 102)
        ends.changed()
        assert ends.links.faults == {(100, 102): LinkFault(cut=True)}
        await ends.hears(GREETING)

    asyncio.run(Ends(tmp_path / "links").between(story))


def test_only_nodes_behind_proxies_have_links(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, "c", [])

    with pytest.raises(NodeTrouble, match="there is no node 100"):
        cluster.link(100, 101)
