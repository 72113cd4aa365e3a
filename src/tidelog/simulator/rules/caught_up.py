"""CAUGHT_UP: when a follower last held everything its leader held, by what the network carried;
and by the same fetches D21.

A fetch for an offset says that its sender holds everything below; a fetch of a session says it of
every partition of the session, also of those it does not name. What the leader held is read from
its disk.

    at a fetch     from the end: caught up now; from where the end was at the fetch before: caught
                   up then (Kafka's rule, worked out for all partitions at every fetch)
    at an append   whoever was at the end, and has a request waiting at the leader: caught up now
    at an answer   the same, until the request had waited long enough
    at an election whoever is in sync: caught up now

Invariant  Nothing that the leader remembers of its followers counts.
Invariant  In doubt a follower was caught up earlier: a claim counts only in the leader's epoch, of
           the process that is registered, and if the leader's log has a batch of that epoch there.
Invariant  What a process held counts for no later one, whose disk may be another: whoever registers
           anew is out of sync until it has caught up by itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.model.ids import NO_EPOCH
from tidelog.node.core.effects import Effect, Send
from tidelog.node.core.inputs import ConnectionClosed, FrameArrived
from tidelog.protocol.fetch import FetchPartition, FetchRequest
from tidelog.replication.partition import Partition
from tidelog.simulator.rules.carried import fetch_answer, replica_fetch
from tidelog.simulator.rules.ghost import Ghost, PartitionGhost
from tidelog.simulator.rules.held_log import HeldLog
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import Stepped
from tidelog.simulator.world.machine import Machine

PartitionKey: TypeAlias = tuple[UUID, int]
NEVER_MS: Final = -(1 << 62)


@dataclass(slots=True)
class Follower:
    """One follower in one epoch of its leader; times are of the leader's clock."""

    caught_up_ms: int = NEVER_MS
    offset: int = -1
    """Where its last fetch began."""
    broker_epoch: int = NO_EPOCH
    """The incarnation that fetched last."""
    fetched_ms: int = NEVER_MS
    end_when_fetched: int = 1 << 62

    def fetches(self, offset: int, end: int, now_ms: int) -> None:
        """A fetch arrived that asks for this offset, named or not."""
        if offset == end:
            self.caught_up_ms = now_ms
        elif offset >= self.end_when_fetched:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.offset, self.fetched_ms, self.end_when_fetched = offset, now_ms, end


@dataclass(slots=True)
class Led:
    """A partition in one epoch of a process that leads it."""

    epoch: int
    end: int
    followers: dict[int, Follower]
    grown: list[tuple[int, int]] = field(default_factory=list)
    """Each end since, and when it was left behind."""

    def lacks_since_ms(self, end: int) -> int | None:
        """Since when a log that ends there lacks something; None if it lacks nothing."""
        place = bisect_left(self.grown, (end, NEVER_MS))
        return self.grown[place][1] if end < self.end and place < len(self.grown) else None


@dataclass(slots=True)
class _Session:
    """What a follower says over one connection, as of its last request."""

    follower: int
    broker_epoch: int
    claims: dict[PartitionKey, FetchPartition] = field(default_factory=dict)
    waits_for: int | None = None
    """The request that is not answered."""

    def take(self, request: FetchRequest) -> None:
        for topic in request.topics:
            if topic.topic_id is not None:
                for wanted in topic.partitions:
                    self.claims[topic.topic_id, wanted.partition] = wanted
        for _, topic_id, indexes in request.forgotten:
            for index in indexes:
                if topic_id is not None:
                    self.claims.pop((topic_id, index), None)


class CaughtUp:
    """Follows the fetches that arrive at every leader."""

    def __init__(self, ghost: Ghost) -> None:
        self._ghost = ghost
        self._led: dict[int, dict[PartitionKey, Led]] = {}
        self._sessions: dict[int, dict[int, _Session]] = {}

    def forget(self, node_id: int) -> None:
        """Another process begins there."""
        self._led.pop(node_id, None)
        self._sessions.pop(node_id, None)

    def led(self, node_id: int, partition: Partition) -> Led | None:
        """What is known of the partition in the epoch in which that node leads it."""
        key = (partition.log.topic_id, partition.name.partition)
        led = self._led.get(node_id, {}).get(key)
        return led if led is not None and led.epoch == partition.leader_epoch else None

    def look_at(self, machine: Machine, step: Stepped) -> None:
        """After a step of a node: first what arrived, then what it appended, then what it sent."""
        now_ms = step.happened.now.monotonic_ms
        sessions = self._sessions.setdefault(machine.node_id, {})
        led = self._led.setdefault(machine.node_id, {})
        fetched = _hear(step, sessions)
        if machine.node is not None:
            for partition in machine.node.replicas:
                if partition.leading is not None:
                    self._grow(machine.node_id, partition, led, sessions, now_ms)
        if fetched is not None:
            self._judge_target(machine, fetched)
            _note_incarnation(machine, fetched, led)
            for key, claim, held in self._sound(machine.node_id, fetched, led):
                follower = led[key].followers.setdefault(fetched.follower, Follower())
                follower.fetches(claim.fetch_offset, held.end_offset, now_ms)
        self._answer(machine.node_id, step.effects, sessions, led, now_ms)

    def _judge_target(self, machine: Machine, fetched: _Session) -> None:
        """D21: who follows in an epoch fetches from its leader, and from nobody else."""
        for key, claim in fetched.claims.items():
            ghost = self._ghost.partitions.get(key)
            epoch = claim.current_leader_epoch
            leader = None if ghost is None else ghost.leaders.get(epoch)
            if ghost is not None and leader not in (None, machine.node_id):
                what = f"{fetched.follower} fetches {ghost.name} in epoch {epoch}"
                raise Violation("D21", f"{what} from {machine.name}, and {leader} leads in it")

    def _grow(
        self,
        node_id: int,
        partition: Partition,
        led: dict[PartitionKey, Led],
        sessions: dict[int, _Session],
        now_ms: int,
    ) -> None:
        key = (partition.log.topic_id, partition.name.partition)
        held = self._held(node_id, key)
        if held is None:
            return
        known = led.get(key)
        if known is None or known.epoch != partition.leader_epoch:
            members = partition.leadership.in_sync
            followers = {member: Follower(now_ms) for member in members if member != node_id}
            led[key] = Led(partition.leader_epoch, held.end_offset, followers)
        elif held.end_offset > known.end:
            for session in sessions.values():
                claim = session.claims.get(key)
                if (
                    claim is not None
                    and session.waits_for is not None
                    and claim.fetch_offset == known.end
                    and self._is_sound(session, claim, known, held)
                ):
                    known.followers.setdefault(session.follower, Follower()).caught_up_ms = now_ms
            known.grown.append((known.end, now_ms))
            known.end = held.end_offset

    def _answer(
        self,
        node_id: int,
        effects: Sequence[Effect],
        sessions: dict[int, _Session],
        led: dict[PartitionKey, Led],
        now_ms: int,
    ) -> None:
        for effect in effects:
            session = sessions.get(effect.connection) if type(effect) is Send else None
            if session is None or session.waits_for is None or type(effect) is not Send:
                continue
            if fetch_answer(effect.parts)[0] == session.waits_for:
                session.waits_for = None
                for key, claim, held in self._sound(node_id, session, led):
                    if claim.fetch_offset == held.end_offset:
                        follower = led[key].followers.setdefault(session.follower, Follower())
                        follower.caught_up_ms = now_ms

    def _sound(
        self, node_id: int, session: _Session, led: dict[PartitionKey, Led]
    ) -> list[tuple[PartitionKey, FetchPartition, HeldLog]]:
        """The claims of a session that count."""
        return [
            (key, claim, held)
            for key, claim in session.claims.items()
            if (known := led.get(key)) is not None
            and (held := self._held(node_id, key)) is not None
            and self._is_sound(session, claim, known, held)
        ]

    def _is_sound(self, session: _Session, claim: FetchPartition, led: Led, held: HeldLog) -> bool:
        image = self._ghost.image
        registered = None if image is None else image.brokers.get(session.follower)
        if claim.current_leader_epoch != led.epoch or registered is None:
            return False
        if session.broker_epoch < registered.broker_epoch:
            return False
        offset, batches = claim.fetch_offset, held.batches
        if not held.start_offset <= offset <= held.end_offset:
            return False
        place = bisect_right(batches, offset, key=lambda batch: batch.next_offset) - 1
        if place < 0:
            return claim.last_fetched_epoch == -1
        before = batches[place]
        return before.next_offset == offset and before.epoch == claim.last_fetched_epoch

    def _held(self, node_id: int, key: PartitionKey) -> HeldLog | None:
        ghost: PartitionGhost | None = self._ghost.partitions.get(key)
        held = None if ghost is None else ghost.held.get(node_id)
        return None if held is None or held.unreadable else held


def _note_incarnation(machine: Machine, fetched: _Session, led: dict[PartitionKey, Led]) -> None:
    """Unless the leader has read in the metadata that another process has taken its place."""
    brokers = {} if machine.node is None else machine.node.cluster.image.brokers
    registered = brokers.get(fetched.follower)
    if registered is not None and fetched.broker_epoch < registered.broker_epoch:
        return
    for key, claim in fetched.claims.items():
        known = led.get(key)
        if known is not None and known.epoch == claim.current_leader_epoch:
            follower = known.followers.setdefault(fetched.follower, Follower())
            if fetched.broker_epoch > follower.broker_epoch > NO_EPOCH:
                known.followers[fetched.follower] = follower = Follower()
            follower.broker_epoch = fetched.broker_epoch


def _hear(step: Stepped, sessions: dict[int, _Session]) -> _Session | None:
    """The session whose fetch arrived."""
    happened = step.happened
    if isinstance(happened, ConnectionClosed):
        sessions.pop(happened.connection, None)
    if not isinstance(happened, FrameArrived):
        return None
    fetch = replica_fetch(step.frame)
    if fetch is None:
        return None
    request = fetch.request
    session = sessions.get(happened.connection)
    if request.session_epoch <= 0:
        session = _Session(request.replica_id, request.replica_epoch)
        sessions[happened.connection] = session
    if session is not None:
        session.take(request)
        session.waits_for = fetch.correlation_id
        for correlation_id, error in _answers(step.effects, happened.connection):
            if correlation_id == fetch.correlation_id and error:
                del sessions[happened.connection]
                return None
    return session


def _answers(effects: Sequence[Effect], connection: int) -> list[tuple[int, int]]:
    return [
        fetch_answer(effect.parts)
        for effect in effects
        if type(effect) is Send and effect.connection == connection
    ]
