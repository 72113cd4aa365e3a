"""A classic group: members agree on a protocol, one of them leads and assigns.

    Empty                 no members; committed offsets may be left
    PreparingRebalance    members join; those who do not in time are removed
    CompletingRebalance   the members know the generation; the leader's assignment is awaited
    Stable                everybody can have its assignment

A finished generation is stored and changes by replay alone. One that is under way lives in memory:
it is lost with its coordinator, and the members, told NOT_COORDINATOR, begin it again elsewhere.

Invariant  Every member supports the group's protocol, and all are of one protocol type.
Invariant  A static member's instance id stands for one member id at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum

from tidelog.coordinator.groups.classic.member import ClassicMember, Protocols, restored_member
from tidelog.coordinator.groups.consumer_protocol import CONSUMER, read_subscription
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.protocol.stored.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
)


class ClassicGroupState(Enum):
    """Where a group stands; the values are what clients are told."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class ClassicGroup:
    """The state of one group; `Rebalance` moves it on."""

    def __init__(self, group_id: str, since_ms: int = -1) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.state_since_ms = since_ms
        """Wall time of the last change of state; -1 when nobody noted it."""
        self.was_empty = False
        """Whether the rebalance under way is the first one after the group was empty."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}
        """Member ids of static members by instance id."""
        self.pending_joins: set[str] = set()
        """Member ids that were given out and have not come back to join."""
        self.pending_syncs: set[str] = set()
        """Members that know the generation and have not asked for their assignment."""
        self.got_new_member = False
        """Whether somebody joined since the first rebalance was last put off."""
        self._subscribed: frozenset[str] | None = None

    # -- questions -----------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_simple(self) -> bool:
        """Whether only offsets make this a group: nobody ever joined it."""
        return self.protocol_type is None

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def awaiting_join(self) -> Iterator[ClassicMember]:
        """Members whose join waits for the others."""
        return (member for member in self.members.values() if member.awaits_join is not None)

    @property
    def have_all_joined(self) -> bool:
        return not self.pending_joins and all(
            member.awaits_join is not None for member in self.members.values()
        )

    def unfit_member(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """Why somebody is not the member it says it is."""
        if instance_id is not None:
            known = self.static_ids.get(instance_id)
            if known is not None and known != member_id:
                return ErrorCode.fenced_instance_id
            if known is None:
                return ErrorCode.unknown_member_id
        return None if member_id in self.members else ErrorCode.unknown_member_id

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member that offers these could live in this group."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        common = self._common_protocols()
        return protocol_type == self.protocol_type and any(name in common for name, _ in protocols)

    def _common_protocols(self) -> set[str]:
        offered = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*offered) if offered else set()

    def chosen_protocol(self) -> str | None:
        """The protocol most members like best among those that all of them support."""
        common = self._common_protocols()
        votes = Counter(
            next(name for name, _ in member.protocols if name in common)
            for member in self.members.values()
            if common
        )
        return votes.most_common(1)[0][0] if votes else None

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether consumers of the group read a topic; they may read any while nobody knows."""
        if self._subscribed is None:
            return self.uses_consumer_protocol and not self.is_empty
        return topic in self._subscribed

    @property
    def is_abandoned(self) -> bool:
        """Whether nothing but offsets could keep this group."""
        return self.is_empty and not self.pending_joins and self.state is ClassicGroupState.EMPTY

    def offset_in_use_until(self, committed_ms: int) -> int | None:
        """Since when nobody needs an offset of a topic that is not subscribed; None: still used.

        Members whose subscriptions are not known may read by any of their group's offsets.
        """
        if self.is_simple:
            return committed_ms
        if self.state is ClassicGroupState.EMPTY:
            return committed_ms if self.state_since_ms == -1 else self.state_since_ms
        if self.state is ClassicGroupState.STABLE and self._subscribed is not None:
            return committed_ms
        return None

    def roster(self) -> tuple[tuple[str, str | None, bytes], ...]:
        """What the leader needs to assign: members, instances, metadata."""
        return tuple(
            (member.member_id, member.instance_id, member.metadata_for(self.protocol))
            for member in self.members.values()
        )

    # -- changes -------------------------------------------------------------------------------

    def becomes(self, state: ClassicGroupState, now: Now) -> None:
        self.was_empty = self.state is ClassicGroupState.EMPTY
        self.state = state
        self.state_since_ms = now.wall_ms

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Let a member in; the first one decides what kind of group this is."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Let a member go; another one leads if it did."""
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_static(self, member: ClassicMember, new_id: str) -> None:
        """Give a static member another id; it keeps its assignment, and its place as leader."""
        self.members = {
            new_id if member_id == member.member_id else member_id: each
            for member_id, each in self.members.items()
        }
        if self.leader == member.member_id:
            self.leader = new_id
        self.pending_syncs.discard(member.member_id)
        member.member_id = new_id
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = new_id

    def elect_joined_leader(self) -> bool:
        """Make somebody who joined the leader, the old one if it did; False when nobody did."""
        joined = [member.member_id for member in self.awaiting_join()]
        if joined and self.leader not in joined:
            self.leader = joined[0]
        return bool(joined)

    def begin_generation(self, now: Now) -> None:
        """All who could join have joined."""
        self.generation += 1
        self.protocol = self.chosen_protocol()
        self.becomes(ClassicGroupState.COMPLETING, now)
        self.note_subscriptions()

    def note_subscriptions(self) -> None:
        """Look into the members' metadata for the topics that the group reads."""
        self._subscribed = None
        if not self.uses_consumer_protocol:
            return
        topics: set[str] = set()
        for member in self.members.values():
            subscription = read_subscription(member.metadata_for(self.protocol))
            if subscription is None:
                return
            topics.update(subscription.topics)
        self._subscribed = frozenset(topics)

    # -- what is stored ------------------------------------------------------------------------

    def record(self, assignments: Mapping[str, bytes], now: Now) -> GroupRecord:
        """This generation with these assignments."""
        return GroupRecord(
            GroupMetadataKey(group=self.group_id),
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation,
                protocol=self.protocol,
                leader=self.leader,
                current_state_timestamp=now.wall_ms,
                members=tuple(
                    member.stored(self.protocol, assignments.get(member.member_id, b""))
                    for member in self.members.values()
                ),
            ),
        )

    def emptied(self, now: Now) -> GroupRecord:
        """The next generation, which nobody has joined."""
        return GroupRecord(
            GroupMetadataKey(group=self.group_id),
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation + 1,
                protocol=None,
                leader=None,
                current_state_timestamp=now.wall_ms,
                members=(),
            ),
        )

    def restore(self, stored: GroupMetadataValue) -> None:
        """Become the generation that the log tells of; members who wait here go on waiting."""
        self.protocol_type = stored.protocol_type or None
        self.generation = stored.generation
        self.protocol = stored.protocol
        self.leader = stored.leader
        self.state_since_ms = stored.current_state_timestamp
        known, self.members = self.members, {}
        for each in stored.members:
            member = known.get(each.member_id) or restored_member(each, stored.protocol)
            member.assignment = each.assignment
            self.members[each.member_id] = member
        self.static_ids = {
            member.instance_id: member.member_id
            for member in self.members.values()
            if member.instance_id is not None
        }
        self.state = ClassicGroupState.STABLE if self.members else ClassicGroupState.EMPTY
        self.note_subscriptions()
