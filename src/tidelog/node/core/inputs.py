"""Everything that can happen to a node: the complete border, inward.

Invariant  An input carries the time at which it happened; a node never asks for it.
Invariant  The bytes of `FrameArrived.frame` and `LinkFrame.frame` belong to the shell: they are
           valid, and may be patched in place, only until `step` returns.
Invariant  Of a link that `OpenLink` asked for, the node hears either `LinkClosed` at once, or
           `LinkOpened`, its frames and `LinkClosed`, in this order; after a `CloseLink` nothing.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tidelog.model.time import Now


class ConnectionOpened(NamedTuple):
    """A peer connected to one of our listeners."""

    now: Now
    connection: int
    listener: str
    peer_host: str
    certificate: bytes | None = None
    """What the peer has shown of itself and was found good, in DER."""


class FrameArrived(NamedTuple):
    """One whole request, without its length field."""

    now: Now
    connection: int
    frame: memoryview


class RequestTook(NamedTuple):
    """So long the step of the `FrameArrived` before took, if `MeasureRequests` asked for it."""

    now: Now
    nanoseconds: int


class ConnectionClosed(NamedTuple):
    """The peer went away, or the shell closed the connection."""

    now: Now
    connection: int
    reason: str


class LinkOpened(NamedTuple):
    """The peer that `OpenLink` named can be asked."""

    now: Now
    link: int


class LinkFrame(NamedTuple):
    """One whole answer of that peer, without its length field."""

    now: Now
    link: int
    frame: memoryview


class LinkClosed(NamedTuple):
    """The peer cannot be reached (refused, unknown, silent), or the link to it broke."""

    now: Now
    link: int
    reason: str
    by_peer: bool = True
    """Whether the peer, or the system it runs on, said so; False when it was silent."""


class TimePassed(NamedTuple):
    """`next_deadline_ms` has been reached."""

    now: Now


class TickEnded(NamedTuple):
    """The shell has handed over everything that was ready: the moment to wake who waits."""

    now: Now


class JobFinished(NamedTuple):
    """Blocking work that a `RunJob` effect asked for has ended."""

    now: Now
    job_id: int
    error: str | None


class StopRequested(NamedTuple):
    """Somebody asked the node to stop in an orderly way."""

    now: Now
    reason: str


Input: TypeAlias = (
    ConnectionOpened
    | FrameArrived
    | RequestTook
    | ConnectionClosed
    | LinkOpened
    | LinkFrame
    | LinkClosed
    | TimePassed
    | TickEnded
    | JobFinished
    | StopRequested
)
