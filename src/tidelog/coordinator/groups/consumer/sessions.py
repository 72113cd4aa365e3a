"""The end of members: silence, partitions not given back in time, leaving."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.consumer.group_update import ConsumerGroupUpdate
from tidelog.coordinator.groups.consumer.member import ConsumerMember, MemberState
from tidelog.coordinator.groups.group import NOTHING, GroupStep
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.topics import Topics
from tidelog.coordinator.result import CoordinatorResult
from tidelog.coordinator.shard import CoordinatorTimer
from tidelog.model.settings.group import GroupTimes
from tidelog.model.time import Now

TimesOf: TypeAlias = Callable[[str], GroupTimes]
"""How a group keeps time, by its settings now."""
FindGroup: TypeAlias = Callable[[str], ConsumerGroup | None]
Downgrade: TypeAlias = Callable[[ConsumerGroup, ConsumerGroup, Now], list[GroupRecord] | None]


class Sessions:
    """Timers of members; `find` gives the group as it is when one fires.

    `downgrade` is given a group as it is and as it will be, and may end it in favour of a classic
    one when nobody else is left in it.
    """

    def __init__(
        self,
        timers: CoordinatorTimer[GroupRecord],
        times_of: TimesOf,
        topics: Topics,
        find: FindGroup,
        downgrade: Downgrade,
    ) -> None:
        self._timers = timers
        self._times_of = times_of
        self._topics = topics
        self._find = find
        self._downgrade = downgrade

    def heard_of(self, group_id: str, member: ConsumerMember, now: Now) -> None:
        """A member lives; if it has to give something back, it has to do so in time."""
        member_id = member.member_id
        session_ms = self._times_of(group_id).session_timeout_ms
        if member.classic is not None:
            session_ms = member.classic.session_timeout_ms
        self._fence_at(("session", group_id, member_id), now.monotonic_ms + session_ms)
        if member.classic is not None:
            return
        key = ("revocation", group_id, member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.cancel(key)
            return
        epoch, due_ms = member.epoch, now.monotonic_ms + member.metadata.rebalance_timeout_ms
        self._timers.set(key, due_ms, lambda later: self._fence(group_id, member_id, later, epoch))

    def expects(self, what: str, group_id: str, member: ConsumerMember, now: Now) -> None:
        """A member of the classic protocol has to join or sync within its rebalance timeout."""
        due_ms = now.monotonic_ms + member.metadata.rebalance_timeout_ms
        self._fence_at((what, group_id, member.member_id), due_ms)

    def expects_no_more(self, what: str, group_id: str, member_id: str) -> None:
        self._timers.cancel((what, group_id, member_id))

    def _fence_at(self, key: tuple[str, str, str], due_ms: int) -> None:
        _, group_id, member_id = key
        self._timers.set(key, due_ms, lambda later: self._fence(group_id, member_id, later))

    def _fence(
        self, group_id: str, member_id: str, now: Now, in_epoch: int | None = None
    ) -> GroupStep:
        group = self._find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or in_epoch not in (None, member.epoch):
            return NOTHING
        return self.members_left(group, [member_id], now)

    def members_left(self, group: ConsumerGroup, member_ids: Iterable[str], now: Now) -> GroupStep:
        """Remove members; the others get what they had.

        Their timers stay: they find nobody, unless this is never written.
        """
        update = ConsumerGroupUpdate(group)
        for member_id in member_ids:
            update.remove_member(member_id)
        update.raise_epoch(self._topics)
        records = self._downgrade(group, update.group, now) or update.records
        return CoordinatorResult(tuple(records), None)
