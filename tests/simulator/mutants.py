"""Guards of the protocol, each with a way to take it out: the rules must notice every one.

A mutant replaces a function or method by one that does not guard. `seed` is a run that is known to
need the guard, `story` a transcript that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from tidelog.controller import alter_partition, brokers, partition_change, preferred_leaders
from tidelog.controller.partition_change import Election, ElectionResult, PartitionTarget
from tidelog.controller.partition_image import PartitionImage
from tidelog.controller.sessions import BrokerSession, BrokerSessions
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.control.alter_partitions import AlterPartitions
from tidelog.node.control.periodic_tasks import _HeartbeatConnections
from tidelog.node.core.connections import Connection
from tidelog.node.core.links import Link
from tidelog.node.fetching.fetch_reading import FetchRead
from tidelog.node.fetching.fetch_sessions import WantedPartition
from tidelog.node.replicas.hosting import Hosting
from tidelog.node.replicas.replica_fetchers import ReplicaFetchers
from tidelog.protocol.fetch import FetchPartition
from tidelog.protocol.stored.metadata import PartitionChangeRecord
from tidelog.quorum import election_state
from tidelog.quorum.elections import Elections
from tidelog.quorum.leader import Leader
from tidelog.quorum.metadata_log import MetadataLog
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.quorum_state import QuorumState
from tidelog.quorum.roles import Unattached
from tidelog.replication import follower, in_sync_replicas, leader, partition
from tidelog.replication.follower_progress import FollowerProgress
from tidelog.replication.high_watermark import HighWatermark, ParkedAnswers
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.partition import Partition
from tidelog.storage import fetched_batches
from tidelog.storage.filesystem import replace_file
from tidelog.storage.leader_epoch_cache import LeaderEpochCache
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.log_place import DirectoryHealth
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer_state import ProducerState


class Patch(NamedTuple):
    """What stands in the place of a function, method or constant."""

    owner: Any
    attribute: str
    instead: Any


@dataclass(frozen=True, slots=True)
class Mutant:
    """A guard that is gone; where two layers guard the same thing, both are."""

    name: str
    patches: tuple[Patch, ...]
    seed: int | None = None
    story: str = ""
    """Of some guards chance seldom shows the need: a transcript that does."""
    controllers: int = 1
    directories: int = 1
    rule: str = ""
    """The rule that must notice; docs/rules.md names the mutant there."""


def _mutant(
    name: str,
    owner: Any,
    attribute: str,
    instead: Any,
    *,
    seed: int | None = None,
    story: str = "",
    rule: str = "",
) -> Mutant:
    return Mutant(name, (Patch(owner, attribute, instead),), seed, story, rule=rule)


def _quorum_mutant(
    name: str, owner: Any, attribute: str, instead: Any, *, seed: int, rule: str = ""
) -> Mutant:
    return Mutant(name, (Patch(owner, attribute, instead),), seed, controllers=3, rule=rule)


def _directory_mutant(name: str, *patches: Patch, seed: int, rule: str) -> Mutant:
    return Mutant(name, patches, seed, directories=2, rule=rule)


def _same(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


_limit: Final = FetchRead._records


def _read_to_the_end(self: FetchRead, found: Partition, wanted: Any, limit: int) -> Any:
    return _limit(self, found, wanted, found.log.end_offset)


_refusal: Final = FetchRead._refusal


def _refuse_no_epoch(self: FetchRead, found: Partition, wanted: FetchPartition) -> ErrorCode | None:
    return _refusal(self, found, wanted._replace(current_leader_epoch=-1))


def _give_up(
    _self: AlterPartitions, proposals: Iterable[tuple[LeaderReplica, Any]], _now: Now
) -> None:
    for proposer, proposal in proposals:
        if proposer.stands_by(proposal):
            proposer.in_sync.revert()


def _forget_failure(_self: DirectoryHealth, reason: str) -> Refusal:
    return Refusal(ErrorCode.kafka_storage_error, reason)


_load: Final = ProducerState.load


def _load_once(self: ProducerState, start: int, end: int, wall_ms: int) -> int:
    """At the start of the process only, not after a truncation."""
    return end if len(self) else _load(self, start, end, wall_ms)


def _moved_to(leader: Leader, offset: int) -> bool:
    has_moved = offset > leader.high_watermark
    leader.high_watermark = max(leader.high_watermark, offset)
    return has_moved


def _commit_any_epoch(leader: Leader) -> bool:
    """What a majority holds counts, whoever wrote it."""
    held = sorted(map(leader.end_offset_of, leader._members))
    return _moved_to(leader, held[(len(held) - 1) // 2])


def _commit_alone(leader: Leader) -> bool:
    """What this node has counts, whoever else has it."""
    return _moved_to(leader, leader.own_end)


def _begin_overdue(self: BrokerSessions, broker_ids: Iterable[int], now_ms: int) -> None:
    self._sessions = {broker_id: BrokerSession(now_ms) for broker_id in broker_ids}


_touch: Final = BrokerSessions.touch


def _touch_in_vain(self: BrokerSessions, broker_id: int, now_ms: int) -> BrokerSession:
    """Who hung up is given no more time, even if it comes back."""
    before = self._sessions.get(broker_id)
    due_ms = before.deadline_ms if before is not None and before.hung_up else None
    session = _touch(self, broker_id, now_ms)
    if due_ms is not None:
        session.deadline_ms = due_ms
    return session


def _last_heard_counts(
    self: _HeartbeatConnections, connection: Connection, _now_ms: int, _given_up_after_ms: int
) -> bool:
    """The end of the connection that brought the last heartbeat, however late that was."""
    heard_ms = self._heard_ms.pop(connection, None)
    return heard_ms is not None and all(heard_ms >= each for each in self._heard_ms.values())


def _hang_up_at_once(self: Link, reason: str, now: Now) -> None:
    self.close(now, reason)


_goodbyes: Final = brokers._goodbyes


def _trust_every_stop(leadership: Any, registration: Any, _stopped_cleanly: bool) -> Iterable[Any]:
    return _goodbyes(leadership, registration, True)


_proposal_refused: Final = alter_partition._refused


def _take_old_proposals(
    image: Any, broker_id: int, found: PartitionImage, proposal: alter_partition.IsrProposal
) -> Refusal | None:
    current = proposal._replace(partition_epoch=found.partition_epoch)
    return _proposal_refused(image, broker_id, found, current)


def _forget_by_half(self: ReplicaFetchers, name: TopicPartition) -> None:
    self._leader_of.pop(name, None)


_new_leader: Final = LeaderReplica.__init__
_unanswered: Final[dict[int, ParkedAnswers]] = {}


def _leave_unanswered(self: LeaderReplica) -> None:
    """The epoch ends; whoever waits in it waits on in the next one of the same leader."""
    self.is_over = True
    self.in_sync.revert()
    _unanswered[id(self._replica)] = self.produces


def _take_over_unanswered(self: LeaderReplica, replica: Any, context: Any, now: Now) -> None:
    _new_leader(self, replica, context, now)
    self.produces = _unanswered.pop(id(replica), self.produces)


_new_partition: Final = Partition.__init__


def _with_one_in_sync(
    self: Partition, log: Any, node_id: int, mark: int, rules: Any, _least: int, around: Any
) -> None:
    _new_partition(self, log, node_id, mark, rules, 1, around)


def _when_it_began(self: WantedPartition, _now_ms: int) -> int:
    return self._context.created_ms


_partition_moved: Final = WantedPartition.partition_moved


def _tell_consumers_only(self: WantedPartition, new_bytes: int) -> None:
    if not (self.wants_log_end and new_bytes):
        _partition_moved(self, new_bytes)


def _believe_any_directory(self: Hosting) -> int:
    return max(directory.previous_broker_epoch for directory in self._context.directories)


def _begin_where_there_is_room(
    self: Hosting, _directory_id: UUID, *, is_new: bool
) -> LogDirectory | None:
    online = [each for each in self._context.directories if each.offline_reason is None]
    return min(online, key=lambda directory: len(directory.logs), default=None)


_changed_by: Final = PartitionImage.changed_by


def _in_the_same_epoch(self: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    return replace(_changed_by(self, record), leader_epoch=self.leader_epoch)


_elect: Final = partition_change._elect


def _elect_whoever_lives(
    partition: PartitionImage,
    target: PartitionTarget,
    elr: Any,
    rules: Any,
    election: Election,
    may_lead: Callable[[int], bool],
    hard_to_reach: Any,
) -> ElectionResult:
    for each in filter(may_lead, target.replicas):
        return ElectionResult(each, "it lives")
    return _elect(partition, target, elr, rules, election, may_lead, hard_to_reach)


def _elect_the_preferred(
    partition: PartitionImage,
    target: PartitionTarget,
    elr: Any,
    rules: Any,
    election: Election,
    may_lead: Callable[[int], bool],
    hard_to_reach: Any,
) -> ElectionResult:
    if election is Election.PREFERRED and may_lead(target.replicas[0]):
        return ElectionResult(target.replicas[0], "it is preferred")
    return _elect(partition, target, elr, rules, election, may_lead, hard_to_reach)


def _end_at_once(target: PartitionTarget, _minimum: int) -> PartitionTarget:
    going = set(target.removing)
    return replace(
        target,
        replicas=tuple(each for each in target.replicas if each not in going),
        isr=tuple(each for each in target.isr if each not in going),
        adding=(),
        removing=(),
    )


MUTANTS: Final = (
    Mutant(
        "newcomers do not count",
        (
            Patch(in_sync_replicas, "maximal", lambda c, p: c),
            Patch(LeaderReplica, "_might_join", _same(False)),
        ),
        seed=1,
        rule="C12",
    ),
    _mutant(
        "members about to leave do not count",
        in_sync_replicas,
        "maximal",
        lambda c, p: frozenset(p),
        seed=4,
        rule="D6",
    ),
    _mutant("no fence", Partition, "fence", _same(None), seed=1, rule="D13"),
    _mutant("fetches are not fenced", FetchRead, "_refusal", _refuse_no_epoch, seed=1, rule="D13"),
    _mutant(
        "members join before the epoch start",
        LeaderReplica,
        "_reached_epoch_start",
        _same(True),
        seed=2,
        rule="D9",
    ),
    _mutant(
        "diverging answers tell the high watermark",
        follower,
        "tells_high_watermark",
        _same(True),
        story="two_rounds_of_divergence",
        rule="D3",
    ),
    _mutant(
        "the high watermark moves with too few members",
        leader,
        "has_enough",
        _same(True),
        seed=1,
        rule="D2",
    ),
    Mutant(
        "any incarnation may join",
        (
            Patch(leader, "is_outdated", _same(False)),
            Patch(leader, "is_same_incarnation", _same(True)),
            Patch(alter_partition, "_ineligible", _same(None)),
        ),
        seed=43,
        rule="D9",
    ),
    _mutant("a new incarnation stays in sync", brokers, "_goodbyes", _same([]), seed=3, rule="C16"),
    _mutant(
        "producers survive a truncation", ProducerState, "load", _load_once, seed=58, rule="D19"
    ),
    Mutant(
        "parked answers outlive their epoch",
        (
            Patch(LeaderReplica, "end", _leave_unanswered),
            Patch(LeaderReplica, "__init__", _take_over_unanswered),
        ),
        seed=13,
        rule="D12",
    ),
    _mutant(
        "acks=all does not wait",
        LeaderReplica,
        "acknowledgement",
        _same(ErrorCode.none),
        seed=1,
        rule="D12",
    ),
    _mutant("sequences are not checked", ProducerState, "check", _same(None), seed=1, rule="D19"),
    _mutant(
        "followers take damaged batches",
        fetched_batches,
        "crc_matches",
        _same(True),
        story="damaged_batch_is_not_taken",
        rule="D17",
    ),
    _mutant(
        "high watermarks leave the log", HighWatermark, "clamp", _same(None), seed=1, rule="D5"
    ),
    _mutant("nobody diverges", partition, "divergence", _same(None), seed=3, rule="D4"),
    _mutant(
        "epochs outlive a truncation",
        LeaderEpochCache,
        "truncate_from_end",
        _same(None),
        seed=12,
        rule="D18",
    ),
    _mutant(
        "a leader's epoch begins unnoticed",
        LeaderEpochCache,
        "begin",
        _same(None),
        seed=1,
        rule="D18",
    ),
    _mutant(
        "any answer is current",
        follower.FollowerReplica,
        "_is_current",
        _same(True),
        seed=9,
        rule="L5",
    ),
    _mutant(
        "a proposal without an answer is given up",
        AlterPartitions,
        "_again",
        _give_up,
        story="lost_answer_to_a_proposal",
        rule="C12",
    ),
    _mutant(
        "consumers read to the end", FetchRead, "_records", _read_to_the_end, seed=1, rule="D11"
    ),
    _mutant(
        "any proposal is taken",
        alter_partition,
        "_refused",
        _same(None),
        seed=12,
        rule="C12",
    ),
    _mutant(
        "a new leader tells its old high watermark",
        LeaderReplica,
        "is_high_watermark_behind_epoch",
        False,
        seed=17,
        rule="D8",
    ),
    _mutant(
        "a failed disk is used on",
        DirectoryHealth,
        "fail",
        _forget_failure,
        story="failed_sync",
        rule="S4",
    ),
    Mutant(
        "a late heartbeat makes its connection count",
        (Patch(_HeartbeatConnections, "closed", _last_heard_counts),),
        story="healed_cut",
        rule="C17",
    ),
    Mutant(
        "what a broker gives up ends at once",
        (Patch(Link, "_give_up", _hang_up_at_once),),
        story="healed_cut",
        rule="L20",
    ),
    _mutant(
        "a new leader begins no epoch",
        PartitionImage,
        "changed_by",
        _in_the_same_epoch,
        seed=1,
        rule="C13",
    ),
    _mutant(
        "whoever lives is elected",
        partition_change,
        "_elect",
        _elect_whoever_lives,
        seed=1,
        rule="C15",
    ),
    _mutant(
        "the preferred leader need not be in sync",
        partition_change,
        "_elect",
        _elect_the_preferred,
        seed=2,
        rule="C19",
    ),
    _mutant(
        "reassignments end at once",
        PartitionTarget,
        "completed",
        _end_at_once,
        story="reassignment",
        rule="C18",
    ),
    _mutant(
        "reassignments never end",
        PartitionTarget,
        "completed",
        lambda target, _minimum: target,
        seed=3,
        rule="L10",
    ),
    _mutant(
        "leadership never goes back",
        preferred_leaders,
        "_imbalance",
        _same((Counter(), {})),
        seed=6,
        rule="L11",
    ),
    _quorum_mutant(
        "votes are not durable", election_state, "write_atomically", replace_file, seed=2, rule="C2"
    ),
    _quorum_mutant(
        "voters speak before their disk knows it",
        QuorumState,
        "awaits_disk",
        False,
        seed=1,
        rule="C2",
    ),
    _quorum_mutant(
        "a cut waits for the disk",
        PartitionLog,
        "lowering_for_cut",
        _same(None),
        seed=2,
        rule="S7",
    ),
    _quorum_mutant(
        "a new log waits until the disk has forgotten an old one",
        LogDirectory,
        "forgetting",
        _same(None),
        seed=9,
        rule="S7",
    ),
    _quorum_mutant(
        "voters vote for anybody", Unattached, "grants_vote", _same(True), seed=5, rule="C2"
    ),
    _quorum_mutant(
        "voters do not look at logs", Elections, "_is_behind", _same(False), seed=3, rule="C3"
    ),
    _quorum_mutant(
        "copies of earlier epochs are counted",
        Leader,
        "_high_watermark_moved",
        _commit_any_epoch,
        seed=4,
        rule="C4",
    ),
    _quorum_mutant(
        "a leader commits alone", Leader, "_high_watermark_moved", _commit_alone, seed=2, rule="C5"
    ),
    _quorum_mutant("voters fetch before they sync", Quorum, "_must_sync", False, seed=2, rule="C5"),
    _quorum_mutant(
        "a leader without a majority goes on", Leader, "_majority_lost_ms", None, seed=2, rule="C8"
    ),
    _quorum_mutant(
        "a leader remembers more fetches than it had",
        Leader,
        "heard_ms",
        _same(1 << 60),
        seed=2,
        rule="C8",
    ),
    _quorum_mutant(
        "whoever was killed stays eligible",
        brokers,
        "_goodbyes",
        _trust_every_stop,
        seed=2,
        rule="C16",
    ),
    _quorum_mutant(
        "who comes back is fenced all the same",
        BrokerSessions,
        "touch",
        _touch_in_vain,
        seed=3,
        rule="C17",
    ),
    _quorum_mutant(
        "a controller decides before it has read its epoch",
        Quorum,
        "is_active",
        Quorum.is_leader,
        seed=2,
        rule="C10",
    ),
    _quorum_mutant(
        "a new controller fences at once",
        BrokerSessions,
        "restart",
        _begin_overdue,
        seed=4,
        rule="C17",
    ),
    _mutant(
        "proposals for an earlier state are taken",
        alter_partition,
        "_refused",
        _take_old_proposals,
        story="proposal_for_an_earlier_state",
        rule="C12",
    ),
    Mutant(
        "partitions are also fetched from whoever led before",
        (Patch(ReplicaFetchers, "forget", _forget_by_half),),
        seed=3,
        rule="D21",
    ),
    Mutant(
        "one replica is enough for every topic",
        (Patch(Partition, "__init__", _with_one_in_sync),),
        seed=3,
        rule="D6",
    ),
    _quorum_mutant(
        "voters call durable what they only wrote",
        MetadataLog,
        "durable_end",
        MetadataLog.end_offset,
        seed=2,
        rule="C5",
    ),
    Mutant(
        "silence makes followers late",
        (Patch(FollowerProgress, "leader_grows", _same(None)),),
        seed=42,
        rule="D10",
    ),
    Mutant(
        "who waits at the leader counts as silent",
        (Patch(WantedPartition, "last_heard_ms", _when_it_began),),
        seed=42,
        rule="D10",
    ),
    Mutant(
        "who lags behind is never let go",
        (Patch(LeaderReplica, "shrink_if_due", LeaderReplica.look_again),),
        story="slow_follower_leaves_and_rejoins",
        rule="D10",
    ),
    Mutant(
        "an append is no news to followers",
        (Patch(WantedPartition, "partition_moved", _tell_consumers_only),),
        seed=42,
        rule="L22",
    ),
    _directory_mutant(
        "one directory speaks for all",
        Patch(Hosting, "previous_broker_epoch", property(_believe_any_directory)),
        seed=23,
        rule="C16",
    ),
    _directory_mutant(
        "a replica begins anew while its directory is offline",
        Patch(Hosting, "_directory_for", _begin_where_there_is_room),
        seed=3,
        rule="D16",
    ),
    _directory_mutant(
        "a replica in a failed directory goes on fetching",
        Patch(Hosting, "_went_offline", lambda _, replica: replica.went_offline()),
        Patch(alter_partition, "directory_is_online", _same(True)),
        seed=4,
        rule="C14",
    ),
)
