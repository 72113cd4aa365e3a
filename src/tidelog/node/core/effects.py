"""Everything a node can ask of the world: the complete border, outward.

Effects are carried out in list order. A promise to someone else (an answer) always stands
behind the write that makes it true: storage is written inside `step`, before its effects exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from tidelog.model.settings.setting import MAX_INT
from tidelog.observe.events import Event
from tidelog.protocol.fetch import Part


class Send(NamedTuple):
    """Write one answer: its length as four bytes, then the parts, one after the other."""

    connection: int
    parts: list[Part]


class Close(NamedTuple):
    """Close the connection once everything sent before has been written."""

    connection: int
    reason: str


class PauseReading(NamedTuple):
    """Too many unanswered requests, or more than a quota allows: take no more from this peer."""

    connection: int


class ResumeReading(NamedTuple):
    """The peer may be read again."""

    connection: int


class OpenLink(NamedTuple):
    """Connect to another node; `link` is a number that was never used before."""

    link: int
    host: str
    port: int
    listener: str = ""
    """The name of the listener there, which says how it is spoken to; empty, as it is."""


class SendOnLink(NamedTuple):
    """Write one request to an opened link: its length as four bytes, then the parts."""

    link: int
    parts: list[Part]


class CloseLink(NamedTuple):
    """Reset a link at once, opened or not; nothing more is reported about it.

    What was sent and is not at the peer yet is not sent again: it may still arrive, but not late.
    """

    link: int
    reason: str


class LimitFrames(NamedTuple):
    """From now on take no larger frames than this from a peer."""

    connection: int
    most_bytes: int


class OpenListeners(NamedTuple):
    """The node is ready for peers on these listeners: start accepting connections."""

    names: tuple[str, ...]


class LimitConnections(NamedTuple):
    """From now on take no more connections than so many, from one address and in all, and no more
    in a second."""

    per_host: int
    in_all: int
    of_hosts: Mapping[str, int] = MappingProxyType({})
    """How many addresses may have for which `per_host` does not count."""
    rate: int = MAX_INT
    rate_per_host: int = MAX_INT
    rates_of_hosts: Mapping[str, int] = MappingProxyType({})
    """The rates of addresses for which `rate_per_host` does not count."""


class MeasureRequests(NamedTuple):
    """From now on report how long the step of each request took, or report it no more."""

    is_wanted: bool


class Lane(Enum):
    """Which jobs run one after the other; those of different lanes do not wait for each other."""

    QUORUM = "quorum"
    """What the quorum promises: its log and its votes. Nothing else may hold these up."""
    CHECKPOINTS = "checkpoints"
    """The small files that say where logs stand."""
    FLUSHES = "flushes"
    """Records of data logs, for which writers may wait."""
    LONG = "long"
    """What nobody waits for from one moment to the next: cleaning, loading, snapshots."""


class RunJob(NamedTuple):
    """Run blocking work (an fsync) away from the loop, then report `JobFinished`.

    Jobs of one lane run one after the other, in the order in which they were asked for.
    """

    job_id: int
    work: Callable[[], None]
    lane: Lane


class Announce(NamedTuple):
    """Something happened that people may want to see."""

    event: Event


class Stopped(NamedTuple):
    """Everything is on disk and closed; the process may end. `failure` says why it must."""

    failure: str | None


Effect: TypeAlias = (
    Send
    | Close
    | PauseReading
    | ResumeReading
    | OpenLink
    | SendOnLink
    | CloseLink
    | LimitFrames
    | OpenListeners
    | LimitConnections
    | MeasureRequests
    | RunJob
    | Announce
    | Stopped
)
