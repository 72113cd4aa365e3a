"""What the view knows of a cluster as the snapshot by which `tidelog cluster health` judges, so
that both name the same problems.

The nodes' streams tell at once of partitions, brokers and who answers. Disks, clocks, metrics and
moves are looked at every few seconds.

Invariant  What a stream tells counts before what was looked at: of a node that came or went since
           a look began, the look tells nothing.
Invariant  Partitions that nothing is wrong with are left out: of ten thousand there are few.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tidelog.client.admin import BrokerEntry, QuorumDescription, QuorumMember
from tidelog.client.blocking import Client
from tidelog.client.security import ClientSecurity
from tidelog.http.questions import NodeListener
from tidelog.model.errors import TidelogError
from tidelog.model.ids import NO_LEADER, ZERO_UUID
from tidelog.monitor.looking import Onlooker, look_at_nodes
from tidelog.monitor.node_survey import PATIENCE_S
from tidelog.monitor.snapshot import BrokerTold, ClusterSnapshot, NodeTold
from tidelog.view.cluster_picture import ClusterPicture, NodeSeen, PartitionHealth


class ClusterLook(NamedTuple):
    """What was learnt by asking once."""

    nodes: Mapping[str, NodeTold] = {}
    """By address."""
    cluster: ClusterSnapshot | None = None
    """As brokers tell it, without partitions; None where none could be asked."""
    not_told: tuple[str, ...] = ()
    """What could not be learnt, and why."""


def look_at(
    bootstrap: str, listeners: tuple[NodeListener, ...], security: ClientSecurity | None
) -> ClusterLook:
    """Ask nodes over HTTP and brokers as a client; blocks for some seconds at most."""
    told = look_at_nodes(listeners)
    nodes = {each.address: one for each, one in zip(listeners, told, strict=True)}
    try:
        with Client(
            bootstrap, timeout_s=PATIENCE_S, request_timeout_s=PATIENCE_S, security=security
        ) as client:
            cluster = Onlooker(client, (), None).look(partitions=False)
    except TidelogError as error:
        return ClusterLook(nodes, None, (f"disks, voters and moves: {error}",))
    return ClusterLook(nodes, cluster, cluster.not_told)


def snapshot_of(
    picture: ClusterPicture, look: ClusterLook, turns: Mapping[str, int], at_ms: int
) -> ClusterSnapshot:
    """The cluster at this moment; `turns` are those of the nodes when the look began."""
    turned = {
        address: node.node_id
        for address, node in picture.nodes.items()
        if turns.get(address) != node.turns
    }
    suspects = sorted(
        name
        for health, names in picture.by_health.items()
        if health is not PartitionHealth.FINE
        for name in names
    )
    return ClusterSnapshot(
        at_ms=at_ms,
        cluster_id=_cluster_id(picture, look),
        quorum=_quorum(picture, look),
        no_controller=_no_controller(picture, look),
        brokers=_brokers(picture),
        told={} if look.cluster is None else _without(look.cluster.told, turned.values()),
        partitions={name: picture.rows[name] for name in suspects},
        adding={} if look.cluster is None else look.cluster.adding,
        min_in_sync={name.topic: picture.rows[name].min_isr for name in suspects},
        nodes=tuple(
            _node(node, None if address in turned else look.nodes.get(address))
            for address, node in picture.nodes.items()
            if node.is_connected or node.why_not is not None
        ),
        processes={
            node.node_id: node.process
            for node in picture.nodes.values()
            if node.node_id is not None and node.process is not None
        },
        not_told=look.not_told,
    )


def _cluster_id(picture: ClusterPicture, look: ClusterLook) -> str:
    if look.cluster is not None:
        return look.cluster.cluster_id
    return next((node.cluster_id for node in picture.nodes.values() if node.is_awake), "")


def _brokers(picture: ClusterPicture) -> tuple[BrokerEntry, ...]:
    return tuple(
        BrokerEntry(int(each["id"]), "", -1, each.get("rack"), bool(each["fenced"]))
        for each in picture.brokers
    )


def _without(
    told: Mapping[int, BrokerTold], turned: Collection[int | None]
) -> dict[int, BrokerTold]:
    return {broker: each for broker, each in told.items() if broker not in turned}


def _node(node: NodeSeen, looked_at: NodeTold | None) -> NodeTold:
    """Whether it answers is what its stream tells; the rest was looked at."""
    told = NodeTold(node.address, node.node_id)
    if not node.is_connected:
        return told._replace(silent=node.why_not or "")
    if looked_at is not None and looked_at.silent is None:
        told = looked_at
    directories = node.cluster.get("directories") or ()
    return told._replace(state={"cluster_id": node.cluster_id, "directories": directories})


def _quorum(picture: ClusterPicture, look: ClusterLook) -> QuorumDescription | None:
    """As its leader describes it where it was asked, else as streams name it."""
    told = picture.quorum
    leader, epoch = int(told.get("leader", NO_LEADER)), int(told.get("epoch", -1))
    if leader == NO_LEADER or _no_controller(picture, look) is not None:
        return None
    described = None if look.cluster is None else look.cluster.quorum
    if described is not None and (described.leader, described.epoch) == (leader, epoch):
        return described
    voters = (int(each["id"]) for each in told.get("voters") or ())
    members = tuple(QuorumMember(each, ZERO_UUID, 0, -1) for each in voters)
    return QuorumDescription(leader, epoch, 0, members, (), {})


def _no_controller(picture: ClusterPicture, look: ClusterLook) -> str | None:
    """Why nobody can decide anything; a node that knew a leader goes on naming it for a while."""
    nodes = picture.nodes.values()
    if not any(node.is_awake for node in nodes):
        asked = all(node.is_connected or node.why_not is not None for node in nodes)
        return "no node answers" if asked else None
    told = picture.quorum
    if not told or told.get("role") == "leader":
        return None
    voters = {int(each["id"]) for each in told.get("voters") or ()}
    there = {node.node_id for node in nodes if node.is_awake} & voters
    needed = len(voters) // 2 + 1
    if voters and voters <= {node.node_id for node in nodes} and len(there) < needed:
        return f"{len(there)} of {len(voters)} controllers answer, and {needed} are needed"
    if int(told.get("leader", NO_LEADER)) == NO_LEADER:
        return "no controller leads at this moment"
    return None if look.cluster is None else look.cluster.no_controller
