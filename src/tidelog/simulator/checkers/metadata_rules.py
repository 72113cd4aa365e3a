"""The rules of the control plane that committed metadata must keep, C13 to C16."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from tidelog.controller.image import ClusterImage
from tidelog.controller.partition_image import PartitionImage
from tidelog.controller.records import RECOVERED
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.simulator.checkers.ghost import Ghost, PartitionGhost
from tidelog.simulator.machine import Machine
from tidelog.simulator.violation import Violation
from tidelog.simulator.world import World


class MetadataRules:
    """Looks at the controller's image when it has moved on."""

    def __init__(
        self, world: World, ghost: Ghost, changed: Callable[[PartitionGhost], None]
    ) -> None:
        self._world = world
        self._ghost = ghost
        self._changed = changed
        self._epochs: dict[int, tuple[int, UUID]] = {}

    def look_at(self, machine: Machine) -> None:
        """After a step of this machine's node."""
        node = machine.node
        if node is None or not node.broker.config.is_controller:
            return
        image = node.broker.image
        if image.end_offset <= self._ghost.image_end or image.in_transaction:
            return
        self._ghost.image, self._ghost.image_end = image, image.end_offset
        self._judge_brokers(image)
        for topic in image.topics_by_name.values():
            for index, partition in topic.partitions.items():
                ghost = self._ghost.partition(topic.topic_id, TopicPartition(topic.name, index))
                before = ghost.control
                if partition is before or partition == before:
                    continue
                ghost.control = partition
                if before is not None:
                    self._judge_change(ghost, before, partition)
                self._judge_state(ghost, image, partition)
                self._changed(ghost)

    def _judge_brokers(self, image: ClusterImage) -> None:
        for broker_id, registration in image.brokers.items():
            now = (registration.broker_epoch, registration.incarnation_id)
            known = self._epochs.get(broker_id)
            self._epochs[broker_id] = now
            if known is None or known == now:
                continue
            if now[0] <= known[0]:
                why = f"broker {broker_id} went from epoch {known[0]} to {now[0]}"
                raise Violation("C16", why)
            if known[0] <= self._world.machines[broker_id].lost_in_epoch:
                self._judge_new_incarnation(broker_id, image)

    def _judge_new_incarnation(self, broker_id: int, image: ClusterImage) -> None:
        """A process that died without a clean stop is in no ISR before it has caught up again."""
        machine = self._world.machines[broker_id]
        if not machine.lossy or image.brokers[broker_id].fenced is False:
            return
        for topic, index, partition in image.partitions_of(broker_id):
            if broker_id in partition.elr or (
                broker_id in partition.isr and len(partition.isr) > 1
            ):
                why = f"{broker_id} lost data and still may lead {topic.name}-{index}"
                raise Violation("C16", why)

    def _judge_change(
        self, ghost: PartitionGhost, before: PartitionImage, after: PartitionImage
    ) -> None:
        what = f"{ghost.name} went from {_words(before)} to {_words(after)}"
        if (
            after.leader_epoch < before.leader_epoch
            or after.partition_epoch <= before.partition_epoch
        ):
            raise Violation("C13", what)
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            raise Violation("C13", what)
        if after.leader in (NO_LEADER, before.leader):
            return
        if after.recovery_state != RECOVERED:
            ghost.elect_unclean(after.leader)
        elif after.partition_epoch == before.partition_epoch + 1:
            _judge_election(before, after, what)

    def _judge_state(
        self, ghost: PartitionGhost, image: ClusterImage, partition: PartitionImage
    ) -> None:
        what = f"{ghost.name} is {_words(partition)}"
        isr = set(partition.isr)
        if not isr <= set(partition.replicas) or len(isr) != len(partition.isr):
            raise Violation("C14", f"{what} of replicas {partition.replicas}")
        if partition.leader != NO_LEADER and partition.leader not in isr:
            raise Violation("C14", what)
        if isr & set(partition.elr):
            raise Violation("C14", what)
        for member in isr:
            registration = image.brokers.get(member)
            if registration is None or registration.fenced:
                if len(isr) == 1 and partition.leader == NO_LEADER:
                    continue  # the last one stays, and nobody leads
                raise Violation("C14", f"{what}, and {member} is fenced")
        if partition.recovery_state != RECOVERED and len(isr) > 1:
            raise Violation("C15", f"{what} while it recovers")


def _judge_election(before: PartitionImage, after: PartitionImage, what: str) -> None:
    """Whoever leads now was in sync, or eligible when nobody else was left."""
    if after.leader in before.isr:
        return
    if after.leader not in before.elr or after.isr != (after.leader,):
        raise Violation("C15", what)


def _words(partition: PartitionImage) -> str:
    recovering = "" if partition.recovery_state == RECOVERED else "recovering, "
    return (
        f"{recovering}leader {partition.leader} in epoch {partition.leader_epoch}/"
        f"{partition.partition_epoch}, "
        f"in sync {list(partition.isr)}, eligible {list(partition.elr)}"
    )
