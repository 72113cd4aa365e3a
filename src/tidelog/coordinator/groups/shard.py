"""The group coordinator of one partition of `__consumer_offsets`: commands in, decisions out.

Each command finds its group and hands it to the module that knows the protocol it speaks.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from tidelog.coordinator.batch_limit import BatchBytes
from tidelog.coordinator.groups.classic.group import ClassicGroup
from tidelog.coordinator.groups.classic.joining import JoinGroup, JoinGroupResult, Joins
from tidelog.coordinator.groups.classic.member import JoinGroupReply, SyncGroupReply
from tidelog.coordinator.groups.classic.rebalance import Rebalance
from tidelog.coordinator.groups.classic.syncing import (
    ClassicMembership,
    LeavingMember,
    SyncGroup,
    SyncGroupResult,
)
from tidelog.coordinator.groups.consumer.classic_members import ClassicMembers
from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.consumer.group_update import ConsumerGroupUpdate, tombstones
from tidelog.coordinator.groups.consumer.heartbeats import HeartbeatResult, Heartbeats
from tidelog.coordinator.groups.consumer.member import JOINING_EPOCH
from tidelog.coordinator.groups.consumer.messages import ConsumerGroupHeartbeat
from tidelog.coordinator.groups.consumer.migration import Migration
from tidelog.coordinator.groups.consumer.sessions import Sessions, TimesOf
from tidelog.coordinator.groups.group import NOTHING, Group, GroupStep, replay
from tidelog.coordinator.groups.listing import (
    DescribedConsumerGroup,
    DescribedGroup,
    ListedGroup,
    described,
    described_consumers,
    listed,
)
from tidelog.coordinator.groups.offset_commits import OffsetCommit, OffsetCommitResult, commit
from tidelog.coordinator.groups.offset_reads import (
    FetchedOffset,
    RequestedOffset,
    fetch,
    fetch_refused,
)
from tidelog.coordinator.groups.offsets import Offsets
from tidelog.coordinator.groups.records import GroupRecord, decode_record, encode_record
from tidelog.coordinator.groups.removal import (
    UNKNOWN_GROUP,
    Removal,
    delete_group,
    delete_offsets,
    expire,
    forget_topics,
)
from tidelog.coordinator.groups.topics import Topics
from tidelog.coordinator.result import Answer, CoordinatorResult, ProducerIdAndEpoch
from tidelog.coordinator.shard import CoordinatorTimer, Marker
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now

Errors: TypeAlias = tuple[ErrorCode, ...]
COME_AGAIN: Final = JoinGroupReply(error=ErrorCode.coordinator_load_in_progress, member_id="")
"""To the first member of a classic group whose place an empty consumer group still took: what
begins in memory alone must not begin before the end of the other is written."""
NEXT_PIECE_MS: Final = 10
"""Between two batches of tombstones: others get their turn."""


class GroupShard:
    """Groups and their offsets."""

    def __init__(
        self,
        config: NodeConfig,
        entropy: Entropy,
        topics: Topics,
        timers: CoordinatorTimer[GroupRecord],
        times_of: TimesOf,
        batch_bytes: BatchBytes,
    ) -> None:
        self._config = config
        self._batch_bytes = batch_bytes
        self._timers = timers
        self._rebalance = Rebalance(timers, config)
        self._joins = Joins(self._rebalance, config, entropy)
        self._membership = ClassicMembership(self._rebalance)
        self._migration = Migration(config, topics)
        self._sessions = Sessions(timers, times_of, topics, self._consumer_group, self._downgrade)
        self._heartbeats = Heartbeats(config, times_of, topics, self._sessions)
        self._classic_members = ClassicMembers(
            config, entropy, topics, self._sessions, self._heartbeats, self._downgrade
        )
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()

    # -- the log -------------------------------------------------------------------------------

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return encode_record(record)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        return decode_record(key, value)

    def replay(self, record: GroupRecord, producer: ProducerIdAndEpoch | None) -> None:
        replay(self.groups, self.offsets, record, producer)

    def replay_marker(self, marker: Marker) -> None:
        self.offsets.replay_marker(marker)

    def loaded(self, now: Now) -> GroupStep:
        """Members that the log tells of have a session from now on."""
        for group in self.groups.values():
            self._begin_sessions(group, now)
        self._expire_later(now)
        return NOTHING

    def _begin_sessions(self, group: Group, now: Now) -> None:
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                self._rebalance.heard_of(group, member, now)
        else:
            for consumer in group.members.values():
                self._sessions.heard_of(group.group_id, consumer, now)

    def unloaded(self, refusal: Refusal) -> None:
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    for answer in (member.awaits_join, member.awaits_sync):
                        if answer is not None:
                            answer(refusal)

    # -- the classic protocol ------------------------------------------------------------------

    def join(self, request: JoinGroup, answer: Answer[JoinGroupReply], now: Now) -> JoinGroupResult:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._classic_members.join(group, request, now)
        if not isinstance(group, ClassicGroup) and request.member_id:
            unknown = JoinGroupReply(error=ErrorCode.unknown_member_id, member_id=request.member_id)
            return CoordinatorResult((), unknown)
        if isinstance(group, ClassicGroup):
            return self._joins.join(group, request, answer, now)
        if group is not None:
            return CoordinatorResult(tuple(tombstones(group)), COME_AGAIN)
        begun = self.groups[request.group_id] = ClassicGroup(request.group_id, now.wall_ms)
        return self._joins.join(begun, request, answer, now)

    def sync(self, request: SyncGroup, answer: Answer[SyncGroupReply], now: Now) -> SyncGroupResult:
        group = self.groups.get(request.group_id)
        if group is None:
            return CoordinatorResult((), SyncGroupReply(error=ErrorCode.unknown_member_id))
        if isinstance(group, ConsumerGroup):
            return self._classic_members.sync(group, request, now)
        return self._membership.sync(group, request, answer, now)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: Now
    ) -> CoordinatorResult[GroupRecord, ErrorCode]:
        group = self.groups.get(group_id)
        if group is None:
            return CoordinatorResult((), ErrorCode.unknown_member_id)
        who = (member_id, instance_id, generation, now)
        if isinstance(group, ConsumerGroup):
            return CoordinatorResult((), self._classic_members.heartbeat(group, *who))
        return CoordinatorResult((), self._membership.heartbeat(group, *who))

    def leave(
        self, group_id: str, leavers: list[LeavingMember], now: Now
    ) -> CoordinatorResult[GroupRecord, Errors]:
        group = self.groups.get(group_id)
        if group is None:
            return CoordinatorResult((), (ErrorCode.unknown_member_id,) * len(leavers))
        if isinstance(group, ConsumerGroup):
            return self._classic_members.leave(group, leavers, now)
        return self._membership.leave(group, leavers, now)

    # -- the consumer protocol -----------------------------------------------------------------

    def consumer_heartbeat(
        self, beat: ConsumerGroupHeartbeat, now: Now
    ) -> HeartbeatResult | Refusal:
        group = self.groups.get(beat.group_id)
        if isinstance(group, ConsumerGroup) and beat.member_epoch < 0:
            return self._heartbeats.leave(group, beat, now)
        if isinstance(group, ConsumerGroup):
            return self._heartbeats.heartbeat(ConsumerGroupUpdate(group), beat, now)
        if beat.member_epoch != JOINING_EPOCH:
            return UNKNOWN_GROUP
        if group is None:
            return self._heartbeats.heartbeat(
                ConsumerGroupUpdate(ConsumerGroup(beat.group_id)), beat, now
            )
        return self._upgrade(group, beat, now)

    def _upgrade(
        self, classic: ClassicGroup, beat: ConsumerGroupHeartbeat, now: Now
    ) -> HeartbeatResult | Refusal:
        update = self._migration.upgraded(classic, now)
        if update is None:
            why = f"Group {classic.group_id} is not a consumer group."
            return Refusal(ErrorCode.group_id_not_found, why)
        beating = self._heartbeats.heartbeat(update, beat, now)
        if isinstance(beating, Refusal):
            return beating
        self._timers.set(
            ("upgrade", classic.group_id),
            now.monotonic_ms,
            lambda later: self._upgraded(classic, later),
        )
        return CoordinatorResult(
            beating.records, beating.reply, self._rebalance.dismiss_all(classic)
        )

    def _upgraded(self, classic: ClassicGroup, now: Now) -> GroupStep:
        """If that was stored: what the classic group waited for will not come."""
        group = self.groups.get(classic.group_id)
        if isinstance(group, ConsumerGroup):
            self._rebalance.abandon(classic)
            self._begin_sessions(group, now)
        return NOTHING

    def _downgrade(
        self, group: ConsumerGroup, after: ConsumerGroup, now: Now
    ) -> list[GroupRecord] | None:
        """Let only classic members have a classic group, which then rebalances."""
        records = self._migration.downgraded(group, after, now)
        if records is not None:
            group_id = group.group_id
            self._timers.set(
                ("downgrade", group_id),
                now.monotonic_ms,
                lambda later: self._rebalance_downgraded(group_id, later),
            )
        return records

    def _rebalance_downgraded(self, group_id: str, now: Now) -> GroupStep:
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup) or group.is_empty:
            return NOTHING
        self._begin_sessions(group, now)
        return self._rebalance.prepare_or_complete(group, now)

    def _consumer_group(self, group_id: str) -> ConsumerGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    # -- offsets -------------------------------------------------------------------------------

    def commit_offsets(self, request: OffsetCommit, now: Now) -> OffsetCommitResult | Refusal:
        group = self.groups.get(request.group_id)
        decision = commit(group, request, self._config.offset_metadata_max_bytes, now)
        is_plain = request.producer is None and isinstance(decision, CoordinatorResult)
        if isinstance(group, ClassicGroup) and is_plain:
            member = group.members.get(request.member_id)
            if member is not None:
                self._rebalance.heard_of(group, member, now)
        return decision

    def fetch_offsets(
        self,
        group_id: str,
        wanted: list[RequestedOffset] | None,
        *,
        stable_only: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> CoordinatorResult[GroupRecord, list[FetchedOffset]] | Refusal:
        refusal = fetch_refused(self.groups.get(group_id), member_id, member_epoch)
        if refusal is not None:
            return refusal
        return CoordinatorResult((), fetch(self.offsets, group_id, wanted, stable_only=stable_only))

    def delete_offsets(
        self, group_id: str, partitions: list[TopicPartition]
    ) -> CoordinatorResult[GroupRecord, Errors] | Refusal:
        return delete_offsets(self.groups.get(group_id), self.offsets, partitions)

    def topics_deleted(self, topics: frozenset[str], now: Now) -> GroupStep:
        """Forget the offsets of topics that are gone."""
        forgetting = forget_topics(self.groups, self.offsets, topics, self._batch_bytes())
        if not forgetting.reply:
            self._timers.set(
                ("forgetting", topics),
                now.monotonic_ms + NEXT_PIECE_MS,
                lambda later: self.topics_deleted(topics, later),
            )
        return CoordinatorResult(forgetting.records, None)

    def _expire(self, now: Now) -> GroupStep:
        retention_ms = self._config.offsets_retention_minutes * 60_000
        expiring = expire(self.groups, self.offsets, retention_ms, self._batch_bytes(), now)
        self._expire_later(now, None if expiring.reply else NEXT_PIECE_MS)
        return CoordinatorResult(expiring.records, None)

    def _expire_later(self, now: Now, after_ms: int | None = None) -> None:
        if after_ms is None:
            after_ms = self._config.offsets_retention_check_interval_ms
        self._timers.set("expiry", now.monotonic_ms + after_ms, self._expire)

    # -- for people ----------------------------------------------------------------------------

    def list_groups(self) -> list[ListedGroup]:
        return [listed(group) for _, group in sorted(self.groups.items())]

    def describe_group(
        self, group_id: str
    ) -> CoordinatorResult[GroupRecord, DescribedGroup] | Refusal:
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return CoordinatorResult((), described(group))
        if group is None:
            return UNKNOWN_GROUP
        why = f"Group {group_id} is not a classic group."
        return Refusal(ErrorCode.group_id_not_found, why)

    def describe_consumer_group(
        self, group_id: str
    ) -> CoordinatorResult[GroupRecord, DescribedConsumerGroup] | Refusal:
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            default = self._config.group_consumer_assignors[0]
            return CoordinatorResult((), described_consumers(group, default))
        if group is None:
            return UNKNOWN_GROUP
        why = f"Group {group_id} is not a consumer group."
        return Refusal(ErrorCode.group_id_not_found, why)

    def delete_group(self, group_id: str) -> Removal | Refusal:
        """Forget a group; while the reply is False, there is more of it to forget."""
        return delete_group(self.groups.get(group_id), self.offsets, self._batch_bytes())
