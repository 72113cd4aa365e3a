"""What members of the consumer protocol ask (ConsumerGroupHeartbeat) and are answered, and what a
request must look like, whatever the group is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.coordinator.groups.consumer.member import AWAY_EPOCH, JOINING_EPOCH, LEAVING_EPOCH
from tidelog.coordinator.groups.topics import IdPartition
from tidelog.model.errors import ErrorCode, Refusal

OWN_IDS_SINCE: Final = 1
"""From this version on members make their ids themselves (KIP-1082)."""


class ConsumerGroupHeartbeat(NamedTuple):
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
    may_describe: Callable[[str], bool] | None = None
    """Of topics that an expression matches, those that count; None for all."""

    @property
    def tells_everything(self) -> bool:
        """Whether the member wants to hear everything, too."""
        return self.member_epoch == 0 or (
            self.rebalance_timeout_ms != -1
            and self.owned is not None
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatReply:
    """The member's epoch, and what it has to read when that is news."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: frozenset[IdPartition] | None = None


def invalid(
    beat: ConsumerGroupHeartbeat, version: int, assignors: tuple[str, ...]
) -> Refusal | None:
    """Why nobody can act on a heartbeat."""
    why = _malformed(beat, version)
    if why is not None:
        return Refusal(ErrorCode.invalid_request, why)
    if beat.server_assignor is not None and beat.server_assignor not in assignors:
        why = (
            f"ServerAssignor {beat.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}."
        )
        return Refusal(ErrorCode.unsupported_assignor, why)
    return None


def _malformed(beat: ConsumerGroupHeartbeat, version: int) -> str | None:
    for name, text in (
        ("GroupId", beat.group_id),
        ("InstanceId", beat.instance_id),
        ("RackId", beat.rack_id),
    ):
        if text is not None and _is_blank(text):
            return f"{name} can't be empty."
    may_be_nobody = beat.member_epoch == JOINING_EPOCH and version < OWN_IDS_SINCE
    if _is_blank(beat.member_id) and not may_be_nobody:
        return "MemberId can't be empty."
    if beat.member_epoch == JOINING_EPOCH:
        return _malformed_join(beat)
    if beat.member_epoch == AWAY_EPOCH and beat.instance_id is None:
        return "InstanceId can't be null."
    if beat.member_epoch < 0 and beat.member_epoch not in (LEAVING_EPOCH, AWAY_EPOCH):
        return f"MemberEpoch {beat.member_epoch} is invalid."
    return None


def _malformed_join(beat: ConsumerGroupHeartbeat) -> str | None:
    if beat.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if beat.owned is None or beat.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if beat.subscribed_topic_names is None and not beat.subscribed_topic_regex:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be set in first request."
    return None


def _is_blank(text: str) -> bool:
    """Whether nothing is left of it in the eyes of Java, which trims all control characters."""
    return all(character <= " " for character in text)
