"""ConsumerGroupHeartbeat: join, stay, follow the target, leave.

Invariant  A member that comes with another epoch than its own is fenced: it must give everything
           up and join anew. The epoch before is accepted while it owns nothing it was not given,
           because the answer that raised it may have been lost.
Invariant  A target is computed at most once per assignment interval, so that members who come or go
           together cost one; until then the last target stands, and members are told to report
           as soon as the next one is due.
Invariant  A static member's place is taken over only after it said that it would be back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeAlias

from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.consumer.group_update import ConsumerGroupUpdate
from tidelog.coordinator.groups.consumer.member import (
    AWAY_EPOCH,
    JOINING_EPOCH,
    NOBODY,
    ConsumerMember,
    MemberState,
)
from tidelog.coordinator.groups.consumer.messages import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
)
from tidelog.coordinator.groups.consumer.reconciliation import reconcile
from tidelog.coordinator.groups.consumer.regex import malformed, resolve_all
from tidelog.coordinator.groups.consumer.sessions import Sessions, TimesOf
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.topics import IdPartition, Topics
from tidelog.coordinator.result import CoordinatorResult
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.protocol.stored.groups import ConsumerGroupMemberMetadataValue

HeartbeatResult: TypeAlias = CoordinatorResult[GroupRecord, ConsumerGroupHeartbeatReply]


class Heartbeats:
    """Keeps members alive and moves them on."""

    def __init__(
        self, config: NodeConfig, times_of: TimesOf, topics: Topics, sessions: Sessions
    ) -> None:
        self._config = config
        self._times_of = times_of
        self._topics = topics
        self._sessions = sessions

    # -- staying -------------------------------------------------------------------------------

    def heartbeat(
        self, update: ConsumerGroupUpdate, beat: ConsumerGroupHeartbeat, now: Now
    ) -> HeartbeatResult | Refusal:
        """A member joins or lives; it is moved on towards the target."""
        group = update.group
        is_full = len(group.members) >= self._config.group_consumer_max_size
        if is_full and beat.member_id not in group.members:
            why = "The consumer group has reached its maximum capacity."
            return Refusal(ErrorCode.group_max_size_reached, why)
        if beat.subscribed_topic_regex:
            refusal = malformed(beat.subscribed_topic_regex)
            if refusal is not None:
                return refusal
        refusal = self._find(update, beat)
        if refusal is not None:
            return refusal
        known = update.group.members.get(beat.member_id)
        update.write_member(beat.member_id, told(known, beat))
        member = self.move_on(update, beat.member_id, known, beat.owned, now, beat.may_describe)
        self._sessions.heard_of(group.group_id, member, now)
        is_news = known is None or known.assigned.keys() != member.assigned.keys()
        interval_ms = self._times_of(group.group_id).heartbeat_interval_ms
        if update.group.epoch > update.group.target_epoch:
            interval_ms = min(interval_ms, self._target_due_in_ms(update.group, now))
        return CoordinatorResult(
            tuple(update.records),
            ConsumerGroupHeartbeatReply(
                member_id=member.member_id,
                member_epoch=member.epoch,
                heartbeat_interval_ms=interval_ms,
                assignment=frozenset(member.assigned) if is_news or beat.tells_everything else None,
            ),
        )

    def move_on(
        self,
        update: ConsumerGroupUpdate,
        member_id: str,
        known: ConsumerMember | None,
        owned: Collection[IdPartition] | None,
        now: Now,
        may_describe: Callable[[str], bool] | None = None,
    ) -> ConsumerMember:
        """Raise the group epoch if something changed, renew the target, reconcile the member."""
        if self._has_news(update, update.group.members[member_id], known, now, may_describe):
            update.raise_epoch(self._topics)
        is_old = update.group.epoch > update.group.target_epoch
        if is_old and self._target_due_in_ms(update.group, now) <= 0:
            update.write_target(self._topics, self._config.group_consumer_assignors[0], now)
        member = reconcile(update.group, update.group.members[member_id], owned)
        update.write_current(member)
        return member

    def is_behind(self, group: ConsumerGroup, member: ConsumerMember, now: Now) -> bool:
        """Whether there is a newer target than the member's, or there would be if it came."""
        is_old = group.epoch > group.target_epoch
        is_due = is_old and self._target_due_in_ms(group, now) <= 0
        return is_due or member.epoch < group.target_epoch

    def _target_due_in_ms(self, group: ConsumerGroup, now: Now) -> int:
        """How long the last target still stands.

        By the wall clock, which the next coordinator has too; one that was set back ends the wait.
        """
        stood_ms = now.wall_ms - group.target_wall_ms
        interval_ms = self._times_of(group.group_id).assignment_interval_ms
        return interval_ms - stood_ms if 0 <= stood_ms < interval_ms else 0

    def _has_news(
        self,
        update: ConsumerGroupUpdate,
        member: ConsumerMember,
        known: ConsumerMember | None,
        now: Now,
        may_describe: Callable[[str], bool] | None,
    ) -> bool:
        had = None if known is None else _subscription(known)
        changed = _subscription(member) != had
        if changed or update.group.topics_seen != self._topics.version:
            changed = resolve_all(update, self._topics, now, may_describe) or changed
        return update.note_topics(self._topics) or changed

    # -- who it is -----------------------------------------------------------------------------

    def _find(self, update: ConsumerGroupUpdate, beat: ConsumerGroupHeartbeat) -> Refusal | None:
        """Whether the member may go by this id and epoch; a static one may take its place again."""
        group = update.group
        if beat.instance_id is not None:
            known = group.static_member(beat.instance_id)
            if beat.member_epoch == JOINING_EPOCH:
                return None if known is None else self._take_place(update, known, beat)
            if known is None:
                return _unknown(f"Instance id {beat.instance_id} is unknown.")
            if known.member_id != beat.member_id:
                why = f"Instance id {beat.instance_id} is used by another member."
                return Refusal(ErrorCode.fenced_instance_id, why)
        member = group.members.get(beat.member_id)
        if member is None:
            if beat.member_epoch == JOINING_EPOCH:
                return None
            return _unknown(f"Member {beat.member_id} is not a member of {group.group_id}.")
        return _epoch_refused(member, beat)

    def _take_place(
        self, update: ConsumerGroupUpdate, known: ConsumerMember, beat: ConsumerGroupHeartbeat
    ) -> Refusal | None:
        """A static member comes back under another id, and goes on with what it was to have."""
        if known.member_id == beat.member_id:
            return _epoch_refused(known, beat)
        if known.epoch != AWAY_EPOCH and known.classic is None:
            why = f"Instance id {beat.instance_id} is in use by member {known.member_id}."
            return Refusal(ErrorCode.unreleased_instance_id, why)
        replace_member(update, known, beat.member_id)
        return None

    # -- leaving -------------------------------------------------------------------------------

    def leave(
        self, group: ConsumerGroup, beat: ConsumerGroupHeartbeat, now: Now
    ) -> HeartbeatResult | Refusal:
        """A member goes; a static one may be back."""
        member = group.members.get(beat.member_id)
        if beat.instance_id is not None:
            member = group.static_member(beat.instance_id)
            if member is not None and member.member_id != beat.member_id:
                why = f"Instance id {beat.instance_id} is used by another member."
                return Refusal(ErrorCode.fenced_instance_id, why)
        if member is None:
            return _unknown(f"Member {beat.member_id} is not a member of {group.group_id}.")
        reply = ConsumerGroupHeartbeatReply(
            member_id=beat.member_id, member_epoch=beat.member_epoch
        )
        if beat.member_epoch == AWAY_EPOCH:
            update = ConsumerGroupUpdate(group)
            update.write_current(
                replace(member, epoch=AWAY_EPOCH, state=MemberState.STABLE, to_revoke={})
            )
            return CoordinatorResult(tuple(update.records), reply)
        left = self._sessions.members_left(group, [member.member_id], now)
        return CoordinatorResult(left.records, reply, left.late)


def told(
    known: ConsumerMember | None, beat: ConsumerGroupHeartbeat
) -> ConsumerGroupMemberMetadataValue:
    """What is known of a member after it told what changed."""
    before = NOBODY if known is None else known.metadata
    names, expression = beat.subscribed_topic_names, beat.subscribed_topic_regex
    timeout_ms = beat.rebalance_timeout_ms
    return ConsumerGroupMemberMetadataValue(
        instance_id=beat.instance_id or before.instance_id,
        rack_id=beat.rack_id or before.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        subscribed_topic_names=before.subscribed_topic_names
        if names is None
        else tuple(sorted(set(names))),
        subscribed_topic_regex=before.subscribed_topic_regex
        if expression is None
        else expression or None,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=beat.server_assignor or before.server_assignor,
        classic_member_metadata=None,
    )


def replace_member(update: ConsumerGroupUpdate, known: ConsumerMember, new_id: str) -> None:
    """Another process goes by a static member's instance id: it gets its place."""
    target = update.group.target_of(known.member_id)
    update.remove_member(known.member_id)
    update.write_member(new_id, known.metadata)
    update.write_member_target(new_id, target)
    update.write_current(
        replace(
            known,
            member_id=new_id,
            epoch=JOINING_EPOCH,
            previous_epoch=JOINING_EPOCH,
            state=MemberState.STABLE,
            to_revoke={},
        )
    )


def _subscription(member: ConsumerMember) -> tuple[object, ...]:
    return member.metadata.subscribed_topic_names, member.metadata.subscribed_topic_regex


def _unknown(why: str) -> Refusal:
    return Refusal(ErrorCode.unknown_member_id, why)


def _epoch_refused(member: ConsumerMember, beat: ConsumerGroupHeartbeat) -> Refusal | None:
    if beat.member_epoch in (member.epoch, JOINING_EPOCH):
        return None
    is_previous = beat.member_epoch == member.previous_epoch < member.epoch
    if is_previous and beat.owned is not None and beat.owned <= member.assigned.keys():
        return None
    why = (
        f"The member is in epoch {member.epoch}, not {beat.member_epoch}; it must abandon all its "
        "partitions and rejoin."
    )
    return Refusal(ErrorCode.fenced_member_epoch, why)
