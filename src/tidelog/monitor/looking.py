"""A look at a cluster: brokers are asked with Kafka's requests, nodes over HTTP, all of them within
a few seconds.

Invariant  Whoever does not answer, or refuses, hinders nobody else from being heard.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from tidelog.client.admin import Admin, BrokerEntry, QuorumDescription, ResourceType
from tidelog.client.blocking import Client
from tidelog.client.errors import ClientError, NoController, RequestRefused, Unreachable
from tidelog.client.log_directories import broker_disks
from tidelog.client.metadata import PartitionView
from tidelog.client.reassignments import Reassignments
from tidelog.http.questions import NodeListener, NodeSilent
from tidelog.local.local_cluster import LocalCluster
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.monitor.metrics_text import read_metrics
from tidelog.monitor.node_survey import PATIENCE_S
from tidelog.monitor.snapshot import BrokerTold, ClusterSnapshot, NodeTold, ProcessSeen
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

_MIN_IN_SYNC: Final = "min.insync.replicas"
_AT_ONCE: Final = 1000
_THREADS: Final = 16
T = TypeVar("T")


class Onlooker:
    """Looks at one cluster, as often as somebody wants to know."""

    def __init__(
        self,
        client: Client,
        listeners: Sequence[NodeListener],
        local: LocalCluster | None,
    ) -> None:
        self._client = client
        self._admin = Admin(client)
        self._listeners = listeners
        self._local = local
        self._not_told: list[str] = []

    def look(self, *, partitions: bool = True) -> ClusterSnapshot:
        """Everything; without the partitions for somebody who is told of them anyway."""
        self._not_told = []
        nodes = look_at_nodes(self._listeners)
        cluster_id, _, brokers = self._admin.describe_cluster()
        quorum, no_controller = self._quorum()
        found = self._partitions() if partitions else {}
        adding = {}
        if no_controller is None:
            moves = self._told("reassignments", Reassignments(self._client).under_way) or []
            adding = {each.name: each.adding for each in moves}
        topics = sorted({name.topic for name in found})
        return ClusterSnapshot(
            at_ms=time.time_ns() // 1_000_000,
            cluster_id=cluster_id,
            quorum=quorum,
            no_controller=no_controller,
            brokers=tuple(brokers),
            told=self._brokers(brokers),
            partitions=found,
            adding=adding,
            min_in_sync=self._told("settings", lambda: self._min_in_sync(topics)) or {},
            nodes=nodes,
            processes={} if self._local is None else processes(self._local),
            not_told=tuple(self._not_told),
        )

    def _partitions(self) -> dict[TopicPartition, PartitionView]:
        return {
            TopicPartition(topic.name, each.partition): each
            for _, topic in sorted(self._admin.topics().topics.items())
            for each in topic.partitions
        }

    def _told(self, what: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except ClientError as error:
            self._not_told.append(f"{what}: {error}")
            return None

    def _quorum(self) -> tuple[QuorumDescription | None, str | None]:
        try:
            return self._admin.describe_quorum(), None
        except NoController as missing:
            return None, str(missing)
        except ClientError as error:
            self._not_told.append(f"metadata quorum: {error}")
            return None, None

    def _brokers(self, brokers: Iterable[BrokerEntry]) -> dict[int, BrokerTold]:
        found = {}
        for each in brokers:
            if each.fenced:
                continue
            try:
                self._client.broker(each.node_id)
            except Unreachable as error:
                found[each.node_id] = BrokerTold(silent=str(error))
                continue
            except RequestRefused:  # the metadata at hand does not know it yet, or any more
                continue
            disk = broker_disks(self._client, [each.node_id], ()).get(each.node_id)
            if disk is not None:
                found[each.node_id] = BrokerTold(None, disk.failed, disk.usable_bytes)
        return found

    def _min_in_sync(self, topics: Sequence[str]) -> dict[str, int]:
        found = {}
        for start in range(0, len(topics), _AT_ONCE):
            resources = [
                DescribeConfigsResource(
                    resource_type=int(ResourceType.TOPIC),
                    resource_name=topic,
                    configuration_keys=[_MIN_IN_SYNC],
                )
                for topic in topics[start : start + _AT_ONCE]
            ]
            answer = self._client.call(DescribeConfigsRequest(resources=resources))
            for result in answer.results:
                for entry in result.configs if result.error_code is ErrorCode.none else ():
                    if entry.name == _MIN_IN_SYNC and entry.value is not None:
                        found[result.resource_name] = int(entry.value)
        return found


def look_at_nodes(
    listeners: Sequence[NodeListener], *, partitions: str = "none"
) -> tuple[NodeTold, ...]:
    """Ask all nodes at the same time."""
    if not listeners:
        return ()
    with ThreadPoolExecutor(min(_THREADS, len(listeners))) as threads:
        asked = [threads.submit(_node, listener, partitions) for listener in listeners]
        return tuple(each.result() for each in asked)


def _node(listener: NodeListener, partitions: str) -> NodeTold:
    try:
        health = listener.ask_json("/healthz", PATIENCE_S)
        before = time.time_ns()
        state = listener.ask_json(f"/state?partitions={partitions}", PATIENCE_S)
        after = time.time_ns()
        _, metrics = listener.ask("/metrics", PATIENCE_S)
    except NodeSilent as silent:
        return NodeTold(str(listener), listener.node_id, str(silent))
    middle_ms, unsure_ms = (before + after) // 2_000_000, (after - before) // 2_000_000
    return NodeTold(
        str(listener),
        state.get("node", listener.node_id),
        None,
        state,
        read_metrics(metrics.decode("utf-8", "replace")),
        tuple(health.get("problems", ())),
        state.get("at_ms", middle_ms) - middle_ms,
        unsure_ms,
    )


def processes(cluster: LocalCluster) -> dict[int, ProcessSeen]:
    """What can be seen of the nodes of a cluster on this machine without asking them."""
    found = {}
    for node_id, node in cluster.nodes.items():
        ending = node.last_ending
        words = None if ending is None else f"{ending.cause}: {ending.reason}"
        found[node_id] = ProcessSeen(str(node.state), words)
    return found
