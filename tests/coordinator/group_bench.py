"""A group coordinator on a log in memory, with time by hand."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from typing import Any
from uuid import UUID

from tidelog.coordinator.groups.classic.joining import JoinGroup
from tidelog.coordinator.groups.classic.member import JoinGroupReply, SyncGroupReply
from tidelog.coordinator.groups.classic.syncing import LeavingMember, SyncGroup
from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.consumer.messages import ConsumerGroupHeartbeat
from tidelog.coordinator.groups.offset_commits import OffsetAndMetadata, OffsetCommit
from tidelog.coordinator.groups.offset_reads import RequestedOffset
from tidelog.coordinator.groups.shard import GroupShard
from tidelog.coordinator.groups.topics import KnownTopic
from tidelog.coordinator.result import CoordinatorResult, ProducerIdAndEpoch
from tidelog.coordinator.shard import Marker
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID, TopicPartition
from tidelog.model.settings.group import group_times
from tidelog.model.time import Now

START = Now(1_000_000, 1_700_000_000_000)
AGAIN_MS = 500
SETTINGS = {
    "node.id": "100",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "log.dirs": "/data",
}
Logged = tuple[bytes, bytes | None, ProducerIdAndEpoch | None] | Marker


class SeededEntropy:
    def __init__(self) -> None:
        self._random = Random(1)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class HandTimers:
    """Timers that fire when a test lets time pass."""

    def __init__(self) -> None:
        self.due: dict[Hashable, tuple[int, Callable[[Now], CoordinatorResult[Any, None]]]] = {}

    def set(
        self, key: Hashable, due_ms: int, command: Callable[[Now], CoordinatorResult[Any, None]]
    ) -> None:
        self.due[key] = (due_ms, command)

    def cancel(self, key: Hashable) -> None:
        self.due.pop(key, None)


class HandTopics:
    """Topics that come and go as a test wants them."""

    def __init__(self) -> None:
        self._known: dict[str, KnownTopic] = {}
        self.version = 0

    def put(self, name: str, partitions: int) -> None:
        """Create a topic, or give it more partitions."""
        self.version += 1
        known = self._known.get(name)
        topic_id = UUID(int=1000 + self.version) if known is None else known.topic_id
        self._known[name] = KnownTopic(name, topic_id, partitions)

    def drop(self, name: str) -> None:
        self.version += 1
        del self._known[name]

    def named(self, name: str) -> KnownTopic | None:
        return self._known.get(name)

    def with_id(self, topic_id: UUID) -> KnownTopic | None:
        return next((each for each in self._known.values() if each.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return list(self._known)


class Asked:
    """A request that may have to wait; its reply stands in `reply` when it has come."""

    def __init__(self) -> None:
        self.reply: Any = None

    @property
    def is_answered(self) -> bool:
        return self.reply is not None

    def __call__(self, reply: Any) -> None:
        if reply is not None:
            assert self.reply is None, f"answered {self.reply} and then {reply}"
            self.reply = reply


class GroupBench:
    """Carries decisions out as a node does, and can load the log into another coordinator."""

    def __init__(self, **settings: str) -> None:
        named = {name.replace("_", "."): text for name, text in settings.items()}
        named.setdefault("group.initial.rebalance.delay.ms", "0")
        named.setdefault("group.consumer.assignment.interval.ms", "0")
        self.config = NodeConfig.from_properties({**SETTINGS, **named})
        self.entropy = SeededEntropy()
        self.now = START
        self.log: list[Logged] = []
        self.refuses_writes = False
        self.topics = HandTopics()
        self.group_settings: dict[str, str] = {}
        self.batch_bytes = 1_000_000
        self._begin()

    def _begin(self) -> None:
        self.timers = HandTimers()
        self.shard = GroupShard(
            self.config,
            self.entropy,
            self.topics,
            self.timers,
            lambda group: group_times(self.group_settings, self.config),
            lambda: self.batch_bytes,
        )

    def fail_over(self) -> None:
        """Another coordinator takes over, with nothing but the log."""
        self.shard.unloaded(Refusal(ErrorCode.not_coordinator, "gone"))
        self._begin()
        for logged in self.log:
            if isinstance(logged, Marker):
                self.shard.replay_marker(logged)
                continue
            key, value, producer = logged
            record = self.shard.decode(key, value)
            assert record is not None
            self.shard.replay(record, producer)
        self.carry_out(self.shard.loaded(self.now), Asked())

    def compact(self) -> None:
        """Leave the newest record of each key, and no tombstones, in a log of plain records."""
        newest: dict[bytes, Logged] = {}
        for logged in self.log:
            assert not isinstance(logged, Marker)
            key, value, producer = logged
            assert producer is None
            newest.pop(key, None)
            if value is not None:
                newest[key] = logged
        self.log = list(newest.values())

    def carry_out(
        self, decision: CoordinatorResult[Any, Any] | Refusal, then: Callable[[Any], None]
    ) -> bool:
        if isinstance(decision, Refusal):
            then(decision)
            return True
        refused = None
        if decision.records and self.refuses_writes:
            refused = Refusal(ErrorCode.coordinator_not_available, "too few replicas")
        if refused is None:
            for record in decision.records:
                key, value = self.shard.encode(record)
                assert self.shard.decode(key, value) == record
                self.log.append((key, value, decision.producer))
                self.shard.replay(record, decision.producer)
        then(decision.reply if refused is None else refused)
        for late in decision.late:
            late.give(refused)
        return refused is None

    def wait(self, milliseconds: int) -> None:
        """Let time pass, and fire what is due on the way."""
        until_ms = self.now.monotonic_ms + milliseconds
        while True:
            due = [(at, key) for key, (at, _) in self.timers.due.items() if at <= until_ms]
            if not due:
                break
            at, key = min(due, key=lambda each: each[0])
            self._advance_to(max(at, self.now.monotonic_ms))
            _, command = self.timers.due.pop(key)
            if not self.carry_out(command(self.now), Asked()):
                self.timers.set(key, self.now.monotonic_ms + AGAIN_MS, command)
        self._advance_to(until_ms)

    def _advance_to(self, monotonic_ms: int) -> None:
        passed = monotonic_ms - self.now.monotonic_ms
        self.now = Now(monotonic_ms, self.now.wall_ms + passed)

    def end_transaction(self, producer: ProducerIdAndEpoch, *, committed: bool) -> None:
        marker = Marker(producer, committed)
        self.log.append(marker)
        self.shard.replay_marker(marker)

    # -- requests ------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "group",
        version: int = 3,
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"meta"),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
    ) -> Asked:
        request = JoinGroup(
            version=version,
            group_id=group,
            member_id=member_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=protocols,
        )
        asked = Asked()
        self.carry_out(self.shard.join(request, asked, self.now), asked)
        return asked

    def joined(self, *waiting: Asked) -> list[JoinGroupReply]:
        """Let the first delay pass; the replies, which must be there."""
        self.wait(0)
        assert all(isinstance(asked.reply, JoinGroupReply) for asked in waiting)
        return [asked.reply for asked in waiting]

    def sync(
        self,
        joined: JoinGroupReply,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "group",
        instance_id: str | None = None,
        generation: int | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Asked:
        request = SyncGroup(
            group_id=group,
            generation=joined.generation if generation is None else generation,
            member_id=joined.member_id,
            instance_id=instance_id,
            protocol_type=protocol_type,
            protocol=protocol,
            assignments=assignments or {},
        )
        asked = Asked()
        self.carry_out(self.shard.sync(request, asked, self.now), asked)
        return asked

    def stable(self, members: int = 1, **how: Any) -> list[JoinGroupReply]:
        """A group in which everybody has its assignment: its member id as bytes."""
        replies = self.joined(*(self.join(**how) for _ in range(members)))
        leader = next(reply for reply in replies if reply.leader == reply.member_id)
        synced = [self.sync(reply) for reply in replies if reply is not leader]
        synced.append(
            self.sync(leader, {reply.member_id: reply.member_id.encode() for reply in replies})
        )
        assert all(isinstance(asked.reply, SyncGroupReply) for asked in synced)
        return replies

    def heartbeat(
        self,
        joined: JoinGroupReply,
        *,
        generation: int | None = None,
        instance_id: str | None = None,
    ) -> ErrorCode:
        asked = Asked()
        number = joined.generation if generation is None else generation
        decision = self.shard.heartbeat("group", joined.member_id, instance_id, number, self.now)
        self.carry_out(decision, asked)
        assert isinstance(asked.reply, ErrorCode)
        return asked.reply

    def leave(self, *leavers: str | LeavingMember) -> tuple[ErrorCode, ...]:
        asked = Asked()
        named = [
            each if isinstance(each, LeavingMember) else LeavingMember(each, None)
            for each in leavers
        ]
        self.carry_out(self.shard.leave("group", named, self.now), asked)
        return tuple(asked.reply)

    def commit(
        self,
        offset: int,
        *,
        topic: str = "orders",
        partition: int = 0,
        member_id: str = "",
        generation: int = -1,
        **how: Any,
    ) -> Any:
        """Commit one offset; what became of it, or the refusal of them all."""
        more = (how.pop("metadata", None), how.pop("topic_id", ZERO_UUID))
        request = OffsetCommit(
            version=how.pop("version", 8),
            group_id=how.pop("group", "group"),
            generation=generation,
            member_id=member_id,
            instance_id=how.pop("instance_id", None),
            offsets=[OffsetAndMetadata(topic, partition, offset, 3, *more)],
            **how,
        )
        asked = Asked()
        self.carry_out(self.shard.commit_offsets(request, self.now), asked)
        return asked.reply.code if isinstance(asked.reply, Refusal) else asked.reply[0]

    def committed(
        self, topic: str = "orders", partition: int = 0, *, stable_only: bool = False
    ) -> Any:
        asked = Asked()
        wanted = [RequestedOffset(TopicPartition(topic, partition))]
        decision = self.shard.fetch_offsets("group", wanted, stable_only=stable_only)
        self.carry_out(decision, asked)
        [fetched] = asked.reply
        return fetched.error if fetched.error else fetched.offset

    def beat(self, member_id: str, epoch: int, **how: Any) -> Any:
        """A heartbeat of the consumer protocol; its reply, or the code of a refusal."""
        joins = epoch == 0
        heartbeat = ConsumerGroupHeartbeat(
            group_id="group",
            member_id=member_id,
            member_epoch=epoch,
            instance_id=how.pop("instance_id", None),
            rack_id=None,
            rebalance_timeout_ms=how.pop("rebalance_ms", 30_000 if joins else -1),
            subscribed_topic_names=how.pop("topics", ("orders",) if joins else None),
            subscribed_topic_regex=how.pop("regex", None),
            server_assignor=how.pop("assignor", None),
            owned=frozenset(how.pop("owned", ())) if joins or "owned" in how else None,
            client_id="client",
            client_host="/127.0.0.1",
        )
        assert not how
        asked = Asked()
        self.carry_out(self.shard.consumer_heartbeat(heartbeat, self.now), asked)
        return asked.reply.code if isinstance(asked.reply, Refusal) else asked.reply

    @property
    def consumers(self) -> ConsumerGroup:
        group = self.shard.groups["group"]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def state(self) -> str:
        group = self.shard.groups.get("group")
        return "Dead" if group is None else group.state.value
