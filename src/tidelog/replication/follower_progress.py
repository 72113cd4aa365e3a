"""How far one follower has come, as its leader knows it.

Invariant  A follower is caught up when it has everything, or had everything the leader held at
           some moment within the allowed lag: neither its last fetch nor a lag in bytes counts.
Invariant  Silence costs nobody anything: while the leader appends nothing, a follower that lacks
           nothing goes on lacking nothing. Nobody looks at it then; when the leader appends, its
           time counts from the last moment at which it was known to be there.
Invariant  Nothing is known of a follower before its first fetch in the leader's epoch: in an epoch
           of somebody else, of which this leader need not have heard, it may have been cut back.
"""

from __future__ import annotations

from typing import Final

from tidelog.replication.messages import UNKNOWN_OFFSET, FollowerFetch, Listening

LONG_AGO: Final = -(1 << 62)
"""Before any lag that a setting could allow, on a clock that may begin at 0."""


class FollowerProgress:
    """One remote replica within one leader epoch."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "end_offset",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "listening",
        "start_offset",
    )

    def __init__(self, broker_id: int, last_caught_up_ms: int = LONG_AGO) -> None:
        self.broker_id = broker_id
        self.broker_epoch: int | None = None
        """What its last fetch said; None before the first one."""
        self.start_offset = UNKNOWN_OFFSET
        self.end_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end = UNKNOWN_OFFSET
        self.last_fetch_ms = LONG_AGO
        self.last_caught_up_ms = last_caught_up_ms
        self.listening: Listening | None = None

    def fetched(self, fetch: FollowerFetch, now_ms: int) -> None:
        """Take in a fetch."""
        offset, leader_end = fetch.fetch_offset, fetch.leader_end_before_read
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.broker_epoch = fetch.broker_epoch
        self.start_offset = fetch.log_start_offset
        self.end_offset = offset
        self.last_fetch_leader_end = max(self.last_fetch_leader_end, leader_end)
        self.last_fetch_ms = now_ms
        self.listening = fetch.listening

    def leader_grows(self, end_before: int, now_ms: int) -> None:
        """The leader appends behind `end_before`: to a follower at that end nothing was lacking."""
        if self.listening is not None and self.end_offset >= end_before:
            heard_ms = self.listening.last_heard_ms(now_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, heard_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it belongs, or may stay, among the in-sync replicas as far as lag goes."""
        return self.end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_max_ms
