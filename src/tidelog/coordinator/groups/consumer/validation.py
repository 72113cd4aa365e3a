"""What a heartbeat of the consumer protocol must look like, whatever the group is."""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.groups.consumer.member import AWAY_EPOCH, JOINING_EPOCH, LEAVING_EPOCH
from tidelog.coordinator.groups.consumer.replies import Heartbeat
from tidelog.model.errors import ErrorCode, Refusal

OWN_IDS_SINCE: Final = 1
"""From this version on members make their ids themselves (KIP-1082)."""


def invalid(beat: Heartbeat, version: int, assignors: tuple[str, ...]) -> Refusal | None:
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


def _malformed(beat: Heartbeat, version: int) -> str | None:
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


def _malformed_join(beat: Heartbeat) -> str | None:
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
