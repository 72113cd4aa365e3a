"""Who may be proposed for the in-sync replicas and who dropped from them, D9, D10 and C12.

A proposal is judged once, when it comes about, by what its leader knew then and by what the logs
really held; and what the controller makes of it by the epochs it was meant for.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from tidelog.controller.partition_image import PartitionImage
from tidelog.node.broker_state import BrokerState
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.messages import ProposeInSyncReplicas
from tidelog.replication.partition import Partition
from tidelog.simulator.checkers.ghost import Ghost, PartitionGhost
from tidelog.simulator.machine import Machine
from tidelog.simulator.violation import Violation
from tidelog.simulator.world import World


class ProposalRules:
    """Looks at the leaders of the node that took a step."""

    def __init__(self, world: World, ghost: Ghost) -> None:
        self._world = world
        self._ghost = ghost
        self._judged: dict[tuple[int, UUID, int], ProposeInSyncReplicas] = {}
        self._made: set[tuple[UUID, int, int, int, frozenset[int]]] = set()
        """Every proposal there ever was: for which partition and epochs, and of whom."""

    def look_at(self, machine: Machine) -> None:
        """After a step of this machine's node."""
        node = machine.node
        for partition in () if node is None else node.broker.replicas:
            leader = partition.leader
            if leader is not None:
                self._judge_counting(machine, partition, leader)
            if leader is None or leader.in_sync.pending is None:
                continue
            key = (machine.node_id, partition.log.topic_id, partition.name.partition)
            if self._judged.get(key) is not leader.in_sync.pending and node is not None:
                self._judged[key] = made = leader.in_sync.pending
                epochs = (made.leader_epoch, made.partition_epoch)
                self._made.add((*key[1:], *epochs, frozenset(made.ids)))
                self._judge(machine, node.broker, partition, leader, leader.in_sync.pending)

    def judge_commit(
        self,
        ghost: PartitionGhost,
        before: PartitionImage,
        after: PartitionImage,
        moved: Callable[[], set[int] | None],
    ) -> None:
        """C12: unless the controller has something to say of them, or sends them away, members
        come and go by a proposal that was made for the very state it changes."""
        changed = set(before.isr) ^ set(after.isr)
        epochs = (before.leader_epoch, before.partition_epoch)
        if (
            not changed
            or before.replicas != after.replicas
            or (after.leader_epoch, after.partition_epoch - 1) != epochs
        ):
            return
        taken = (ghost.topic_id, ghost.name.partition, *epochs, frozenset(after.isr))
        if taken in self._made:
            return
        said_of = moved()
        if said_of is not None and not changed & said_of:
            why = f"has {list(after.isr)} in sync after {list(before.isr)} in {epochs}"
            raise Violation("C12", f"{ghost.name} {why}, which nobody proposed then")

    def _judge_counting(
        self, machine: Machine, partition: Partition, leader: LeaderReplica
    ) -> None:
        """C12: whoever the controller may have in sync counts, whatever became of a proposal."""
        ghost = self._ghost.partition(partition.log.topic_id, partition.name)
        control = ghost.control
        if control is None or control.leader_epoch != leader.epoch:
            return
        if not leader.in_sync.maximal.issuperset(control.isr):
            counted = sorted(leader.in_sync.maximal)
            why = f"counts on {counted}, and the controller has {list(control.isr)} in sync"
            raise Violation("C12", f"leader {machine.name} of {partition.name} {why}")

    def _judge(
        self,
        machine: Machine,
        broker: BrokerState,
        partition: Partition,
        leader: LeaderReplica,
        proposal: ProposeInSyncReplicas,
    ) -> None:
        members = leader.in_sync.committed
        for joining in sorted(set(proposal.ids) - members):
            self._judge_joining(machine, broker, partition, leader, joining)
        for leaving in sorted(members - set(proposal.ids)):
            self._judge_leaving(machine, partition, leader, leaving)

    def _judge_joining(
        self,
        machine: Machine,
        broker: BrokerState,
        partition: Partition,
        leader: LeaderReplica,
        joining: int,
    ) -> None:
        """D9: live, of the incarnation that fetched, and in possession of everything."""
        what = f"{machine.name} wants {joining} in sync in {partition.name}"
        registered = broker.image.brokers.get(joining)
        if registered is None or registered.fenced or registered.in_controlled_shutdown:
            raise Violation("D9", f"{what}, which is not live")
        fetched_in = leader.followers[joining].broker_epoch
        if fetched_in not in (-1, registered.broker_epoch):
            why = f"which fetched in broker epoch {fetched_in}, not {registered.broker_epoch}"
            raise Violation("D9", f"{what}, {why}")
        ghost = self._ghost.partition(partition.log.topic_id, partition.name)
        if ghost.control is None or ghost.control.leader_epoch != leader.epoch:
            return  # that one may have been cut by a later leader; the controller will refuse
        needed = max(partition.high_watermark.offset, leader.epoch_start_offset)
        held = ghost.held.get(joining)
        end = -1 if held is None else held.end_offset
        other = self._world.machines[joining]
        if end < needed and not (other.lossy or other.damaged or (held and held.unreadable)):
            raise Violation("D9", f"{what}, which holds only what is below {end} of {needed}")

    def _judge_leaving(
        self, machine: Machine, partition: Partition, leader: LeaderReplica, leaving: int
    ) -> None:
        """D10: neither at the end now nor, for the whole lag that is allowed, at any moment."""
        follower = leader.followers[leaving]
        now_ms = machine.clock.at(self._world.timeline.now_us).monotonic_ms
        lag_max_ms = machine.config.replica_lag_time_max_ms
        end = partition.log.end_offset
        if follower.end_offset == end or now_ms - follower.last_caught_up_ms <= lag_max_ms:
            why = f"it is at {follower.end_offset} of {end} and was caught up "
            why += f"{now_ms - follower.last_caught_up_ms} ms ago"
            what = f"{machine.name} wants {leaving} out of sync in {partition.name}"
            raise Violation("D10", f"{what}: {why}")
