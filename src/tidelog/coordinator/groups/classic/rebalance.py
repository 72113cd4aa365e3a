"""How a classic group comes to its next generation.

Invariant  A generation begins when every known member has joined, or when the longest rebalance
           timeout among them has passed; then those who did not join are gone, static ones
           excepted, who keep their place until their session ends.
Invariant  A group is empty once that is written, and not before: until then it tries again.
Invariant  Whoever waits for a join or a sync is answered by the decision that makes it moot.
"""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.groups.classic.group import ClassicGroup, ClassicGroupState
from tidelog.coordinator.groups.classic.member import ClassicMember, JoinGroupReply, SyncGroupReply
from tidelog.coordinator.groups.group import NOTHING, GroupStep
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.result import CoordinatorResult, LateReply
from tidelog.coordinator.shard import CoordinatorTimer
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now

NEW_MEMBER_JOIN_MS: Final = 300_000
EMPTY_AGAIN_MS: Final = 1_000


class Rebalance:
    """Moves groups from state to state; keeps no state of its own."""

    def __init__(self, timers: CoordinatorTimer[GroupRecord], config: NodeConfig) -> None:
        self._timers = timers
        self._initial_delay_ms = config.group_initial_rebalance_delay_ms

    # -- sessions ------------------------------------------------------------------------------

    def heard_of(
        self, group: ClassicGroup, member: ClassicMember, now: Now, within_ms: int | None = None
    ) -> None:
        """A member lives: it need not be heard of for another session."""
        member_id = member.member_id
        timeout_ms = member.session_timeout_ms if within_ms is None else within_ms
        self._timers.set(
            _session(group, member_id),
            now.monotonic_ms + timeout_ms,
            lambda later: self._session_ended(group, member_id, later),
        )

    def expects_join(self, group: ClassicGroup, member_id: str, within_ms: int, now: Now) -> None:
        """A member id was given out; it must come back with it."""
        group.pending_joins.add(member_id)
        self._timers.set(
            _session(group, member_id),
            now.monotonic_ms + within_ms,
            lambda later: self._session_ended(group, member_id, later),
        )

    def forget_session(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(_session(group, member_id))

    def _session_ended(self, group: ClassicGroup, member_id: str, now: Now) -> GroupStep:
        if member_id in group.pending_joins:
            group.remove(member_id)
            return self.complete_if_all_joined(group, now)
        member = group.members.get(member_id)
        if member is None or member.is_heard_of:
            return NOTHING
        return self.members_left(group, [member_id], now)

    # -- leaving -------------------------------------------------------------------------------

    def members_left(self, group: ClassicGroup, member_ids: list[str], now: Now) -> GroupStep:
        """Remove members; what waits of theirs is answered, and the others rebalance."""
        gone: list[LateReply] = []
        for member_id in member_ids:
            self.forget_session(group, member_id)
            member = group.remove(member_id)
            if member is not None:
                gone += _dismissed(member, ErrorCode.unknown_member_id)
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING):
            step = self.prepare(group, now)
        else:
            step = self.complete_if_all_joined(group, now)
        return CoordinatorResult(step.records, None, (*gone, *step.late))

    # -- joining -------------------------------------------------------------------------------

    def prepare_or_complete(self, group: ClassicGroup, now: Now) -> GroupStep:
        """Members or their metadata changed: begin a rebalance, or see whether it is done."""
        if group.state is ClassicGroupState.PREPARING:
            return NOTHING if group.was_empty else self.complete_if_all_joined(group, now)
        return self.prepare(group, now)

    def prepare(self, group: ClassicGroup, now: Now) -> GroupStep:
        """Call on all members to join again."""
        late: tuple[LateReply, ...] = ()
        if group.state is ClassicGroupState.COMPLETING:
            late = _rebalancing(group)
        group.pending_syncs.clear()
        self._timers.cancel(_sync(group))
        group.becomes(ClassicGroupState.PREPARING, now)
        if group.was_empty:
            group.got_new_member = False
            remaining_ms = max(group.rebalance_timeout_ms - self._initial_delay_ms, 0)
            self._wait_for_others(group, self._initial_delay_ms, remaining_ms, now)
            return CoordinatorResult((), None, late)
        if group.have_all_joined:
            step = self._complete(group, now)
            return CoordinatorResult(step.records, None, (*late, *step.late))
        self._wait_for_joins(group, now)
        return CoordinatorResult((), None, late)

    def complete_if_all_joined(self, group: ClassicGroup, now: Now) -> GroupStep:
        """Begin the generation if nobody is missing; a first one waits for its delay."""
        if (
            group.state is ClassicGroupState.PREPARING
            and not group.was_empty
            and group.have_all_joined
        ):
            return self._complete(group, now)
        return NOTHING

    def _wait_for_joins(self, group: ClassicGroup, now: Now) -> None:
        due_ms = now.monotonic_ms + group.rebalance_timeout_ms
        self._timers.set(_join(group), due_ms, lambda later: self._complete(group, later))

    def _wait_for_others(
        self, group: ClassicGroup, delay_ms: int, remaining_ms: int, now: Now
    ) -> None:
        """Give others the time to join a new group, and more while they arrive."""

        def delay_over(later: Now) -> GroupStep:
            if group.got_new_member and remaining_ms > 0:
                group.got_new_member = False
                next_ms = min(self._initial_delay_ms, remaining_ms)
                self._wait_for_others(group, next_ms, max(remaining_ms - delay_ms, 0), later)
                return NOTHING
            return self._complete(group, later)

        self._timers.set(_join(group), now.monotonic_ms + delay_ms, delay_over)

    def _complete(self, group: ClassicGroup, now: Now) -> GroupStep:
        if group.state is not ClassicGroupState.PREPARING:
            return NOTHING
        self._timers.cancel(_join(group))
        for member in list(group.members.values()):
            if member.awaits_join is None and not member.is_static:
                self.forget_session(group, member.member_id)
                group.remove(member.member_id)
        if not group.elect_joined_leader() and group.members:
            self._wait_for_joins(group, now)
            return NOTHING
        if not group.members:
            again_ms = now.monotonic_ms + EMPTY_AGAIN_MS
            self._timers.set(_join(group), again_ms, lambda later: self._complete(group, later))
            return CoordinatorResult((group.emptied(now),), None)
        group.begin_generation(now)
        late = []
        for member in group.members.values():
            if member.awaits_join is not None:
                late.append(LateReply(member.awaits_join, joined(group, member.member_id)))
                member.awaits_join = None
            member.is_new = False
            self.heard_of(group, member, now)
        group.pending_syncs = set(group.members)
        generation = group.generation
        self._timers.set(
            _sync(group),
            now.monotonic_ms + group.rebalance_timeout_ms,
            lambda later: self._syncs_overdue(group, generation, later),
        )
        return CoordinatorResult((), None, tuple(late))

    def abandon(self, group: ClassicGroup) -> None:
        """The group has changed its protocol: nothing more is to come of it."""
        self._timers.cancel(_join(group))
        self._timers.cancel(_sync(group))

    def dismiss_all(self, group: ClassicGroup) -> tuple[LateReply, ...]:
        """The group is to change its protocol: whoever waits joins again, in the new one."""
        late: list[LateReply] = []
        for member in group.members.values():
            late += _dismissed(member, ErrorCode.rebalance_in_progress)
        return tuple(late)

    # -- syncing -------------------------------------------------------------------------------

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """A member asked for its assignment."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self._timers.cancel(_sync(group))

    def _syncs_overdue(self, group: ClassicGroup, generation: int, now: Now) -> GroupStep:
        overdue = sorted(group.pending_syncs)
        if generation != group.generation or not overdue:
            return NOTHING
        return self.members_left(group, overdue, now)


def joined(
    group: ClassicGroup, member_id: str, *, skip_assignment: bool = False, tells_all: bool = True
) -> JoinGroupReply:
    """The group's generation, as a member is told of it."""
    is_leader = group.leader == member_id
    return JoinGroupReply(
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        skip_assignment=skip_assignment,
        members=group.roster() if is_leader and tells_all else (),
    )


def _rebalancing(group: ClassicGroup) -> tuple[LateReply, ...]:
    """Those who wait for an assignment that will not come must join again."""
    late = []
    for member in group.members.values():
        member.assignment = b""
        if member.awaits_sync is not None:
            reply = SyncGroupReply(error=ErrorCode.rebalance_in_progress)
            late.append(LateReply(member.awaits_sync, reply))
            member.awaits_sync = None
    return tuple(late)


def _dismissed(member: ClassicMember, error: ErrorCode) -> list[LateReply]:
    """Answers to what waits of a member that is no longer one under its id."""
    late = []
    if member.awaits_join is not None:
        late.append(LateReply(member.awaits_join, JoinGroupReply(error=error, member_id="")))
    if member.awaits_sync is not None:
        late.append(LateReply(member.awaits_sync, SyncGroupReply(error=error)))
    member.awaits_join = member.awaits_sync = None
    return late


def fenced(member: ClassicMember) -> list[LateReply]:
    """Another process goes by a static member's instance id now."""
    return _dismissed(member, ErrorCode.fenced_instance_id)


def _session(group: ClassicGroup, member_id: str) -> tuple[str, ...]:
    return "session", group.group_id, member_id


def _join(group: ClassicGroup) -> tuple[str, ...]:
    return "join", group.group_id


def _sync(group: ClassicGroup) -> tuple[str, ...]:
    return "sync", group.group_id
