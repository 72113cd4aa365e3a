"""Whether a controller may take a broker for dead, by what the network carried between the two.

    beat       a heartbeat of the broker was handed to the controller
    hang-up    the newest connection that heartbeats of its last incarnation came on has ended, or
               the last one

Invariant  Nothing that the controller remembers counts. When it decided is when its log grew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tidelog.node.core.effects import OpenLink, SendOnLink
from tidelog.node.core.inputs import (
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    LinkClosed,
    LinkFrame,
    LinkOpened,
)
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.parts import joined
from tidelog.simulator.rules.carried import api_of, heartbeat_epoch, metadata_follower
from tidelog.simulator.world.happenings import Started, Stepped
from tidelog.simulator.world.machine import Machine

CLOCKS_AGREE: Final = 0.99
"""Drifting clocks differ by less than that."""


class Excuse(Enum):
    """Why a controller could take a broker for dead."""

    SILENT = "it was silent for a session"
    HUNG_UP = "it hung up and did not come back"


@dataclass(slots=True)
class _Peer:
    """What a controller can have noticed of an address."""

    beats_ms: list[int] = field(default_factory=list)
    hang_ups_ms: list[int] = field(default_factory=list)
    epoch: int = -1
    """The broker epoch of the newest incarnation that was heard of."""
    beats_on: set[int] = field(default_factory=set)
    """The open connections on which that one sent heartbeats."""
    departures_ms: list[int] = field(default_factory=list)
    """When it refused a connection, or ended one over which the controller followed its metadata
    log."""
    is_away: bool = False
    """It left and has not answered there since."""

    def beat(self, number: int, epoch: int, ms: int) -> None:
        self.beats_ms.append(ms)
        if epoch > self.epoch:
            self.epoch = epoch
            self.beats_on.clear()
        if epoch == self.epoch:
            self.beats_on.add(number)

    def closed(self, number: int, ms: int) -> None:
        if number in self.beats_on:
            self.beats_on.remove(number)
            if all(other < number for other in self.beats_on):
                self.hang_ups_ms.append(ms)

    def is_silent_at(self, ms: int, active_ms: int, session_ms: int) -> bool:
        """Whether nothing was heard of it for a session."""
        return ms - max(self._beat_before(ms), active_ms) >= session_ms * CLOCKS_AGREE

    def _beat_before(self, ms: int) -> int:
        return max((each for each in self.beats_ms if each < ms), default=0)

    def is_gone_at(self, ms: int, active_ms: int, grace_ms: int) -> bool:
        """Whether it hung up and did not come back in time."""
        beat_ms = self._beat_before(ms)
        heard_ms = max(beat_ms, active_ms)
        patience_ms = grace_ms * CLOCKS_AGREE
        hung_up = any(heard_ms <= each <= ms - patience_ms for each in self.hang_ups_ms)
        # An answer is no sign of the broker: its next process may give it before it registers.
        left = self.is_away or any(beat_ms <= each <= ms for each in self.departures_ms)
        has_left = left and beat_ms <= active_ms <= ms - patience_ms
        return grace_ms > 0 and (hung_up or has_left)


class SignsOfLife:
    """What every controller was told by everybody, in the present life of each controller."""

    def __init__(self) -> None:
        self._peers: dict[int, defaultdict[str, _Peer]] = {}
        self._hosts: dict[tuple[int, int], str] = {}
        """Who is at the other end of the connections of each controller; links are negative."""
        self._followed: set[tuple[int, int]] = set()
        """Links that are not open yet, or over which a controller fetches metadata."""
        self._grown: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        """When the metadata log of each controller reached which end."""

    def hear(self, machine: Machine, happening: Started | Stepped, now_ms: int) -> None:
        """A controller took a step."""
        own = machine.node_id
        if isinstance(happening, Started):
            self._forget(own)
        else:
            self._note(own, happening, now_ms)
        for effect in happening.effects:
            if type(effect) is OpenLink:
                self._hosts[own, -effect.link] = effect.host
                self._followed.add((own, -effect.link))
            elif type(effect) is SendOnLink and metadata_follower(joined(effect.parts)) is not None:
                self._followed.add((own, -effect.link))
        if machine.node is not None:
            grown, end = self._grown[own], machine.node.quorum.log.end_offset
            while grown and grown[-1][1] > end:  # what was cut off is decided anew
                grown.pop()
            if not grown or grown[-1][1] != end:
                grown.append((now_ms, end))

    def _forget(self, own: int) -> None:
        self._peers[own] = defaultdict(_Peer)
        self._grown.pop(own, None)
        self._hosts = {key: host for key, host in self._hosts.items() if key[0] != own}
        self._followed = {key for key in self._followed if key[0] != own}

    def _note(self, own: int, step: Stepped, now_ms: int) -> None:
        match step.happened:
            case ConnectionOpened(connection=number, peer_host=host):
                self._hosts[own, number] = host
            case FrameArrived(connection=number) if api_of(step.frame) == ApiKey.BROKER_HEARTBEAT:
                peer = self._peers[own][self._hosts[own, number]]
                peer.beat(number, heartbeat_epoch(step.frame), now_ms)
            case ConnectionClosed(connection=number):
                self._peers[own][self._hosts.pop((own, number), "")].closed(number, now_ms)
            case LinkOpened(link=number):
                self._followed.discard((own, -number))
            case LinkFrame(link=number) if (own, -number) in self._followed:
                self._peers[own][self._hosts[own, -number]].is_away = False
            case LinkClosed(link=number, by_peer=by_peer) if (own, -number) in self._followed:
                self._followed.discard((own, -number))
                if not by_peer:
                    return
                peer = self._peers[own][self._hosts[own, -number]]
                peer.departures_ms.append(now_ms)
                peer.is_away = True
            case _:
                pass

    def excuse(
        self,
        controller: Machine,
        address: str,
        active_ms: int,
        ends: tuple[int, int],
        now_ms: int,
    ) -> Excuse | None:
        """Why somebody could be taken for dead when the log grew from one end to the other."""
        node = controller.node
        if node is None:
            return Excuse.SILENT
        config = node.cluster.config
        peer = self._peers[controller.node_id][address]
        session_ms, grace_ms = config.broker_session_timeout_ms, config.broker_disconnect_grace_ms
        moments = list(self._moments(controller.node_id, peer, ends, now_ms))
        if any(peer.is_silent_at(ms, active_ms, session_ms) for ms in moments):
            return Excuse.SILENT
        if any(peer.is_gone_at(ms, active_ms, grace_ms) for ms in moments):
            return Excuse.HUNG_UP
        return None

    def _moments(self, own: int, peer: _Peer, ends: tuple[int, int], now_ms: int) -> Iterator[int]:
        """When the decision may have been taken: at the last moment, or before a heartbeat."""
        grown = self._grown[own]
        first_ms = next((ms for ms, end in grown if end > ends[0]), now_ms)
        last_ms = next((ms for ms, end in grown if end >= ends[1]), now_ms)
        yield last_ms
        yield from (ms for ms in peer.beats_ms if first_ms <= ms <= last_ms)
