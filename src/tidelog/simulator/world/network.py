"""Connections between simulated hosts, with the manners of TCP.

What is sent on a connection arrives whole and in order, later, or never: a lost packet is a delay,
a cut path a silence that ends when the path is mended or somebody gives up. A process that dies
says goodbye through its kernel; a machine that loses power does not, and whoever talks to it finds
out when it is back, or by waiting. Who closes a connection has its kernel go on until everything
has arrived, the goodbye last; who resets one has it stop at once: what is on the wire may arrive,
then the reset, if that is not lost.

Invariant  Of one direction of one connection a prefix arrives, in order; a frame that was broken
           off in the middle never arrives.
Invariant  Each end hears of its end once, or never if it closed itself.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.simulator.world.conditions import Conditions
from tidelog.simulator.world.dice import stream
from tidelog.simulator.world.paths import Paths
from tidelog.simulator.world.timeline import Timeline

SEND_AGAIN_US: Final = 200_000
GIVE_UP_US: Final = 60_000_000
TIMED_OUT: Final = "connection timed out"
"""The end of a connection whose peer is silent; all others say something."""
CONNECT_TRIES: Final = 2
CONNECT_AGAIN_US: Final = 1_000_000
"""A kernel knocks again after a second, and a shell gives up after two (`LinkLimits`)."""


class Goodbye(NamedTuple):
    """The last thing on a connection whose sender closed it."""

    reason: str


class _Reset(NamedTuple):
    """Said once and never again: the connection is no more."""


_Item: TypeAlias = bytes | Goodbye | _Reset


class Host(Protocol):
    """Whoever has an address: a machine or a client."""

    @property
    def name(self) -> str: ...

    @property
    def zone(self) -> str:
        """Its own name, or the one by which it is cut off together with others."""
        ...

    @property
    def address(self) -> str: ...

    @property
    def powered(self) -> bool:
        """Whether anything answers there at all, be it only that a port is closed."""
        ...

    def listening(self, port: int) -> str | None:
        """The name of the listener that is open at this port."""
        ...

    def accepted(self, end: End, listener: str, peer_address: str) -> None: ...

    def connected(self, end: End) -> None: ...

    def frame_arrived(self, end: End, frame: bytes) -> None: ...

    def disconnected(self, end: End, reason: str) -> None: ...


class End:
    """One side of a connection; `number` is what its host calls it."""

    __slots__ = (
        "arrives_us",
        "closed",
        "delivering",
        "dice",
        "free_us",
        "host",
        "number",
        "peer",
        "queue",
        "serial",
        "stuck_since_us",
        "was_reset",
    )

    def __init__(self, serial: int, host: Host, number: int, dice: Random) -> None:
        self.serial = serial
        self.host = host
        self.number = number
        self.dice = dice
        self.peer: End | None = None
        self.closed = False
        self.was_reset = False
        self.queue: deque[tuple[int, int, _Item]] = deque()
        """When each arrives, when it departs for the time that gets through, and what it is."""
        self.delivering = False
        self.arrives_us = 0
        self.free_us = 0
        self.stuck_since_us: int | None = None


class Network:
    """All connections, and the paths they run over."""

    def __init__(self, timeline: Timeline, conditions: Conditions, seed: int) -> None:
        self.paths = Paths()
        self._timeline = timeline
        self._conditions = conditions
        self._seed = seed
        self._hosts: dict[str, Host] = {}
        self._serial = 0
        self._connections: dict[int, End] = {}
        self._stuck: dict[int, tuple[End, End]] = {}
        self._broken_us: dict[frozenset[str], int] = {}
        """When a fault of the world last ended a connection between two addresses."""

    def add(self, host: Host) -> None:
        """Give a host its place in the network."""
        self._hosts[host.address] = host

    @property
    def open_connections(self) -> int:
        """Connections of which at least one end believes in them."""
        return len(self._connections)

    # What hosts do.

    def connect(self, host: Host, number: int, address: str, port: int, departs_us: int) -> End:
        """Ask for a connection; `connected` or `disconnected` tells what became of it."""
        near = self._end(host, number)
        latency_us = sum(self._travel_us(near, address))
        self._timeline.at(departs_us + latency_us, self._knock, near, address, port, 1)
        return near

    def send(self, end: End, frame: bytes, departs_us: int) -> None:
        """Put one frame on its way; lost without a word if the end is closed."""
        if not end.closed and end.peer is not None:
            self._put(end, end.peer, frame, len(frame), departs_us)

    def close(self, end: End, reason: str, departs_us: int) -> None:
        """Close after everything sent before has gone out; this end hears nothing any more."""
        if end.closed:
            return
        end.closed = True
        if end.peer is not None:
            self._put(end, end.peer, Goodbye(reason), 0, departs_us)
            self._forget_if_over(end)

    def reset(self, end: End, departs_us: int) -> None:
        """Close at once: what has not got through is not sent again, and neither is the reset."""
        if end.closed:
            return
        end.closed = end.was_reset = True
        queue, peer = end.queue, end.peer
        while queue and queue[-1][1] > departs_us:
            queue.pop()
        end.free_us, end.arrives_us = departs_us, queue[-1][0] if queue else departs_us
        if end.stuck_since_us is not None:
            self._stop_trying(end)
        elif peer is not None:
            _, lost_us = travel = self._travel_us(end, peer.host.address)
            if not lost_us:
                self._put(end, peer, _Reset(), 0, departs_us, travel)
        self._forget_if_over(end)

    def abort(self, end: End, reason: str) -> None:
        """The process died: what its kernel had not sent yet may be gone; it says goodbye."""
        if not end.closed:
            self._lose_tail(end)
            self.close(end, reason, self._timeline.now_us)

    def vanish(self, end: End) -> None:
        """The machine lost power: what was under way may arrive, and then nothing."""
        if not end.closed:
            self._lose_tail(end)
            end.closed = True
            self._forget_if_over(end)

    # What befalls them.

    def reset_between(self, one: str, other: str) -> int:
        """Break every connection between two hosts, in the middle of whatever it carries."""
        broken = 0
        for near in list(self._connections.values()):
            far = near.peer
            if far is not None and _are(near.host, far.host, one, other):
                broken += 1
                self.note_fault(near)
                for end in (near, far):
                    end.queue.clear()
                    self._hang_up(end, "connection reset")
        return broken

    def note_fault(self, end: End) -> None:
        """A connection ends for a fault of the world around its two processes."""
        if end.peer is not None:
            addresses = frozenset((end.host.address, end.peer.host.address))
            self._broken_us[addresses] = self._timeline.now_us

    def were_broken_since(self, one: str, other: str, ms: int) -> bool:
        """Whether a fault of the world ended connections between two addresses since that time."""
        return self._broken_us.get(frozenset((one, other)), -1) >= ms * 1000

    def paths_changed(self) -> None:
        """Something may get through again: what waited is sent once more."""
        for end, peer in list(self._stuck.values()):
            if not self._is_blocked(end, peer):
                del self._stuck[end.serial]
                end.stuck_since_us = None
                end.delivering = True
                again_us = end.dice.randrange(SEND_AGAIN_US)
                self._timeline.at(self._timeline.now_us + again_us, self._deliver, end)

    # Connecting.

    def _end(self, host: Host, number: int) -> End:
        self._serial += 1
        return End(self._serial, host, number, stream(self._seed, "network", self._serial))

    def _knock(self, near: End, address: str, port: int, tries: int) -> None:
        if near.closed:
            return
        target = self._hosts.get(address)
        now_us = self._timeline.now_us
        if target is not None and (not target.powered or self._is_cut(near.host, target)):
            later_us = now_us + CONNECT_AGAIN_US
            if tries == CONNECT_TRIES:
                self._timeline.at(later_us, self._hang_up, near, TIMED_OUT)
            else:
                self._timeline.at(later_us, self._knock, near, address, port, tries + 1)
            return
        answer_us = now_us + sum(self._travel_us(near, address))
        listener = None if target is None else target.listening(port)
        if target is None or listener is None:
            self._timeline.at(answer_us, self._hang_up, near, "connection refused")
            return
        far = self._end(target, 0)
        near.peer, far.peer = far, near
        self._connections[near.serial] = near
        target.accepted(far, listener, near.host.address)
        self._timeline.at(answer_us, self._established, near)

    def _established(self, near: End) -> None:
        if not near.closed:
            near.host.connected(near)

    # Carrying.

    def _put(
        self,
        end: End,
        peer: End,
        item: _Item,
        size: int,
        departs_us: int,
        travel: tuple[int, int] | None = None,
    ) -> None:
        slow = self.paths.slowness(end.host, peer.host)
        rate = self._conditions.bytes_per_s
        if slow is not None:
            rate = min(rate, slow.bytes_per_s)
        end.free_us = max(end.free_us, departs_us) + size * 1_000_000 // rate
        latency_us, again_us = travel or self._travel_us(end, peer.host.address)
        end.arrives_us = max(end.arrives_us, end.free_us + latency_us + again_us)
        end.queue.append((end.arrives_us, end.free_us + again_us, item))
        if not end.delivering and end.stuck_since_us is None:
            end.delivering = True
            self._timeline.at(end.arrives_us, self._deliver, end)

    def _travel_us(self, end: End, address: str) -> tuple[int, int]:
        """How long a message is under way, and how much later it departs, having been lost."""
        conditions, dice = self._conditions, end.dice
        latency_us = conditions.latency_us
        if conditions.jitter_us:
            latency_us += int(dice.expovariate(1.0) * conditions.jitter_us)
        loss_ppm = conditions.loss_ppm
        target = self._hosts.get(address)
        slow = None if target is None else self.paths.slowness(end.host, target)
        if slow is not None:
            latency_us += slow.latency_us
            loss_ppm = max(loss_ppm, slow.loss_ppm)
        later_us, again_us = 0, SEND_AGAIN_US
        while loss_ppm and dice.randrange(1_000_000) < loss_ppm:
            later_us += again_us
            again_us *= 2
        return latency_us, later_us

    def _deliver(self, end: End) -> None:
        """The first thing in the queue arrives, or finds that it cannot."""
        queue, peer = end.queue, end.peer
        if not queue or peer is None:
            end.delivering = False
            return
        if self._is_blocked(end, peer):
            end.delivering = False
            if end.was_reset:
                queue.clear()
            else:
                self._stick(end, peer)
            return
        _, _, item = queue.popleft()
        if queue:
            self._timeline.at(queue[0][0], self._deliver, end)
        else:
            end.delivering = False
        if peer.closed:
            # Nobody is there any more, and the kernel at that address says so.
            back_us = self._timeline.now_us + sum(self._travel_us(peer, end.host.address))
            self._timeline.at(back_us, self._hang_up, end, "connection reset by peer")
        elif isinstance(item, Goodbye):
            self._hang_up(peer, item.reason)
        elif isinstance(item, _Reset):
            self._hang_up(peer, "connection reset by peer")
        else:
            peer.host.frame_arrived(peer, item)

    def _is_blocked(self, end: End, peer: End) -> bool:
        there = peer.host
        if not there.powered or self.paths.is_cut(end.host, there):
            return True
        # What was sent to a closed end matters only if word of that can come back.
        return peer.closed and self.paths.is_cut(there, end.host)

    def _is_cut(self, one: Host, other: Host) -> bool:
        return self.paths.is_cut(one, other) or self.paths.is_cut(other, one)

    def _stick(self, end: End, peer: End) -> None:
        end.stuck_since_us = self._timeline.now_us
        self._stuck[end.serial] = (end, peer)
        self._timeline.at(
            self._timeline.now_us + GIVE_UP_US, self._give_up, end, end.stuck_since_us
        )

    def _give_up(self, end: End, since_us: int) -> None:
        if end.stuck_since_us == since_us:
            self._stop_trying(end)
            self._hang_up(end, TIMED_OUT)

    def _stop_trying(self, end: End) -> None:
        del self._stuck[end.serial]
        end.stuck_since_us = None
        end.queue.clear()

    # Ending.

    def _lose_tail(self, end: End) -> None:
        for _ in range(end.dice.randrange(len(end.queue) + 1)):
            end.queue.pop()

    def _hang_up(self, end: End, reason: str) -> None:
        if end.closed:
            return
        end.closed = True
        self._forget_if_over(end)
        end.host.disconnected(end, reason)

    def _forget_if_over(self, end: End) -> None:
        peer = end.peer
        if peer is not None and peer.closed:
            self._connections.pop(min(end.serial, peer.serial), None)


def _are(near: Host, far: Host, one: str, other: str) -> bool:
    """Whether these are the two hosts named, in either order."""
    return (one in (near.name, near.zone) and other in (far.name, far.zone)) or (
        other in (near.name, near.zone) and one in (far.name, far.zone)
    )
