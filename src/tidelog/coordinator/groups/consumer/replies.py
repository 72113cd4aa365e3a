"""What members of the consumer protocol ask and are answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidelog.coordinator.groups.topics import IdPartition


class Heartbeat(NamedTuple):
    """A member that lives, and what it tells; None is what has not changed."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    """-1 when it has not changed."""
    subscribed_topic_names: tuple[str, ...] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    owned: frozenset[IdPartition] | None
    client_id: str
    client_host: str

    @property
    def tells_everything(self) -> bool:
        """Whether the member wants to hear everything, too."""
        return self.member_epoch == 0 or (
            self.rebalance_timeout_ms != -1
            and self.owned is not None
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """The member's epoch, and what it has to read when that is news."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: frozenset[IdPartition] | None = None
