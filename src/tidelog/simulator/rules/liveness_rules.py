"""What must become true once faults have stopped, L1 to L11, and the end of every history."""

from __future__ import annotations

from typing import Final

from tidelog.model.ids import NO_LEADER
from tidelog.simulator.clients.consumer import ANY_EPOCH
from tidelog.simulator.clients.workload import Workload
from tidelog.simulator.rules.ghost import Ghost, PartitionGhost
from tidelog.simulator.rules.promise_rules import PromiseRules
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.world import World

ELECTED_MS: Final = 20_000
"""Within that time somebody must lead the quorum again, whatever there was before."""
BALANCE_SETTING: Final = "leader.imbalance.check.interval.seconds"
BALANCE_WAIT_S: Final = 5
"""Runs whose leaders are balanced less often end before that."""


class LivenessRules:
    """Expectations of a world; each says in words what is still missing."""

    def __init__(
        self, world: World, ghost: Ghost, workload: Workload, promises: PromiseRules
    ) -> None:
        self._world = world
        self._ghost = ghost
        self._workload = workload
        self._promises = promises
        self._metadata_end: int | None = None
        self._led_ms = 0
        """When somebody was last seen to lead the quorum."""

    def expect(self) -> None:
        """Tell the world."""
        self._world.expect("L1", self._quorum)
        self._world.expect("L3", self._leaders)
        self._world.expect("L4", self._metadata)
        self._world.expect("L5", self._answers)
        self._world.expect("L6", self._proposals)
        self._world.expect("L7", self._stillness)
        self._world.expect("L10", self._moves)
        if self._balances_soon():
            self._world.expect("L11", self._balance)
        self._world.expect("H8", self._everything_read)
        self._world.expect("H", self._histories)

    def _partitions(self) -> list[PartitionGhost]:
        image = self._ghost.image
        if image is None:
            return []
        return [
            ghost
            for (topic_id, _), ghost in self._ghost.partitions.items()
            if topic_id in image.topics_by_id
        ]

    def _is_damaged(self, node_id: int) -> bool:
        """Whether that node leads with files that were damaged under it."""
        machine = self._world.machines.get(node_id)
        return machine is not None and machine.damaged

    def _quorum(self) -> str | None:
        """Soon, and not only in the end: elections take a second or two."""
        leading = [
            node.quorum
            for machine in self._world.running
            if (node := machine.node) is not None and node.quorum.is_active
        ]
        calm_ms, now_ms = self._world.calm_since_ms, self._world.now_ms
        if leading or calm_ms is None:
            self._led_ms = now_ms
        if not leading:
            if calm_ms is not None and now_ms - max(calm_ms, self._led_ms) > ELECTED_MS:
                raise Violation("L1", f"nobody has led the quorum for {ELECTED_MS} ms of calm")
            return "nobody leads the quorum"
        epoch = max(quorum.epoch for quorum in leading)
        for machine in self._world.running:
            node = machine.node
            if node is not None and node.quorum.epoch != epoch:
                return f"{machine.name} is in quorum epoch {node.quorum.epoch} of {epoch}"
        return None

    def _leaders(self) -> str | None:
        if not self._workload.administrator.has_created_all:
            return "the topics are not there"
        for ghost in self._partitions():
            if ghost.control is None or ghost.control.leader == NO_LEADER:
                return f"nobody leads {ghost.name}"
        return None

    def _metadata(self) -> str | None:
        """Records come all the time: what was there at the last look must have arrived."""
        image, wanted = self._ghost.image, self._metadata_end
        if image is None:
            return "there is no controller"
        self._metadata_end = image.end_offset
        if wanted is None:
            return "nobody has looked yet"
        for machine in self._world.running:
            node = machine.node
            if node is not None and node.cluster.image.end_offset < wanted:
                known = node.cluster.image.end_offset
                return f"{machine.name} knows the metadata below {known} of {wanted}"
        return None

    def _answers(self) -> str | None:
        for producer in self._workload.producers:
            if not producer.is_idle:
                return producer.unanswered
        return None

    def _proposals(self) -> str | None:
        for machine in self._world.running:
            node = machine.node
            for partition in () if node is None else node.replicas:
                leader = partition.leading
                if leader is not None and leader.in_sync.pending is not None:
                    return f"{machine.name} waits for the controller about {partition.name}"
        return None

    def _stillness(self) -> str | None:
        """L7 and L8: every living replica is in sync, complete and committed."""
        dead = set(self._world.plan.dead)
        for ghost in self._partitions():
            control = ghost.control
            if control is None:
                continue
            living = [node_id for node_id in control.replicas if node_id not in dead]
            if any(self._is_damaged(node_id) for node_id in living):
                continue
            if sorted(control.isr) != sorted(living):
                return f"in sync in {ghost.name} are {control.isr} of {living}"
            for node_id in living:
                node = self._world.machines[node_id].node
                hosted = None if node is None else node.replicas.get(ghost.name)
                if hosted is None:
                    return f"{node_id} does not host {ghost.name}"
                high_watermark, end = hosted.high_watermark.offset, hosted.log.end_offset
                if not high_watermark == end == ghost.true_high_watermark:
                    return (
                        f"{node_id} has {ghost.name} up to {end} and the high watermark at "
                        f"{high_watermark}, committed is {ghost.true_high_watermark}"
                    )
        return None

    def _moves(self) -> str | None:
        """Reassignments and shutdowns have come to their end."""
        image = self._ghost.image
        for ghost in self._partitions():
            if ghost.control is not None and (ghost.control.adding or ghost.control.removing):
                return f"{ghost.name} is on its way to {ghost.control.replicas}"
        for broker_id, registration in {} if image is None else image.brokers.items():
            if registration.in_controlled_shutdown and broker_id not in self._world.plan.dead:
                return f"{broker_id} is shutting down"
        return None

    def _balances_soon(self) -> bool:
        interval_s = dict(self._world.plan.settings).get(BALANCE_SETTING)
        return interval_s is not None and int(interval_s) <= BALANCE_WAIT_S

    def _balance(self) -> str | None:
        """So few partitions prefer each broker that one led elsewhere is over the threshold."""
        for ghost in self._partitions():
            control = ghost.control
            if control is None or control.replicas[0] in self._world.plan.dead:
                continue
            if control.leader != control.replicas[0]:
                return f"{ghost.name} is led by {control.leader} and prefers {control.replicas[0]}"
        return None

    def _everything_read(self) -> str | None:
        for consumer in self._workload.consumers:
            for name, position in consumer.positions.items():
                ghost = self._ghost.by_name(name)
                if ghost is None or ghost.control is None:
                    return f"{name} is not there"
                if self._is_damaged(ghost.control.leader):
                    continue
                if position != ghost.true_high_watermark or consumer.last_epochs[name] not in (
                    ANY_EPOCH,
                    ghost.last_epoch,
                ):
                    committed = ghost.true_high_watermark
                    return f"{consumer.name} has read {name} up to {position} of {committed}"
        return None

    def _histories(self) -> str | None:
        if self._answers() is None and self._everything_read() is None:
            self._promises.judge_history()
            return None
        return "histories are not complete"
