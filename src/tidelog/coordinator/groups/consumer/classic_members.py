"""Members that speak the classic protocol in a group of the consumer protocol.

For them a join is a step of reconciliation: its generation is the member's epoch, nobody leads,
and the sync that follows tells what the coordinator assigned.
"""

from __future__ import annotations

from tidelog.coordinator.groups.classic.joining import ID_REQUIRED_SINCE, JoinGroup, JoinGroupResult
from tidelog.coordinator.groups.classic.member import JoinGroupReply, SyncGroupReply
from tidelog.coordinator.groups.classic.syncing import LeavingMember, SyncGroup, SyncGroupResult
from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.consumer.group_update import ConsumerGroupUpdate
from tidelog.coordinator.groups.consumer.heartbeats import Heartbeats, replace_member
from tidelog.coordinator.groups.consumer.member import ConsumerMember, MemberState
from tidelog.coordinator.groups.consumer.migration import assignment_bytes, by_id
from tidelog.coordinator.groups.consumer.sessions import Downgrade, Sessions
from tidelog.coordinator.groups.consumer_protocol import (
    CONSUMER,
    read_subscription,
)
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.topics import Topics
from tidelog.coordinator.result import CoordinatorResult
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.protocol.stored.consumer_protocol import ConsumerProtocolSubscription
from tidelog.protocol.stored.groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)


class ClassicMembers:
    """Serves them."""

    def __init__(
        self,
        config: NodeConfig,
        entropy: Entropy,
        topics: Topics,
        sessions: Sessions,
        heartbeats: Heartbeats,
        downgrade: Downgrade,
    ) -> None:
        self._max_size = config.group_consumer_max_size
        self._entropy = entropy
        self._topics = topics
        self._sessions = sessions
        self._heartbeats = heartbeats
        self._downgrade = downgrade

    # -- joining -------------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, request: JoinGroup, now: Now) -> JoinGroupResult:
        """Join, or come back for what there is to have by now."""
        member_id = request.member_id or str(self._entropy.uuid())
        if len(group.members) >= self._max_size and member_id not in group.members:
            return _refused(ErrorCode.group_max_size_reached, "")
        subscription = _subscription(group, request)
        if subscription is None:
            return _refused(ErrorCode.inconsistent_group_protocol, request.member_id)
        is_new = not request.member_id
        if is_new and request.instance_id is None and request.version >= ID_REQUIRED_SINCE:
            return _refused(ErrorCode.member_id_required, member_id)
        update = ConsumerGroupUpdate(group)
        if request.instance_id is not None:
            known = group.static_member(request.instance_id)
            if known is not None and is_new:
                replace_member(update, known, member_id)
            elif known is None and not is_new:
                return _refused(ErrorCode.unknown_member_id, member_id)
            elif known is not None and known.member_id != member_id:
                return _refused(ErrorCode.fenced_instance_id, member_id)
        before = update.group.members.get(member_id)
        update.write_member(member_id, _metadata(request, subscription))
        owned = by_id(subscription.owned_partitions, self._topics)
        member = self._heartbeats.move_on(
            update, member_id, before, owned, now, request.may_describe
        )
        self._sessions.expects_no_more("join", group.group_id, member_id)
        self._sessions.heard_of(group.group_id, member, now)
        self._sessions.expects("sync", group.group_id, member, now)
        reply = JoinGroupReply(
            member_id=member_id,
            generation=member.epoch,
            protocol_type=CONSUMER,
            protocol=request.protocols[0][0],
        )
        records = self._downgrade(group, update.group, now) or update.records
        return CoordinatorResult(tuple(records), reply)

    # -- syncing -------------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncGroup, now: Now) -> SyncGroupResult:
        """What the member has."""
        member = _find(group, request.member_id, request.instance_id)
        if isinstance(member, ErrorCode):
            return CoordinatorResult((), SyncGroupReply(error=member))
        is_behind = self._heartbeats.is_behind(group, member, now)
        error = _sync_refused(member, request, is_behind=is_behind)
        if error is ErrorCode.rebalance_in_progress:
            self._sessions.expects("join", group.group_id, member, now)
        if error is not None:
            return CoordinatorResult((), SyncGroupReply(error=error))
        self._sessions.expects_no_more("sync", group.group_id, member.member_id)
        self._sessions.heard_of(group.group_id, member, now)
        return CoordinatorResult(
            (),
            SyncGroupReply(
                protocol_type=request.protocol_type,
                protocol=request.protocol,
                assignment=assignment_bytes(member, self._topics),
            ),
        )

    # -- heartbeats and leaving ----------------------------------------------------------------

    def heartbeat(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        generation: int,
        now: Now,
    ) -> ErrorCode:
        """The member lives; it hears whether there is something to give back or to get."""
        member = _find(group, member_id, instance_id)
        if isinstance(member, ErrorCode):
            return member
        if generation != member.epoch:
            return ErrorCode.illegal_generation
        self._sessions.heard_of(group.group_id, member, now)
        can_have_more = member.state is MemberState.UNRELEASED_PARTITIONS and (
            not group.waits_for_others(member)
        )
        if (
            self._heartbeats.is_behind(group, member, now)
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or can_have_more
        ):
            self._sessions.expects("join", group.group_id, member, now)
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def leave(
        self, group: ConsumerGroup, leavers: list[LeavingMember], now: Now
    ) -> CoordinatorResult[GroupRecord, tuple[ErrorCode, ...]]:
        """Let members go, each for itself."""
        errors: list[ErrorCode] = []
        leaving: list[str] = []
        for leaver in leavers:
            member_id = leaver.member_id
            if not member_id and leaver.instance_id is not None:
                member_id = group.static_ids.get(leaver.instance_id, "")
            found = _find(group, member_id, leaver.instance_id)
            if isinstance(found, ErrorCode):
                errors.append(found)
            elif member_id in leaving:
                errors.append(ErrorCode.unknown_member_id)
            else:
                errors.append(ErrorCode.none)
                leaving.append(member_id)
        if not leaving:
            return CoordinatorResult((), tuple(errors))
        step = self._sessions.members_left(group, leaving, now)
        return CoordinatorResult(step.records, tuple(errors), step.late)


def _subscription(group: ConsumerGroup, request: JoinGroup) -> ConsumerProtocolSubscription | None:
    """What a member wants to read, if it could live in this group."""
    if request.protocol_type != CONSUMER or not request.protocols:
        return None
    offered = {name for name, _ in request.protocols}
    for member in group.members.values():
        if member.classic is not None and member.member_id != request.member_id:
            offered &= {each.name for each in member.classic.supported_protocols}
    return read_subscription(request.protocols[0][1]) if offered else None


def _metadata(
    request: JoinGroup, subscription: ConsumerProtocolSubscription
) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=request.instance_id,
        rack_id=subscription.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=tuple(
                ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in request.protocols
            ),
        ),
    )


def _find(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember | ErrorCode:
    if instance_id is not None:
        known = group.static_member(instance_id)
        if known is not None and known.member_id != member_id:
            return ErrorCode.fenced_instance_id
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        return ErrorCode.unknown_member_id
    return member


def _sync_refused(
    member: ConsumerMember, request: SyncGroup, *, is_behind: bool
) -> ErrorCode | None:
    if request.generation != member.epoch:
        return ErrorCode.illegal_generation
    if request.protocol_type not in (None, CONSUMER):
        return ErrorCode.inconsistent_group_protocol
    classic = member.classic
    if classic is not None and request.protocol not in (None, classic.supported_protocols[0].name):
        return ErrorCode.inconsistent_group_protocol
    if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return ErrorCode.rebalance_in_progress
    return None


def _refused(error: ErrorCode, member_id: str) -> JoinGroupResult:
    return CoordinatorResult((), JoinGroupReply(error=error, member_id=member_id))
