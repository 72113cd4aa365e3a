"""Those who look at a node live: one look at what changed serves all of them.

Invariant  While nobody looks, the node notes nothing and no timer runs.
Invariant  Looking takes a fiftieth of one core at most: a dear look puts off the next one.
Invariant  A look that fails ends the streams, never the node.
Invariant  Each of them is told of changes in the order in which they were seen, also while it is
           still being told of everything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from tidelog.http.messages import Chunks, json_text
from tidelog.http.server_sent_events import EventLine, event_text
from tidelog.model.ids import TopicPartition
from tidelog.node.inspection.inspection import Inspection
from tidelog.node.inspection.state import JsonObject
from tidelog.node.inspection.watching import TOLD_MAX, MagnifiedHappenings
from tidelog.shell.clock import read_clock

WATCHERS_MAX: Final = 8
INTERVAL_S: Final = 0.25
_REST_FOR_WORK: Final = 60
_BETWEEN_PIECES_S: Final = 0.02

Describe: TypeAlias = Callable[[Iterable[TopicPartition]], list[JsonObject]]


class _Watcher:
    """One of them."""

    def __init__(self, magnified: frozenset[TopicPartition], wants_metadata: bool) -> None:
        self.magnified = magnified
        self.wants_metadata = wants_metadata
        self.line = EventLine()


class LiveWatchers:
    """All of them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        inspection: Inspection,
        report: Callable[[str], None],
    ) -> None:
        """`report` hears of looks that failed."""
        self._loop = loop
        self._inspection = inspection
        self._report = report
        self._watchers: dict[_Watcher, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._surroundings = ""

    def __len__(self) -> int:
        return len(self._watchers)

    @property
    def are_enough(self) -> bool:
        return len(self._watchers) >= WATCHERS_MAX

    async def stream(self, magnified: frozenset[TopicPartition], wants_metadata: bool) -> Chunks:
        """What one of them is told."""
        watcher = _Watcher(magnified, wants_metadata)
        self._add(watcher)
        watching = self._inspection.watching
        try:
            for event in self._greeting():
                yield event
            replicas = watching.replicas()
            pieces = [("partitions", replicas, watching.describe_replicas)]
            if wants_metadata:
                pieces.append(("metadata", watching.partitions(), watching.describe_partitions))
            for name, partitions, describe in pieces:
                for left, some in _in_pieces(partitions):
                    yield _partitions_event(name, describe(some), left, snapshot=True)
                    if left:
                        await asyncio.sleep(_BETWEEN_PIECES_S)
                    for event in watcher.line.take():
                        yield event
            async for event in watcher.line.events():
                yield event
        finally:
            self._remove(watcher)

    def _greeting(self) -> Iterable[bytes]:
        now = read_clock()
        hello = {
            "at_ms": now.wall_ms,
            **self._inspection.node(),
            "interval_ms": round(INTERVAL_S * 1000),
            "partitions": len(self._inspection.watching.replicas()),
        }
        yield event_text(json_text(hello), "hello")
        surroundings = self._inspection.surroundings(now)
        yield event_text(json_text({"at_ms": now.wall_ms, **surroundings}), "cluster")

    # -- coming and going ----------------------------------------------------------------------

    def _add(self, watcher: _Watcher) -> None:
        self._watchers[watcher] = None
        self._inspection.watching.begin()
        self._magnify()
        if self._timer is None:
            self._timer = self._loop.call_later(INTERVAL_S, self._look)

    def _remove(self, watcher: _Watcher) -> None:
        del self._watchers[watcher]
        if self._watchers:
            self._magnify()
            return
        self._inspection.watching.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _magnify(self) -> None:
        self._inspection.watching.magnify(
            frozenset().union(*(watcher.magnified for watcher in self._watchers))
        )

    # -- looking -------------------------------------------------------------------------------

    def _look(self) -> None:
        began = time.thread_time()
        try:
            self._tell_changes()
        except Exception as error:
            self._report(f"/watch: {type(error).__name__}: {error}")
            for watcher in self._watchers:
                watcher.line.end()
        work_s = time.thread_time() - began
        pause_s = max(INTERVAL_S, work_s * _REST_FOR_WORK)
        self._timer = self._loop.call_later(pause_s, self._look)

    def _tell_changes(self) -> None:
        self._tell_surroundings()
        watching = self._inspection.watching
        replicas = watching.changed_replicas()
        if replicas.partitions:
            self._tell(_partitions_event("partitions", replicas.partitions, replicas.left))
        partitions = watching.changed_partitions()
        if partitions.partitions and any(each.wants_metadata for each in self._watchers):
            event = _partitions_event("metadata", partitions.partitions, partitions.left)
            self._tell(event, lambda watcher: watcher.wants_metadata)
        self._tell_happenings(watching.happenings())

    def _tell_surroundings(self) -> None:
        now = read_clock()
        surroundings = json_text(self._inspection.surroundings(now))
        if surroundings != self._surroundings:
            self._surroundings = surroundings
            self._tell(event_text(f'{{"at_ms":{now.wall_ms},{surroundings[1:]}', "cluster"))

    def _tell_happenings(self, seen: MagnifiedHappenings) -> None:
        if not (seen.happened or seen.epochs or seen.dropped):
            return
        at_ms = read_clock().wall_ms
        for watcher in self._watchers:
            names = {(name.topic, name.partition) for name in watcher.magnified}
            happened = [
                each for each in seen.happened if (each["topic"], each["partition"]) in names
            ]
            epochs = {
                str(name): seen.epochs[name] for name in watcher.magnified & seen.epochs.keys()
            }
            if happened or epochs:
                told = {
                    "at_ms": at_ms,
                    "dropped": seen.dropped,
                    "epochs": epochs,
                    "happened": happened,
                }
                watcher.line.put(event_text(json_text(told), "microscope"))

    def _tell(self, event: bytes, is_for: Callable[[_Watcher], bool] = lambda _: True) -> None:
        for watcher in self._watchers:
            if is_for(watcher):
                watcher.line.put(event)


def _partitions_event(
    name: str, partitions: list[JsonObject], left: int, *, snapshot: bool = False
) -> bytes:
    told = {
        "at_ms": read_clock().wall_ms,
        "snapshot": snapshot,
        "left": left,
        "partitions": partitions,
    }
    return event_text(json_text(told), name)


def _in_pieces(
    partitions: Sequence[TopicPartition],
) -> Iterable[tuple[int, Sequence[TopicPartition]]]:
    """Some of them and how many are left, until none is; at least once."""
    for start in range(0, max(1, len(partitions)), TOLD_MAX):
        piece = partitions[start : start + TOLD_MAX]
        yield len(partitions) - start - len(piece), piece
