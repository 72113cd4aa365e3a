"""Joins the nodes' streams while browsers look, and tells each browser what changed.

Invariant  No node is asked for anything while nobody looks.
Invariant  A node that fails, hangs or lies costs its own stream only; it is asked again and again.
Invariant  What a node tells and nobody understands is said, in the problems and in the log, and the
           rest of its stream counts. No task here ends without a word, nor for good.
Invariant  A browser that does not read is let go of, never waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from tidelog.http.messages import Chunks, json_text, strict_json
from tidelog.http.questions import NodeListener, NodeSilent, ServerSentEvent
from tidelog.http.server_sent_events import EventLine, event_text
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.monitor.snapshot import ProcessSeen
from tidelog.observe.told_event import read_event
from tidelog.view.cluster_health import ClusterHealth
from tidelog.view.cluster_picture import (
    ClusterPicture,
    NodeSeen,
    NotUnderstood,
    OtherCluster,
    PartitionHealth,
    knowledge_of_quorum,
)
from tidelog.view.cluster_snapshot import ClusterLook
from tidelog.view.node_streams import streamed_events

MOST_MICROSCOPES: Final = 4
_TELL_EVERY_S: Final = 0.05
_ASK_AGAIN_S: Final = 0.25
_ASK_A_STRANGER_AGAIN_S: Final = 5.0
_LOOK_AT_PROCESSES_S: Final = 0.5
_LOOK_AROUND_S: Final = (3.0, 15.0)
"""How long at least and at most nobody looks around after a look."""
_LOOK_REST: Final = 60
"""So many times as long as a look took, none follows it, within these bounds."""
_GO_ON_S: Final = 3.0
"""How long the streams stay open when the last browser leaves: a page that is loaded anew is back
at once."""
_EVENTS_KEPT: Final = 3000
_ROWS_AT_ONCE: Final = 1000
_EVENTS_AT_ONCE: Final = 500
_WAITING_MAX_BYTES: Final = 64 << 20
"""Enough for a first look at half a million partitions."""

_NOT_AS_DOCUMENTED: Final = (
    NotUnderstood,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)
"""What comes of reading something that is not as docs/http.md says."""

Processes = Callable[[], Mapping[str, ProcessSeen]]
"""The state of the nodes' processes by address, where they run on this machine."""
LookAround = Callable[[], Awaitable[ClusterLook]]
"""Learns what streams do not tell."""


async def nothing_more() -> ClusterLook:
    """For a cluster of which streams tell all there is to know."""
    return ClusterLook()


class Looker:
    """One browser, and what waits for it."""

    def __init__(self, microscope: Sequence[TopicPartition]) -> None:
        self.microscope = tuple(microscope)
        self.line = EventLine(_WAITING_MAX_BYTES)

    def tell(self, name: str, value: object) -> None:
        self.line.put(event_text(json_text(value), name))


class ClusterWatch:
    """The picture of a cluster, kept up to date for as long as somebody looks."""

    def __init__(
        self,
        listeners: Sequence[NodeListener],
        hello: Mapping[str, Any],
        report: Callable[[str], None],
        *,
        cluster_id: str | None = None,
        processes: Processes = dict,
        look_around: LookAround = nothing_more,
    ) -> None:
        """`report` hears of what nobody expected; without a cluster's id, the first node that
        answers says which it is."""
        self._listeners = {each.address: each for each in listeners}
        self._hello = hello
        self._report = report
        self._processes = processes
        self._look_around = look_around
        nodes = (NodeSeen(each.address, each.node_id) for each in listeners)
        self.picture = ClusterPicture(nodes, cluster_id)
        self._health = ClusterHealth(self.picture)
        self._is_member = {address: asyncio.Event() for address in self._listeners}
        self.events: list[dict[str, Any]] = []
        """The newest events of all nodes with their sentences, in order."""
        self._unsorted: deque[dict[str, Any]] = deque(maxlen=_EVENTS_KEPT)
        self._last_sequence: dict[str, int] = {}
        self._epochs: dict[tuple[str, str], list[list[int]]] = {}
        self._lookers: list[Looker] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._targets: dict[str, str] = {}
        self._metadata_from: str | None = None
        self._something = asyncio.Event()
        self._look_soon = asyncio.Event()
        self._closing: asyncio.TimerHandle | None = None
        self._cluster_told = ""

    @property
    def is_watching(self) -> bool:
        """Whether streams of nodes are open."""
        return bool(self._tasks)

    # -- browsers ------------------------------------------------------------------------------

    async def look(self, microscope: Sequence[TopicPartition] = ()) -> Chunks:
        """What one browser is sent: everything that is known, then what changes."""
        looker = Looker(microscope)
        self._lookers.append(looker)
        try:
            self._open()
            self._tell_everything(looker)
            async for chunk in looker.line.events():
                yield chunk
        finally:
            self._lookers.remove(looker)
            if not self._lookers:
                loop = asyncio.get_running_loop()
                self._closing = loop.call_later(_GO_ON_S, self.close)

    async def end(self) -> None:
        """Leave the nodes alone for good; nothing is left of it then."""
        tasks = [*self._tasks, *self._reading.values()]
        self.close()
        if self._closing is not None:
            self._closing.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        """Leave the nodes alone until somebody looks again."""
        for task in [*self._tasks, *self._reading.values()]:
            task.cancel()
        self._tasks.clear()
        self._reading.clear()
        self._targets.clear()

    def _open(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        if not self._tasks:
            work: list[Callable[[], Awaitable[None]]] = [self._tell, self._look_at_processes]
            work.append(self._look_around_again_and_again)
            for address in self._listeners:
                work += [partial(self._watch, address), partial(self._follow_events, address)]
            self._tasks = [asyncio.ensure_future(self._whatever_happens(each)) for each in work]
        self._aim()

    async def _whatever_happens(self, work: Callable[[], Awaitable[None]]) -> None:
        """Work without an end; what ends it is said, and it begins anew."""
        while True:
            try:
                await work()
            except Exception as error:
                self._report(f"the view goes on after {type(error).__name__}: {error}")
                await asyncio.sleep(_ASK_AGAIN_S)

    def _tell_everything(self, looker: Looker) -> None:
        looker.tell("hello", self._hello)
        looker.tell("cluster", self._cluster())
        rows = list(self.picture.rows.values())
        pieces = range(0, len(rows), _ROWS_AT_ONCE) or [0]
        for first in pieces:
            some = rows[first : first + _ROWS_AT_ONCE]
            looker.tell("partitions", {"snapshot": first == 0, "rows": some, "removed": []})
        for first in range(0, len(self.events), _EVENTS_AT_ONCE):
            looker.tell("events", self.events[first : first + _EVENTS_AT_ONCE])
        for name in looker.microscope:
            for node_id, replica in self.picture.replicas_of(name).items():
                looker.tell("replica", {"node": node_id, "replica": replica})
        for (address, partition), epochs in self._epochs.items():
            if partition in map(str, looker.microscope):
                told_by = self.picture.nodes[address].node_id
                kept = {partition: epochs}
                looker.tell("microscope", {"node": told_by, "epochs": kept, "happened": []})

    # -- nodes ---------------------------------------------------------------------------------

    def _aim(self) -> None:
        """Ask each node for what is looked at now; streams that ask for something else restart."""
        wanted = dict.fromkeys(name for each in self._lookers for name in each.microscope)
        under = list(wanted)[-MOST_MICROSCOPES:]
        microscope = quote(",".join(map(str, under)))
        for address in self._listeners:
            query = [f"microscope={microscope}"] if under else []
            query += ["metadata=true"] if address == self._metadata_from else []
            target = f"/watch?{'&'.join(query)}" if query else "/watch"
            if target != self._targets.get(address):
                self._targets[address] = target
                if reading := self._reading.get(address):
                    reading.cancel()

    def _choose_metadata_source(self) -> None:
        """One node tells of all partitions: the active controller, else one that knows it. A node
        that is cut off would go on telling what it knew last."""
        awake = {key: node for key, node in self.picture.nodes.items() if node.is_awake}
        best = max(awake, key=lambda key: knowledge_of_quorum(awake[key].quorum), default=None)
        present = awake.get(self._metadata_from or "")
        if best is None or (
            present is not None
            and present.quorum.get("leader", NO_LEADER) != NO_LEADER
            and awake[best].quorum.get("role") != "leader"
        ):
            return
        if best != self._metadata_from:
            self._metadata_from = best
            self._aim()

    async def _watch(self, address: str) -> None:
        """Keep one node's `/watch` open."""
        me = asyncio.current_task()
        while True:
            reading = asyncio.ensure_future(self._read_watch(address))
            self._reading[address] = reading
            try:
                await reading
            except (NodeSilent, OtherCluster) as error:
                self._is_member[address].clear()
                self.picture.lost(address, str(error))
                self._something.set()
                is_stranger = isinstance(error, OtherCluster)
                await asyncio.sleep(_ASK_A_STRANGER_AGAIN_S if is_stranger else _ASK_AGAIN_S)
            except asyncio.CancelledError:
                if me is None or me.cancelling():
                    reading.cancel()
                    raise

    async def _read_watch(self, address: str) -> None:
        stream = streamed_events(self._listeners[address], self._targets[address])
        async with aclosing(stream):
            async for events in stream:
                if not events:
                    self.picture.begins_anew(address, "/watch")
                for event in events:
                    self._take(address, event)
                self._something.set()

    def _take(self, address: str, event: ServerSentEvent) -> None:
        """One event of a node's `/watch`, or the news that it cannot be understood."""
        try:
            told = strict_json(event.data)
            self.picture.hear(address, event.name, told)
            if event.name == "hello":
                self.picture.connected(address)
                self._is_member[address].set()
            self._hand_on(address, event.name, told)
        except _NOT_AS_DOCUMENTED as error:
            self._not_understood(address, "/watch", error, event.name)
            if event.name == "hello":
                raise NodeSilent("it does not say who it is as a node does") from error

    def _not_understood(self, address: str, path: str, error: Exception, name: str = "") -> None:
        why = str(error) if isinstance(error, NotUnderstood) else f"{type(error).__name__}: {error}"
        what = f"{name} of {path}: {why}" if name else f"{path}: {why}"
        if self.picture.not_understood(address, path, what):
            self._report(f"the node at {address} tells what is not understood here: {what}")

    def _hand_on(self, address: str, name: str, told: Mapping[str, Any]) -> None:
        """Tell the browsers that look through a microscope what it is about, as it comes."""
        lookers = [each for each in self._lookers if each.microscope]
        if not lookers:
            return
        node_id = self.picture.nodes[address].node_id
        if name == "partitions":
            for replica in told["partitions"]:
                place = TopicPartition(replica["topic"], replica["partition"])
                for looker in lookers:
                    if place in looker.microscope:
                        about = {"node": node_id, "at_ms": told["at_ms"], "replica": replica}
                        looker.tell("replica", about)
        elif name == "microscope":
            for partition, epochs in told["epochs"].items():
                self._epochs[address, partition] = epochs
            for looker in lookers:
                looker.tell("microscope", {"node": node_id, **_part_for(looker, told)})

    async def _follow_events(self, address: str) -> None:
        """Keep one node's `/events` open, from where it was left, once it is known to be one of
        the cluster."""
        while True:
            await self._is_member[address].wait()
            last = self._last_sequence.get(address)
            target = "/events" if last is None else f"/events?after={last}"
            try:
                async with aclosing(streamed_events(self._listeners[address], target)) as stream:
                    async for events in stream:
                        if not events:
                            self.picture.begins_anew(address, "/events")
                        for event in events:
                            if event.name == "message":
                                self._take_event(address, event.data)
                        self._something.set()
            except NodeSilent:
                await asyncio.sleep(_ASK_AGAIN_S)

    def _take_event(self, address: str, data: str) -> None:
        event = read_event(data)
        if event is None:
            self._not_understood(address, "/events", NotUnderstood(f"{data:.120}"))
            return
        self._last_sequence[address] = event.sequence
        self._unsorted.append({**event.entry(), "sentence": event.sentence})

    async def _look_at_processes(self) -> None:
        while True:
            for address, process in self._processes().items():
                self.picture.process_is(address, process)
            self._something.set()
            await asyncio.sleep(_LOOK_AT_PROCESSES_S)

    async def _look_around_again_and_again(self) -> None:
        while True:
            turns = {address: node.turns for address, node in self.picture.nodes.items()}
            self._look_soon.clear()
            began = time.monotonic()
            self._health.learn(await self._look_around(), turns)
            self._something.set()
            least, most = _LOOK_AROUND_S
            rest = min(most, max(least, _LOOK_REST * (time.monotonic() - began)))
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._look_soon.wait()

    # -- telling -------------------------------------------------------------------------------

    async def _tell(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            self._choose_metadata_source()
            self._tell_events()
            self._tell_changes()
            await asyncio.sleep(_TELL_EVERY_S)

    def _tell_events(self) -> None:
        new = sorted(self._unsorted, key=_moment)
        self._unsorted.clear()
        if not new:
            return
        if any(each.get("unclean") for each in new):
            self._look_soon.set()
        self.events = sorted([*self.events, *new], key=_moment)[-_EVENTS_KEPT:]
        for first in range(0, len(new), _EVENTS_AT_ONCE):
            self._tell_all("events", new[first : first + _EVENTS_AT_ONCE])

    def _tell_changes(self) -> None:
        changes = self.picture.take_changes()
        for first in range(0, len(changes.rows), _ROWS_AT_ONCE):
            some = changes.rows[first : first + _ROWS_AT_ONCE]
            self._tell_all("partitions", {"snapshot": False, "rows": some, "removed": []})
        if changes.removed:
            told = {"snapshot": False, "rows": [], "removed": changes.removed}
            self._tell_all("partitions", told)
        searched = self._health.find_problems(changed=changes.cluster)
        if searched:  # it may have found that leaders do not answer
            self._something.set()
        if searched or changes.cluster:
            cluster = json_text(self._cluster())
            if cluster != self._cluster_told:
                self._cluster_told = cluster
                self._tell_all_text("cluster", cluster)

    def _tell_all(self, name: str, value: object) -> None:
        self._tell_all_text(name, json_text(value))

    def _tell_all_text(self, name: str, text: str) -> None:
        event = event_text(text, name)
        for looker in self._lookers:
            looker.line.put(event)

    def _cluster(self) -> dict[str, Any]:
        picture = self.picture
        return {
            "nodes": [_node_json(node) for node in picture.nodes.values()],
            "brokers": picture.brokers,
            "quorum": picture.quorum,
            "problems": self._health.problems,
            "not_told": self._health.not_told,
            "partitions": len(picture.rows),
            "health": {
                health.name.lower().replace("_", "-"): len(picture.by_health[health])
                for health in PartitionHealth
            },
        }


def _part_for(looker: Looker, told: Mapping[str, Any]) -> dict[str, Any]:
    names = {str(name) for name in looker.microscope}
    return {
        "at_ms": told["at_ms"],
        "dropped": told["dropped"],
        "epochs": {name: epochs for name, epochs in told["epochs"].items() if name in names},
        "happened": [
            each for each in told["happened"] if f"{each['topic']}-{each['partition']}" in names
        ],
    }


def _node_json(node: NodeSeen) -> dict[str, Any]:
    return {
        "id": node.node_id,
        "address": node.address,
        "connected": node.is_connected,
        "awake": node.is_awake,
        "why": node.why_not or "",
        "version": node.version,
        "roles": list(node.roles),
        "process": None if node.process is None else node.process._asdict(),
    }


def _moment(event: Mapping[str, Any]) -> tuple[str, int, int]:
    return str(event["at"]), int(event["node"]), int(event["seq"])
