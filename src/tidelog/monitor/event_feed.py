"""The events of all nodes of a cluster as one stream, in the order of their time.

A node of a cluster on this machine is read where it keeps its journal, whether it runs or not;
others tell over HTTP.

Invariant  Each event is told once, and none is left out while a node restarts or is out of reach:
           reading goes on behind the last event that was read.
Invariant  Events are in order as far as they arrive within `SETTLING_S` of each other; none waits
           any longer.
Invariant  All nodes are asked at once: one that is silent costs the patience with a single node.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Final, Protocol

from tidelog.client.errors import Unreachable
from tidelog.http.questions import NodeListener, NodeSilent
from tidelog.local.local_cluster import LocalCluster
from tidelog.monitor.node_survey import PATIENCE_S
from tidelog.observe.told_event import ToldEvent, in_order, read_event
from tidelog.shell.event_history import JournalReader

SETTLING_S: Final = 0.3
_LOOK_EVERY_S: Final = 0.1
_SILENCE_S: Final = 30.0
"""A node says every 10 s that it is still there."""
_RETRY_S: Final = 1.0
_THREADS: Final = 32
_JOURNAL: Final = "events.jsonl"
Say = Callable[[str], None]


class EventSource(Protocol):
    """Where the events of one node come from."""

    def kept(self, since_ms: int) -> list[ToldEvent]:
        """Those that are kept, from a moment on."""
        ...

    def arrived(self) -> list[ToldEvent]:
        """Those that have come since the last time; never waits for one."""
        ...

    def follow(self, since_ms: int, say: Say) -> None:
        """From now on let events of that moment and later arrive."""
        ...

    def close(self) -> None:
        """Nobody listens any more."""
        ...


class LocalJournal:
    """The journal of a node on this machine."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._reader = JournalReader(path, 0)
        self._since_ms = 0

    def kept(self, since_ms: int) -> list[ToldEvent]:
        with closing(JournalReader(self._path, 0)) as reader:
            return self._read(reader, since_ms)

    def arrived(self) -> list[ToldEvent]:
        return self._read(self._reader, self._since_ms)

    def follow(self, since_ms: int, say: Say) -> None:
        self._since_ms = since_ms

    def close(self) -> None:
        self._reader.close()

    def _read(self, reader: JournalReader, since_ms: int) -> list[ToldEvent]:
        found: list[ToldEvent] = []
        while lines := reader.read():
            events = (read_event(line) for _, line in lines)
            found += [event for event in events if event is not None and event.at_ms >= since_ms]
        return found


class RemoteJournal:
    """The journal of a node that tells it over HTTP."""

    def __init__(self, listener: NodeListener) -> None:
        self._listener = listener
        self._arrived: queue.SimpleQueue[ToldEvent] = queue.SimpleQueue()
        self._read_up_to = 0
        self._closed = threading.Event()

    def kept(self, since_ms: int) -> list[ToldEvent]:
        found = []
        for sent in self._listener.stream("/events?follow=false", PATIENCE_S):
            event = read_event(sent.data) if sent.name == "message" else None
            if event is not None and event.at_ms >= since_ms:
                found.append(event)
        return found

    def arrived(self) -> list[ToldEvent]:
        found = []
        while not self._arrived.empty():
            found.append(self._arrived.get_nowait())
        return found

    def follow(self, since_ms: int, say: Say) -> None:
        reading = threading.Thread(target=self._follow, args=(since_ms, say), daemon=True)
        reading.start()

    def close(self) -> None:
        self._closed.set()

    def _follow(self, since_ms: int, say: Say) -> None:
        is_silent = False
        while not self._closed.is_set():
            try:
                path = f"/events?after={self._read_up_to}"
                for sent in self._listener.stream(path, _SILENCE_S):
                    if is_silent:
                        say(f"{self._listener} answers again")
                        is_silent = False
                    self._take(sent.name, sent.data, since_ms, say)
            except NodeSilent as silent:
                if not is_silent:
                    say(f"{silent}; its events follow when it answers again")
                is_silent = True
            self._closed.wait(_RETRY_S)

    def _take(self, name: str, data: str, since_ms: int, say: Say) -> None:
        if name == "gap":
            try:
                gap = json.loads(data)
                missing = f"{gap['after'] + 1} to {gap['oldest'] - 1}"
            except (ValueError, LookupError, TypeError):
                missing = "that were asked for"
            say(f"{self._listener} no longer has its events {missing}")
            return
        event = read_event(data)
        if event is not None:
            self._read_up_to = event.sequence
            if event.at_ms >= since_ms:
                self._arrived.put(event)


class Settling:
    """Events that wait a moment for others that happened before them."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, ToldEvent]] = []

    def put(self, events: Sequence[ToldEvent], now_s: float) -> None:
        self._waiting += [(now_s, event) for event in events]

    def take(self, now_s: float) -> list[ToldEvent]:
        """Those that have waited long enough, and all that happened before them."""
        ripe = [event.at_ms for came_s, event in self._waiting if now_s - came_s >= SETTLING_S]
        if not ripe:
            return []
        up_to_ms = max(ripe)
        taken = [event for _, event in self._waiting if event.at_ms <= up_to_ms]
        self._waiting = [each for each in self._waiting if each[1].at_ms > up_to_ms]
        return in_order(taken)


def local_journals(cluster: LocalCluster) -> list[LocalJournal]:
    """The journals of all nodes of a cluster on this machine."""
    return [LocalJournal(str(node.data / _JOURNAL)) for node in cluster.nodes.values()]


def kept_events(sources: Sequence[EventSource], since_ms: int, say: Say) -> list[ToldEvent]:
    """What the nodes still have, in order; who does not answer is named, and `Unreachable` is
    raised when nobody does."""
    found: list[ToldEvent] = []
    silent: list[NodeSilent] = []
    with ThreadPoolExecutor(max(1, min(_THREADS, len(sources)))) as threads:
        asked = [threads.submit(source.kept, since_ms) for source in sources]
    for each in asked:
        try:
            found += each.result()
        except NodeSilent as error:
            silent.append(error)
    if silent and len(silent) == len(sources):
        raise Unreachable("; ".join(map(str, silent)))
    for missing in silent:
        say(f"{missing}; its events are missing here")
    return in_order(found)


def followed_events(sources: Sequence[EventSource], since_ms: int, say: Say) -> Iterator[ToldEvent]:
    """What happens, from a moment on, without an end."""
    settling = Settling()
    for source in sources:
        source.follow(since_ms, say)
    try:
        while True:
            for source in sources:
                settling.put(source.arrived(), time.monotonic())
            yield from settling.take(time.monotonic())
            time.sleep(_LOOK_EVERY_S)
    finally:
        for source in sources:
            source.close()
