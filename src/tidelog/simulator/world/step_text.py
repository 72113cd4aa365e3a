"""One input of a node as one line of the trace.

Invariant  A line names what arrived, how long it was and a checksum of its bytes, so that two
           traces are equal only if every byte was.
"""

from __future__ import annotations

from typing import Final, assert_never
from zlib import crc32

from tidelog.node.core.inputs import (
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Input,
    JobFinished,
    LinkClosed,
    LinkFrame,
    LinkOpened,
    RequestTook,
    StopRequested,
    TickEnded,
    TimePassed,
)
from tidelog.protocol.apis import ApiKey

_API_NAMES: Final = {int(key): key.name for key in ApiKey}


def step_text(happened: Input) -> str:
    """What a node is told, in a few words."""
    match happened:
        case TickEnded():
            return "tick"
        case FrameArrived(_, connection, frame):
            return f"< {connection} {request_text(frame)}"
        case LinkFrame(_, link, frame):
            return f"< link {link} {len(frame)} B {crc32(frame):08x}"
        case TimePassed():
            return "timer"
        case ConnectionOpened(_, connection, listener, peer_host):
            return f"+ {connection} {peer_host} at {listener}"
        case ConnectionClosed(_, connection, reason):
            return f"- {connection} {reason}"
        case LinkOpened(_, link):
            return f"+ link {link}"
        case LinkClosed(_, link, reason):
            return f"- link {link} {reason}"
        case RequestTook(_, nanoseconds):
            return f"the request took {nanoseconds} ns"
        case JobFinished(_, job_id, error):
            return f"job {job_id} {error or 'done'}"
        case StopRequested(_, reason):
            return f"asked to stop: {reason}"
        case _:
            assert_never(happened)


def request_text(frame: memoryview) -> str:
    """A request by its name and version."""
    key = int.from_bytes(frame[:2], "big")
    version = int.from_bytes(frame[2:4], "big")
    return f"{_API_NAMES.get(key, key)} v{version} {len(frame)} B {crc32(frame):08x}"
