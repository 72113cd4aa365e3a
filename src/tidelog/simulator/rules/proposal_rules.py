"""Who may be proposed for the in-sync replicas and who dropped from them, D9, D10 and C12.

A proposal is judged once, when it comes about, by what the logs really held and the network had
carried to its leader; and what the controller makes of it by the epochs it was meant for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from tidelog.controller.partition_image import PartitionImage
from tidelog.node.core.inputs import TimePassed
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.messages import ProposeInSyncReplicas
from tidelog.replication.partition import Partition
from tidelog.simulator.rules.caught_up import NEVER_MS, CaughtUp, Follower, Led
from tidelog.simulator.rules.ghost import Ghost, PartitionGhost
from tidelog.simulator.rules.held_log import HeldLog
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import Started, Stepped
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.world import World

TICK_MS: Final = 1_000
"""How long after its time a chore of a node may be done."""


class ProposalRules:
    """Looks at the leaders of the node that took a step."""

    def __init__(self, world: World, ghost: Ghost) -> None:
        self._world = world
        self._ghost = ghost
        self._judged: dict[tuple[int, UUID, int], ProposeInSyncReplicas] = {}
        self._caught_up = CaughtUp(ghost)
        self._lag_max_ms = next(iter(world.machines.values())).config.replica_lag_time_max_ms
        self._free_since_ms: dict[tuple[int, UUID, int], int] = {}
        """When a leader was last seen with a proposal under way."""
        self._made: set[tuple[UUID, int, int, int, frozenset[int]]] = set()
        """Every proposal there ever was: for which partition and epochs, and of whom."""

    def look_at(self, machine: Machine, happening: Started | Stepped) -> None:
        """After a step of this machine's node."""
        node = machine.node
        if isinstance(happening, Started):
            self._caught_up.forget(machine.node_id)
        else:
            self._caught_up.look_at(machine, happening)
        for partition in () if node is None else node.replicas:
            leader = partition.leading
            if leader is None:
                continue
            self._judge_counting(machine, partition, leader)
            if isinstance(happening, Stepped):
                self._judge_lag(machine, partition, leader, happening)
            if leader.in_sync.pending is None:
                continue
            key = (machine.node_id, partition.log.topic_id, partition.name.partition)
            if self._judged.get(key) is not leader.in_sync.pending and node is not None:
                self._judged[key] = made = leader.in_sync.pending
                epochs = (made.leader_epoch, made.partition_epoch)
                self._made.add((*key[1:], *epochs, frozenset(made.ids)))
                self._judge(machine, node.cluster, partition, leader, leader.in_sync.pending)

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
        cluster: ClusterView,
        partition: Partition,
        leader: LeaderReplica,
        proposal: ProposeInSyncReplicas,
    ) -> None:
        members = leader.in_sync.committed
        for joining in sorted(set(proposal.ids) - members):
            self._judge_joining(machine, cluster, partition, joining)
        for leaving in sorted(members - set(proposal.ids)):
            self._judge_leaving(machine, partition, leaving)

    def _judge_joining(
        self,
        machine: Machine,
        cluster: ClusterView,
        partition: Partition,
        joining: int,
    ) -> None:
        """D9: live, of the incarnation that fetched, and in possession of everything."""
        what = f"{machine.name} wants {joining} in sync in {partition.name}"
        registered = cluster.image.brokers.get(joining)
        if registered is None or registered.fenced or registered.in_controlled_shutdown:
            raise Violation("D9", f"{what}, which is not live")
        ghost = self._ghost.partition(partition.log.topic_id, partition.name)
        led = self._caught_up.led(machine.node_id, partition)
        own = ghost.held.get(machine.node_id)
        if led is None or own is None or own.unreadable or machine.damaged:
            return
        if ghost.control is None or ghost.control.leader_epoch != led.epoch:
            return  # that one may have been cut by a later leader; the controller will refuse
        follower = led.followers.get(joining)
        fetched_in = None if follower is None else follower.broker_epoch
        if fetched_in != registered.broker_epoch:
            why = f"which fetched in broker epoch {fetched_in}, not {registered.broker_epoch}"
            raise Violation("D9", f"{what}, {why}")
        needed = max(ghost.true_high_watermark, own.start_of(led.epoch))
        held = ghost.held.get(joining)
        end = -1 if held is None else held.end_offset
        other = self._world.machines[joining]
        if end < needed and not (other.lossy or other.damaged or (held and held.unreadable)):
            raise Violation("D9", f"{what}, which holds only what is below {end} of {needed}")

    def _judge_leaving(self, machine: Machine, partition: Partition, leaving: int) -> None:
        """D10: neither at the end now nor, for the whole lag that is allowed, at any moment."""
        led = self._caught_up.led(machine.node_id, partition)
        follower = None if led is None else led.followers.get(leaving)
        if led is None or follower is None or machine.damaged:
            return
        now_ms = machine.clock.at(self._world.timeline.now_us).monotonic_ms
        if self._is_in_time(led, follower, now_ms):
            what = f"{machine.name} wants {leaving} out of sync in {partition.name}"
            raise Violation("D10", f"{what}: {_standing(led, follower, now_ms)}")

    def _judge_lag(
        self, machine: Machine, partition: Partition, leader: LeaderReplica, step: Stepped
    ) -> None:
        """D10: nobody counts as late who is not, at any moment; and who is late is let go."""
        led = self._caught_up.led(machine.node_id, partition)
        if led is None or machine.damaged or partition.log.health.offline_reason is not None:
            return
        now_ms = step.happened.now.monotonic_ms
        for broker_id, follower in led.followers.items():
            known = leader.followers.get(broker_id)
            if follower.offset == led.end or known is None:
                continue
            is_late = not known.is_caught_up(led.end, now_ms, self._lag_max_ms)
            if is_late and self._is_in_time(led, follower, now_ms):
                what = f"{machine.name} takes {broker_id} for late in {partition.name}"
                raise Violation("D10", f"{what}: {_standing(led, follower, now_ms)}")
        where = (machine.node_id, partition.log.topic_id, partition.name.partition)
        if leader.in_sync.pending is not None:
            self._free_since_ms[where] = now_ms
        elif isinstance(step.happened, TimePassed):
            free_ms = now_ms - self._free_since_ms.get(where, NEVER_MS)
            self._judge_patience(machine, partition, led, now_ms, free_ms)

    def _judge_patience(
        self, machine: Machine, partition: Partition, led: Led, now_ms: int, free_ms: int
    ) -> None:
        """Every half of the lag that is allowed a leader looks who has lacked something for it."""
        ghost = self._ghost.partition(partition.log.topic_id, partition.name)
        control, lag_max_ms = ghost.control, self._lag_max_ms
        if control is None or (control.leader, control.leader_epoch) != (
            machine.node_id,
            led.epoch,
        ):
            return
        for member in control.isr:
            held = ghost.held.get(member)
            if held is None or member == machine.node_id:
                continue
            since_ms = led.lacks_since_ms(self._told_end(led, member, held))
            if since_ms is None:
                continue
            late_ms = min(now_ms - since_ms - lag_max_ms, free_ms)
            if late_ms > lag_max_ms // 2 + TICK_MS:
                what = f"{machine.name} keeps {member} in sync in {partition.name}"
                why = f"has lacked records for {now_ms - since_ms} ms, {lag_max_ms} are allowed"
                raise Violation("D10", f"{what}, which {why}")

    def _told_end(self, led: Led, member: int, held: HeldLog) -> int:
        """Where a follower's log ends. That a disk lost something the leader hears with the next
        fetch, not sooner; until then the last one counts."""
        machine, follower = self._world.machines[member], led.followers.get(member)
        is_whole = not (machine.lossy or machine.damaged or held.unreadable)
        return held.end_offset if is_whole or follower is None else follower.offset

    def _is_in_time(self, led: Led, follower: Follower, now_ms: int) -> bool:
        return follower.offset == led.end or now_ms - follower.caught_up_ms <= self._lag_max_ms


def _standing(led: Led, follower: Follower, now_ms: int) -> str:
    lag_ms = now_ms - follower.caught_up_ms
    return f"it is at {follower.offset} of {led.end} and was caught up {lag_ms} ms ago"
