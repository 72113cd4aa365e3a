"""What is seen of a voter."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tidelog.quorum.election_state import ElectionState
from tidelog.quorum.fetching import MetadataFetch
from tidelog.quorum.messages import LogEnd


class LogEntry(NamedTuple):
    """A batch of the log."""

    offset: int
    next_offset: int
    epoch: int
    content: bytes


Log: TypeAlias = tuple[LogEntry, ...]


class Seen(NamedTuple):
    """All that a voter is: two voters of the same id of which the same is seen behave the same."""

    node_id: int
    role: str
    epoch: int
    leader_id: int
    is_active: bool
    voter_ids: tuple[int, ...]
    log: Log
    lasting_end: int
    """Where the log would end after a loss of power."""
    high_watermark: int
    stored: ElectionState
    """As it stands on disk."""
    wants: MetadataFetch | None
    """What it fetches next, or now."""
    is_syncing: bool
    stands_in_ms: int | None
    """How long until it gives up what it is doing; None when it never does."""
    looks_in_ms: int | None
    """How long until it has something to do, giving up included."""
    hidden: object
    """What is left of its memory, times as seen from now."""
    disk: bytes
    """Digest of the files, and of what a loss of power would leave of them."""

    @property
    def log_end(self) -> LogEnd:
        last = self.log[-1] if self.log else LogEntry(0, 0, 0, b"")
        return LogEnd(last.epoch, last.next_offset)
