"""Nodes that only tell: the streams of docs/http.md over the product's own HTTP server, of clusters
that would be too large to run in a test."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from tidelog.http.messages import Chunks, HttpRequest, HttpResponse, json_response, json_text
from tidelog.http.questions import NodeListener
from tidelog.http.server import HttpServer
from tidelog.http.server_sent_events import event_stream, event_text

_AT_ONCE = 256
_INTERVAL_S = 0.25


class SimulatedCluster:
    """Partitions that all nodes host, whose logs grow while somebody watches."""

    def __init__(
        self, topics: Mapping[str, int], node_ids: tuple[int, ...] = (100, 101, 102)
    ) -> None:
        self.node_ids = node_ids
        self.partitions: list[dict[str, Any]] = [
            {
                "topic": topic,
                "partition": index,
                "leader": self.preferred(index)[0],
                "leader_epoch": 0,
                "partition_epoch": 0,
                "replicas": list(self.preferred(index)),
                "isr": list(self.preferred(index)),
                "end": 0,
            }
            for topic, count in topics.items()
            for index in range(count)
        ]
        self.fenced: set[int] = set()
        self.directories: list[dict[str, Any]] = []
        self.clocks_ahead_ms: dict[int, int] = {}
        self.metrics = ""
        self.events: list[dict[str, Any]] = []
        self.oddities: list[tuple[int, str, str]] = []
        self.cluster_ids = dict.fromkeys(node_ids, "c")
        self.urgent: list[dict[str, Any]] = []
        self.watchers = 0

    def preferred(self, index: int) -> tuple[int, ...]:
        turn = index % len(self.node_ids)
        return self.node_ids[turn:] + self.node_ids[:turn]

    def change(self, index: int, **fields: Any) -> None:
        """Change a partition; nodes tell it first."""
        self.partitions[index].update(fields)
        self.urgent.append(self.partitions[index])

    def announce(self, node: int, event: str, **fields: Any) -> None:
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        about = {"seq": len(self.events) + 1, "at": moment, "node": node, "event": event}
        self.events.append({**about, **fields})

    def blurt(self, node: int, path: str, name: str, data: str) -> None:
        """Let a node say something in one of its streams, whatever it is."""
        self.oddities.append((node, path, event_text(data, name).decode()))

    def replica(self, node_id: int, partition: Mapping[str, Any]) -> dict[str, Any]:
        """What one node knows of a partition."""
        leads = partition["leader"] == node_id
        known = {key: value for key, value in partition.items() if key != "end"}
        return {
            **known,
            "role": "leader" if leads else "follower",
            "min_isr": 2,
            "log_start_offset": 0,
            "log_end_offset": partition["end"],
            "high_watermark": partition["end"],
            "followers": dict.fromkeys(map(str, partition["isr"]), partition["end"])
            if leads
            else None,
            "parked": 0,
        }


class _Node:
    def __init__(self, cluster: SimulatedCluster, node_id: int) -> None:
        self._cluster, self._node_id = cluster, node_id

    async def watch(self, request: HttpRequest) -> HttpResponse:
        return event_stream(self._watched(wants_metadata="metadata" in request.query))

    async def events(self, request: HttpRequest) -> HttpResponse:
        return event_stream(self._told(int(request.query.get("after", "0"))))

    async def healthz(self, _: HttpRequest) -> HttpResponse:
        return json_response({"healthy": True})

    async def metrics(self, _: HttpRequest) -> HttpResponse:
        return HttpResponse(200, "text/plain", self._cluster.metrics.encode())

    async def state(self, _: HttpRequest) -> HttpResponse:
        now_ms = time.time_ns() // 1_000_000
        ahead_ms = self._cluster.clocks_ahead_ms.get(self._node_id, 0)
        return json_response({"node": self._node_id, "cluster_id": "c", "at_ms": now_ms + ahead_ms})

    async def _told(self, after: int) -> Chunks:
        odd = 0
        while True:
            for text in self._odd("/events", odd):
                yield text
            odd = len(self._cluster.oddities)
            for each in [each for each in self._cluster.events if each["seq"] > after]:
                after = each["seq"]
                if each["node"] == self._node_id:
                    yield event_text(json_text(each), event_id=after)
            await asyncio.sleep(0.02)

    def _odd(self, path: str, known: int) -> list[bytes]:
        new = self._cluster.oddities[known:]
        return [
            text.encode() for node, where, text in new if (node, where) == (self._node_id, path)
        ]

    async def _watched(self, *, wants_metadata: bool) -> Chunks:
        cluster = self._cluster
        cluster.watchers += 1
        told = len(cluster.urgent)
        try:
            yield self._event("hello", node=self._node_id, version="0",
                              cluster_id=cluster.cluster_ids[self._node_id],
                              roles=["broker", "controller"], interval_ms=250,
                              partitions=len(cluster.partitions))  # fmt: skip
            yield self._event("cluster", quorum=self._quorum(), brokers=self._brokers(),
                              directories=cluster.directories)  # fmt: skip
            for name in ("partitions", *(["metadata"] if wants_metadata else [])):
                for chunk in self._snapshot(name):
                    yield chunk
            place = odd = 0
            while True:
                await asyncio.sleep(_INTERVAL_S)
                for text in self._odd("/watch", odd):
                    yield text
                odd = len(cluster.oddities)
                some = cluster.partitions[place : place + _AT_ONCE]
                place = (place + _AT_ONCE) % max(1, len(cluster.partitions))
                if self._node_id == cluster.node_ids[0]:
                    for each in some:
                        each["end"] += 7
                some = [*cluster.urgent[told:], *some]
                told = len(cluster.urgent)
                for name in ("partitions", *(["metadata"] if wants_metadata else [])):
                    yield self._pieces(name, some, snapshot=False, left=0)
        finally:
            cluster.watchers -= 1

    def _snapshot(self, name: str) -> Iterator[bytes]:
        every = self._cluster.partitions
        for first in range(0, len(every), _AT_ONCE) or [0]:
            left = max(0, len(every) - first - _AT_ONCE)
            yield self._pieces(name, every[first : first + _AT_ONCE], snapshot=True, left=left)

    def _pieces(self, name: str, some: list[dict[str, Any]], *, snapshot: bool, left: int) -> bytes:
        if name == "partitions":
            told = [self._cluster.replica(self._node_id, each) for each in some]
        else:
            told = [{**each, "eligible": []} for each in some]
        return self._event(name, snapshot=snapshot, left=left, partitions=told)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return event_text(json_text({"at_ms": time.time_ns() // 1_000_000, **fields}), kind)

    def _quorum(self) -> dict[str, Any]:
        ids = self._cluster.node_ids
        voters = [{"id": each, "log_end_offset": 10, "lag": 0} for each in ids]
        role = "leader" if self._node_id == ids[0] else "follower"
        return {"leader": ids[0], "epoch": 1, "role": role, "high_watermark": 10,
                "log_end_offset": 10, "voters": voters}  # fmt: skip

    def _brokers(self) -> list[dict[str, Any]]:
        return [
            {"id": each, "epoch": 1, "fenced": each in self._cluster.fenced,
             "shutting_down": False, "rack": None,
             "endpoints": [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9000 + each}]}
            for each in self._cluster.node_ids
        ]  # fmt: skip


@contextmanager
def running(cluster: SimulatedCluster) -> Iterator[list[NodeListener]]:
    """The nodes, each on a port of its own, in a thread."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in cluster.node_ids]
    addresses = [
        NodeListener("127.0.0.1", listener.getsockname()[1], node_id=node_id)
        for listener, node_id in zip(listeners, cluster.node_ids, strict=True)
    ]
    loop = asyncio.new_event_loop()
    tasks: list[asyncio.Task[None]] = []
    ended = threading.Event()

    async def serve(listener: socket.socket, node: _Node) -> None:
        told = ("watch", "events", "healthz", "metrics", "state")
        routes = {f"/{name}": {"GET": getattr(node, name)} for name in told}
        server = HttpServer(loop, routes, print)
        listener.setblocking(False)

        def accept() -> None:
            with suppress(BlockingIOError):
                peer, _ = listener.accept()
                peer.setblocking(False)
                server.take(peer)

        # Not awaited: who is accepted while that is cancelled would be forgotten, and never closed.
        loop.add_reader(listener, accept)
        try:
            await asyncio.Event().wait()
        finally:
            loop.remove_reader(listener)
            await server.close()
            listener.close()

    async def serve_all() -> None:
        for listener, node_id in zip(listeners, cluster.node_ids, strict=True):
            tasks.append(loop.create_task(serve(listener, _Node(cluster, node_id))))
        await asyncio.gather(*tasks, return_exceptions=True)

    def run() -> None:
        loop.run_until_complete(serve_all())
        loop.close()
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield addresses
    finally:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
        ended.wait(10)
