"""The group coordinator of one partition of `__consumer_offsets`: all commands, all replay."""

from __future__ import annotations

from collections.abc import Collection

from tidelog.coordinator.decision import Answer, Decision, Producer
from tidelog.coordinator.groups.classic.group import ClassicGroup
from tidelog.coordinator.groups.classic.joining import Joining, Joins, JoinWish
from tidelog.coordinator.groups.classic.rebalance import Rebalance, Step
from tidelog.coordinator.groups.classic.replies import JoinReply, SyncReply
from tidelog.coordinator.groups.classic.syncing import Leaver, Membership, Syncing, SyncWish
from tidelog.coordinator.groups.classic_records import GroupMetadataKey, GroupMetadataValue
from tidelog.coordinator.groups.group import Group
from tidelog.coordinator.groups.listing import DescribedGroup, ListedGroup, described, listed
from tidelog.coordinator.groups.offset_commits import Committing, CommitWish, commit
from tidelog.coordinator.groups.offset_reads import FetchedOffset, WantedOffset, fetch
from tidelog.coordinator.groups.offset_records import OffsetCommitKey, OffsetCommitValue
from tidelog.coordinator.groups.offsets import Offsets
from tidelog.coordinator.groups.records import GroupRecord, decode_record, encode_record
from tidelog.coordinator.groups.removal import (
    UNKNOWN_GROUP,
    delete_group,
    delete_offsets,
    expire,
    forget_topics,
)
from tidelog.coordinator.shard import Marker, Timers
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now


class GroupShard:
    """Groups and their offsets."""

    def __init__(self, config: NodeConfig, entropy: Entropy, timers: Timers) -> None:
        self._config = config
        self._timers = timers
        self._rebalance = Rebalance(timers, config)
        self._joins = Joins(self._rebalance, config, entropy)
        self._membership = Membership(self._rebalance)
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()

    # -- the log -------------------------------------------------------------------------------

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return encode_record(record)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        return decode_record(key, value)

    def replay(self, record: GroupRecord, producer: Producer | None) -> None:
        match record:
            case GroupRecord(OffsetCommitKey() as key, OffsetCommitValue() | None as value):
                if value is not None:
                    self.groups.setdefault(key.group, ClassicGroup(key.group))
                self.offsets.replay(key, value, producer)
            case GroupRecord(GroupMetadataKey() as key, GroupMetadataValue() as value):
                self.groups.setdefault(key.group, ClassicGroup(key.group)).restore(value)
            case GroupRecord(GroupMetadataKey() as key, None):
                self.groups.pop(key.group, None)

    def replay_marker(self, marker: Marker) -> None:
        self.offsets.replay_marker(marker)

    def loaded(self, now: Now) -> Step:
        """Members that the log tells of have a session from now on."""
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalance.heard_of(group, member, now)
        self._expire_later(now)
        return Decision((), None)

    def unloaded(self, refusal: Refusal) -> None:
        for group in self.groups.values():
            for member in group.members.values():
                for answer in (member.awaits_join, member.awaits_sync):
                    if answer is not None:
                        answer(refusal)

    # -- classic groups ------------------------------------------------------------------------

    def join(self, wish: JoinWish, answer: Answer, now: Now) -> Joining:
        group = self.groups.get(wish.group_id)
        if group is None:
            if wish.member_id:
                unknown = JoinReply(error=ErrorCode.unknown_member_id, member_id=wish.member_id)
                return Decision((), unknown)
            group = self.groups[wish.group_id] = ClassicGroup(wish.group_id, now.wall_ms)
        return self._joins.join(group, wish, answer, now)

    def sync(self, wish: SyncWish, answer: Answer, now: Now) -> Syncing:
        group = self.groups.get(wish.group_id)
        if group is None:
            return Decision((), SyncReply(error=ErrorCode.unknown_member_id))
        return self._membership.sync(group, wish, answer, now)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: Now
    ) -> Decision[GroupRecord, ErrorCode]:
        group = self.groups.get(group_id)
        if group is None:
            return Decision((), ErrorCode.unknown_member_id)
        error = self._membership.heartbeat(group, member_id, instance_id, generation, now)
        return Decision((), error)

    def leave(
        self, group_id: str, leavers: list[Leaver], now: Now
    ) -> Decision[GroupRecord, tuple[ErrorCode, ...]]:
        group = self.groups.get(group_id)
        if group is None:
            return Decision((), (ErrorCode.unknown_member_id,) * len(leavers))
        return self._membership.leave(group, leavers, now)

    # -- offsets -------------------------------------------------------------------------------

    def commit_offsets(self, wish: CommitWish, now: Now) -> Committing | Refusal:
        group = self.groups.get(wish.group_id)
        decision = commit(group, wish, self._config.offset_metadata_max_bytes, now)
        if group is not None and wish.producer is None and isinstance(decision, Decision):
            member = group.members.get(wish.member_id)
            if member is not None:
                self._rebalance.heard_of(group, member, now)
        return decision

    def fetch_offsets(
        self,
        group_id: str,
        wanted: list[WantedOffset] | None,
        *,
        stable_only: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Decision[GroupRecord, list[FetchedOffset]] | Refusal:
        return Decision((), fetch(self.offsets, group_id, wanted, stable_only=stable_only))

    def delete_offsets(
        self, group_id: str, partitions: list[TopicPartition]
    ) -> Decision[GroupRecord, tuple[ErrorCode, ...]] | Refusal:
        return delete_offsets(self.groups.get(group_id), self.offsets, partitions)

    def topics_deleted(self, topics: Collection[str]) -> Step:
        return forget_topics(self.groups, self.offsets, topics)

    def _expire(self, now: Now) -> Step:
        self._expire_later(now)
        retention_ms = self._config.offsets_retention_minutes * 60_000
        return expire(self.groups, self.offsets, retention_ms, now)

    def _expire_later(self, now: Now) -> None:
        due_ms = now.monotonic_ms + self._config.offsets_retention_check_interval_ms
        self._timers.set("expiry", due_ms, self._expire)

    # -- for people ----------------------------------------------------------------------------

    def list_groups(self) -> list[ListedGroup]:
        return [listed(group) for _, group in sorted(self.groups.items())]

    def describe_group(self, group_id: str) -> Decision[GroupRecord, DescribedGroup] | Refusal:
        group = self.groups.get(group_id)
        return UNKNOWN_GROUP if group is None else Decision((), described(group))

    def delete_group(self, group_id: str) -> Decision[GroupRecord, None] | Refusal:
        return delete_group(self.groups.get(group_id), self.offsets)
