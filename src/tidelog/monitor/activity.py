"""What nodes and partitions do at present, from two looks at them a moment apart.

Invariant  A counter that fell belongs to a process that was started anew: there is no rate then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.model.ids import TopicPartition
from tidelog.monitor.snapshot import NodeTold

RECORDS_IN: Final = "kafka_server_brokertopicmetrics_messagesin_total"
BYTES_IN: Final = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT: Final = "kafka_server_brokertopicmetrics_bytesout_total"
REQUESTS: Final = "kafka_network_requestmetrics_totaltimems_count"
LEADERS: Final = "kafka_server_replicamanager_leadercount"
FOLLOWER_LAG: Final = "kafka_server_replicamanager_followerlag_max"
CPU: Final = "process_cpu_seconds_total"
RESIDENT: Final = "process_resident_memory_bytes"


class NodeActivity(NamedTuple):
    """One node; what is not known is None, and so is every rate at the first look."""

    node: str
    answers: bool
    leaders: float | None = None
    records_in_per_s: float | None = None
    bytes_in_per_s: float | None = None
    bytes_out_per_s: float | None = None
    requests_per_s: float | None = None
    follower_lag: float | None = None
    """The most records by which a follower is behind a leader here."""
    cpu_share: float | None = None
    resident_bytes: float | None = None


class PartitionEnd(NamedTuple):
    """A partition as its leader knows it."""

    leader: int
    leader_epoch: int
    in_sync: tuple[int, ...]
    replicas: tuple[int, ...]
    log_end_offset: int
    high_watermark: int
    slowest_offset: int | None
    """Where the follower stands that is the furthest behind."""


class PartitionActivity(NamedTuple):
    """A partition that is written to, or one with followers behind."""

    name: TopicPartition
    end: PartitionEnd
    records_per_s: float

    @property
    def follower_lag(self) -> int:
        slowest = self.end.slowest_offset
        return 0 if slowest is None else self.end.log_end_offset - max(0, slowest)


def node_activity(before: NodeTold | None, now: NodeTold, elapsed_s: float) -> NodeActivity:
    """What a node did between two looks."""
    name = now.listener if now.node_id is None else str(now.node_id)
    if now.silent is not None or now.metrics is None:
        return NodeActivity(name, answers=False)

    def rate(family: str) -> float | None:
        if before is None or before.metrics is None or now.metrics is None or elapsed_s <= 0:
            return None
        then, present = before.metrics.get(family), now.metrics.get(family)
        if then is None or present is None or present < then:
            return None
        return (present - then) / elapsed_s

    return NodeActivity(
        name,
        True,
        now.metrics.get(LEADERS),
        rate(RECORDS_IN),
        rate(BYTES_IN),
        rate(BYTES_OUT),
        rate(REQUESTS),
        now.metrics.get(FOLLOWER_LAG),
        rate(CPU),
        now.metrics.get(RESIDENT),
    )


def led_partitions(nodes: Iterable[NodeTold]) -> dict[TopicPartition, PartitionEnd]:
    """All partitions whose leader answered; of two that claim it, the one of the later epoch."""
    found: dict[TopicPartition, PartitionEnd] = {}
    for node in nodes:
        for each in [] if node.state is None else node.state.get("partitions", ()):
            if each["role"] != "leader":
                continue
            name = TopicPartition(each["topic"], each["partition"])
            followers = (each.get("followers") or {}).values()
            end = PartitionEnd(
                each["leader"],
                each["leader_epoch"],
                tuple(each["isr"]),
                tuple(each["replicas"]),
                each["log_end_offset"],
                each["high_watermark"],
                min(followers, default=None),
            )
            if name not in found or found[name].leader_epoch < end.leader_epoch:
                found[name] = end
    return found


def busiest(
    before: Mapping[TopicPartition, PartitionEnd],
    now: Mapping[TopicPartition, PartitionEnd],
    elapsed_s: float,
) -> list[PartitionActivity]:
    """All partitions, those with most records first, then those with followers far behind."""
    found = []
    for name, end in now.items():
        grown = end.log_end_offset - before[name].log_end_offset if name in before else 0
        rate = max(0, grown) / elapsed_s if elapsed_s > 0 else 0.0
        found.append(PartitionActivity(name, end, rate))
    return sorted(found, key=lambda each: (-each.records_per_s, -each.follower_lag, each.name))


def group_lags(
    committed: Mapping[str, Mapping[TopicPartition, int]],
    ends: Mapping[TopicPartition, PartitionEnd],
) -> dict[str, int]:
    """How many records each group has yet to read, where leaders tell their ends; most first."""
    lags = {
        group: sum(
            max(0, ends[name].high_watermark - offset)
            for name, offset in offsets.items()
            if name in ends
        )
        for group, offsets in committed.items()
    }
    return dict(sorted(lags.items(), key=lambda each: (-each[1], each[0])))
