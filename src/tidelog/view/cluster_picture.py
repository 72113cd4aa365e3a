"""The whole cluster as its nodes tell of it, put together from one stream of each.

Who leads and who is in sync is told by the metadata of one node; offsets are those of the leader,
and each node tells of its own replicas.

Invariant  What a node told last stays until it tells something newer: a node that is gone leaves
           its replicas as they were seen last.
Invariant  Only nodes of one cluster are in it, and only what they tell as docs/http.md says; the
           rest is `OtherCluster` or `NotUnderstood`, and changes nothing.
Invariant  `take_changes` gives each row that changed since the last time once, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from enum import IntEnum
from typing import Any, Final, NamedTuple

from tidelog.model.errors import TidelogError
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.monitor.snapshot import ProcessSeen

Told = Mapping[str, Any]
"""An object as a node sent it."""


_PLACE: Final = {"topic": str, "partition": int}
_LED: Final = {**_PLACE, "leader": int, "leader_epoch": int, "replicas": list, "isr": list}
_SHAPES: Final[Mapping[str, Mapping[str, type]]] = {
    "metadata": _LED,
    "partitions": {
        **_LED,
        "min_isr": int,
        "log_start_offset": int,
        "log_end_offset": int,
        "high_watermark": int,
        "parked": int,
    },
    "broker": {"id": int, "fenced": bool, "shutting_down": bool},
    "directory": {"path": str},
    "quorum": {"leader": int, "epoch": int},
}
"""What must be there of what a node tells."""


class NotUnderstood(TidelogError):
    """A node tells something in another way than docs/http.md says."""


class OtherCluster(TidelogError):
    """A node is none of the cluster that is looked at."""


class PartitionHealth(IntEnum):
    """How a partition is, from good to bad."""

    FINE = 0
    UNDER_REPLICATED = 1
    UNDER_MIN_ISR = 2
    OFFLINE = 3


class PartitionRow(NamedTuple):
    """What the grid shows of one partition."""

    topic: str
    partition: int
    health: PartitionHealth
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    min_isr: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    parked: int

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def state(self) -> tuple[object, ...]:
        """What of it can be wrong: everything but its log."""
        return self[: self._fields.index("log_start_offset")]


class NodeSeen:
    """What one node has told, and whether it still tells."""

    def __init__(self, address: str, node_id: int | None) -> None:
        self.address = address
        self.node_id = node_id
        self.is_connected = False
        self.why_not: str | None = None
        """Why it does not answer; None before it was asked."""
        self.turns = 0
        """How often it came or went: what was learnt in another turn is of the past."""
        self.not_understood: dict[str, str] = {}
        """What it told last in each of its streams that nobody here understands."""
        self.version = ""
        self.cluster_id = ""
        self.roles: tuple[str, ...] = ()
        self.cluster: Told = {}
        self.process: ProcessSeen | None = None
        self.replicas: dict[TopicPartition, Told] = {}

    @property
    def quorum(self) -> Told:
        found: Told = self.cluster.get("quorum") or {}
        return found

    @property
    def is_awake(self) -> bool:
        """Whether what it tells is of now."""
        return self.is_connected and (self.process is None or self.process.state == "running")


class Changes(NamedTuple):
    """What is different from the last time."""

    rows: list[PartitionRow]
    removed: list[TopicPartition]
    cluster: bool
    """Whether nodes, brokers, the quorum or the state of partitions are."""


class ClusterPicture:
    """Takes what nodes say; knows rows, nodes and the quorum."""

    def __init__(self, nodes: Iterable[NodeSeen], cluster_id: str | None = None) -> None:
        """Without an id, the first node that answers says which cluster it is."""
        self.nodes = {node.address: node for node in nodes}
        self.cluster_id = cluster_id
        self.rows: dict[TopicPartition, PartitionRow] = {}
        self.by_health: dict[PartitionHealth, set[TopicPartition]] = {
            health: set() for health in PartitionHealth
        }
        self._silent_leaders: Set[int] = frozenset()
        self._metadata: dict[TopicPartition, Told] = {}
        self._metadata_is_whole = False
        """Whether a partition that it does not name is none."""
        self._untold: dict[tuple[str, str], set[TopicPartition]] = {}
        self._changed: set[TopicPartition] = set()
        self._cluster_changed = True

    # -- hearing -------------------------------------------------------------------------------

    def connected(self, address: str) -> None:
        node = self.nodes[address]
        if not node.is_connected:
            node.turns += 1
        node.is_connected, node.why_not = True, None
        self._cluster_changed = True

    def lost(self, address: str, why: str) -> None:
        node = self.nodes[address]
        if node.is_connected or node.why_not != why:
            node.turns += node.is_connected
            node.is_connected, node.why_not = False, why
            self._cluster_changed = True

    def process_is(self, address: str, process: ProcessSeen) -> None:
        node = self.nodes[address]
        if node.process != process:
            node.turns += 1
            node.process = process
            self._cluster_changed = True

    def not_understood(self, address: str, path: str, what: str) -> bool:
        """Keep what was not understood of a node's stream; whether that is news."""
        node = self.nodes[address]
        is_news = node.not_understood.get(path) != what
        node.not_understood[path] = what
        self._cluster_changed |= is_news
        return is_news

    def begins_anew(self, address: str, path: str) -> None:
        """What was not understood of this stream may be told otherwise now."""
        if self.nodes[address].not_understood.pop(path, None) is not None:
            self._cluster_changed = True

    def leaders_are_silent(self, brokers: Set[int]) -> None:
        """Whatever these brokers lead is without a leader that answers."""
        turned = brokers ^ self._silent_leaders
        if turned:
            self._silent_leaders = brokers
            self._changed |= {name for name, row in self.rows.items() if row.leader in turned}

    def hear(self, address: str, name: str, told: Any) -> None:
        """One event of a node's `/watch`; what else is in one that is not understood counts."""
        if not isinstance(told, dict):
            raise NotUnderstood(f"{name} is no object")
        node = self.nodes[address]
        match name:
            case "hello":
                self._hear_hello(node, told)
            case "cluster":
                for kind, entries in (("broker", "brokers"), ("directory", "directories")):
                    for each in _field(told, entries, list):
                        _require(kind, each)
                _require("quorum", told.get("quorum"))
                node.cluster = told
                self._cluster_changed = True
            case "partitions":
                self._hear_partitions(node.replicas, address, name, told)
            case "metadata":
                self._hear_partitions(self._metadata, address, name, told)

    def _hear_hello(self, node: NodeSeen, told: Told) -> None:
        cluster_id = str(_field(told, "cluster_id", str))
        self.cluster_id = self.cluster_id or cluster_id
        if cluster_id != self.cluster_id:
            raise OtherCluster(f"it is of cluster {cluster_id}, and this is {self.cluster_id}")
        node.node_id = int(_field(told, "node", int))
        node.version, node.cluster_id = str(told.get("version", "")), cluster_id
        node.roles = tuple(map(str, _field(told, "roles", list)))
        self._untold[node.address, "partitions"] = set(node.replicas)
        self._untold[node.address, "metadata"] = set(self._metadata)
        self._cluster_changed = True

    def _hear_partitions(
        self, known: dict[TopicPartition, Told], address: str, name: str, told: Told
    ) -> None:
        untold = self._untold.get((address, name), set())
        trouble: NotUnderstood | None = None
        for each in _field(told, "partitions", list):
            try:
                _require(name, each)
            except NotUnderstood as error:
                trouble = error
                continue
            partition = TopicPartition(each["topic"], each["partition"])
            if each.get("removed"):
                known.pop(partition, None)
            else:
                known[partition] = each
            untold.discard(partition)
            self._changed.add(partition)
        if told.get("snapshot") and not told.get("left"):
            for partition in untold:  # gone while nobody looked
                known.pop(partition, None)
            self._changed |= untold
            untold.clear()
            if name == "metadata" and not self._metadata_is_whole:
                self._metadata_is_whole = True
                self._changed |= set(self.rows)
        if trouble is not None:
            raise trouble

    # -- telling -------------------------------------------------------------------------------

    def take_changes(self) -> Changes:
        rows, removed = [], []
        for name in self._changed:
            before, row = self.rows.get(name), self._row(name)
            if row is None:
                if before is not None:
                    self._forget(before)
                    removed.append(name)
            elif row != before:
                self._put(before, row)
                rows.append(row)
        self._changed.clear()
        changes = Changes(rows, removed, self._cluster_changed)
        self._cluster_changed = False
        return changes

    def node(self, node_id: int) -> NodeSeen | None:
        return next((each for each in self.nodes.values() if each.node_id == node_id), None)

    @property
    def quorum(self) -> Told:
        """The quorum as its leader knows it, else as the node of the highest epoch does."""
        told = [node.quorum for node in self.nodes.values() if node.is_awake and node.quorum]
        return max(told, key=knowledge_of_quorum, default={})

    @property
    def brokers(self) -> list[Told]:
        """The registered brokers, as the node that knows the quorum best has them."""
        told = [node.cluster for node in self.nodes.values() if node.is_awake and node.cluster]
        best = max(
            told, key=lambda cluster: knowledge_of_quorum(cluster.get("quorum") or {}), default={}
        )
        return sorted(best.get("brokers") or [], key=lambda broker: int(broker["id"]))

    def replicas_of(self, name: TopicPartition) -> dict[int, Told]:
        """What each node said last of its replica."""
        return {
            node.node_id: node.replicas[name]
            for node in self.nodes.values()
            if node.node_id is not None and name in node.replicas
        }

    def _put(self, before: PartitionRow | None, row: PartitionRow) -> None:
        if before is not None:
            self.by_health[before.health].discard(row.name)
        self.rows[row.name] = row
        self.by_health[row.health].add(row.name)
        if before is None or before.state != row.state:
            self._cluster_changed = True

    def _forget(self, row: PartitionRow) -> None:
        del self.rows[row.name]
        self.by_health[row.health].discard(row.name)
        self._cluster_changed = True

    def _row(self, name: TopicPartition) -> PartitionRow | None:
        replicas = self.replicas_of(name)
        told = self._metadata.get(name)
        if told is None:
            if not replicas or self._metadata_is_whole:
                return None
            told = max(replicas.values(), key=lambda each: int(each["leader_epoch"]))
        leader = int(told["leader"])
        log = replicas.get(leader) or max(
            replicas.values(), key=lambda each: int(each["leader_epoch"]), default=None
        )
        min_isr = int(log["min_isr"]) if log is not None else 1
        isr = tuple(told["isr"])
        answers = leader != NO_LEADER and leader not in self._silent_leaders
        return PartitionRow(
            name.topic,
            name.partition,
            _health(len(isr), len(told["replicas"]), min_isr, answers=answers),
            leader,
            int(told["leader_epoch"]),
            tuple(told["replicas"]),
            isr,
            min_isr,
            *(
                (int(log["log_start_offset"]), int(log["log_end_offset"]))
                if log is not None
                else (-1, -1)
            ),
            int(log["high_watermark"]) if log is not None else -1,
            int(log["parked"]) if log is not None else 0,
        )


def _field(told: Told, name: str, kind: type) -> Any:
    found = told.get(name)
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
        shown = "missing" if found is None else f"{found!r:.80}"
        raise NotUnderstood(f"{name} is {shown}")
    return found


def _require(shape: str, told: Any) -> None:
    if not isinstance(told, dict):
        raise NotUnderstood(f"an entry of {shape} is {told!r:.80}")
    fields = _PLACE if told.get("removed") else _SHAPES[shape]
    for name, kind in fields.items():
        found = _field(told, name, kind)
        if kind is list and not all(isinstance(each, int) for each in found):
            raise NotUnderstood(f"{name} is {found!r:.80}")


def _health(in_sync: int, replicas: int, min_isr: int, *, answers: bool) -> PartitionHealth:
    if not answers:
        return PartitionHealth.OFFLINE
    if in_sync < min(min_isr, replicas):
        return PartitionHealth.UNDER_MIN_ISR
    return PartitionHealth.UNDER_REPLICATED if in_sync < replicas else PartitionHealth.FINE


def knowledge_of_quorum(quorum: Told) -> tuple[bool, int, bool]:
    """The more, the better a node knows who decides; most of all the one that does."""
    return (
        int(quorum.get("leader", NO_LEADER)) != NO_LEADER,
        int(quorum.get("epoch", -1)),
        quorum.get("role") == "leader",
    )
