"""What the controller may say of brokers, C16, C17 and, of those it fences, C14 and L20."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidelog.controller.image import ClusterImage
from tidelog.controller.registrations import BrokerRegistration
from tidelog.model.errors import DiskError
from tidelog.simulator.rules.signs_of_life import Excuse, SignsOfLife
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import Started, Stepped
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.world import World
from tidelog.storage.identity import CLEAN_SHUTDOWN


class BrokerRules:
    """Looks at the registrations in the newest committed image."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: Mapping[int, BrokerRegistration] = {}
        self._activated: dict[int, tuple[int, int]] = {}
        """The quorum epoch each controller was last seen to lead, and since when."""
        self._signs = SignsOfLife()
        self._clean: set[tuple[int, int]] = set()
        """Brokers whose disk said, when they ended, that they had stopped cleanly in that epoch."""

    def hear(self, machine: Machine, happening: Started | Stepped) -> None:
        """A controller took a step: note what it was told."""
        self._signs.hear(machine, happening, self._world.now_ms)

    def died(self, machine: Machine) -> None:
        """A process is over: note what its disk tells the next one."""
        epoch = _clean_shutdown_epoch(machine)
        if epoch is not None:
            self._clean.add((machine.node_id, epoch))

    def active_since(self, machine: Machine) -> int | None:
        """Since when the controller of a machine decides; None if what it has just read was
        decided before that, by another one or in another life of its own."""
        node = machine.node
        if node is None or not node.quorum.is_active:
            return None
        epoch = node.quorum.epoch
        known_epoch, since_ms = self._activated.get(machine.node_id, (-1, 0))
        if epoch == known_epoch:
            return since_ms
        self._activated[machine.node_id] = (epoch, self._world.now_ms)
        return None

    def judge(
        self,
        controller: Machine,
        image: ClusterImage,
        active_since_ms: int | None,
        end_before: int,
    ) -> None:
        """Compare the registrations with those before, when the metadata ended there."""
        ends = (end_before, image.end_offset)
        before, self._known = self._known, dict(image.brokers)
        for broker_id, now in image.brokers.items():
            known = before.get(broker_id)
            if known is None or known == now:
                continue
            if known.incarnation_id == now.incarnation_id:
                self._judge_same_process(controller, image, known, now, active_since_ms, ends)
            elif now.broker_epoch <= known.broker_epoch:
                why = f"went from epoch {known.broker_epoch} to {now.broker_epoch}"
                raise Violation("C16", f"broker {broker_id} {why}")
            elif now.fenced:
                self._judge_new_incarnation(image, known, now)

    def _judge_same_process(
        self,
        controller: Machine,
        image: ClusterImage,
        known: BrokerRegistration,
        now: BrokerRegistration,
        active_since_ms: int | None,
        ends: tuple[int, int],
    ) -> None:
        if known.broker_epoch != now.broker_epoch:
            why = f"from epoch {known.broker_epoch} to {now.broker_epoch} in one life"
            raise Violation("C16", f"broker {now.broker_id} went {why}")
        if now.fenced and not known.fenced:
            _judge_fenced(image, now.broker_id)
            if not known.in_controlled_shutdown and active_since_ms is not None:
                self._judge_patience(controller, now, active_since_ms, ends)
        elif known.fenced and not now.fenced:
            self._judge_unfenced(now)

    def _judge_new_incarnation(
        self, image: ClusterImage, known: BrokerRegistration, now: BrokerRegistration
    ) -> None:
        """C16: a new process is in no ISR before it has caught up, but for a last member; one
        that lost something, or did not stop cleanly before, may not lead either when nobody else
        is left."""
        machine = self._world.machines[now.broker_id]
        lost = machine.lossy and known.broker_epoch <= machine.lost_in_epoch
        is_unclean = (now.broker_id, known.broker_epoch) not in self._clean
        must_go = is_unclean or (lost and not machine.damaged)
        for topic, index, partition in image.partitions_of(now.broker_id):
            is_eligible = must_go and now.broker_id in partition.elr
            if is_eligible or (now.broker_id in partition.isr and len(partition.isr) > 1):
                why = f"began anew and still may lead {topic.name}-{index}"
                raise Violation("C16", f"{now.broker_id} {why}")

    def _judge_unfenced(self, now: BrokerRegistration) -> None:
        """C16: a broker is unfenced only once it knows of its own registration."""
        node = self._world.machines[now.broker_id].node
        if node is None or node.cluster.broker_epoch != now.broker_epoch:
            return  # that was another process
        own = node.cluster.image.brokers.get(now.broker_id)
        if own is None or own.broker_epoch < now.broker_epoch:
            why = f"is unfenced in epoch {now.broker_epoch} and knows only of {own}"
            raise Violation("C16", f"broker {now.broker_id} {why}")

    def _judge_patience(
        self,
        controller: Machine,
        fenced: BrokerRegistration,
        active_since_ms: int,
        ends: tuple[int, int],
    ) -> None:
        """C17: nobody is fenced who was not silent for a whole session of this controller.

        The end of its heartbeat connections is evidence of death, where that is configured to
        count; so is a quorum leader's, who may be a broker as well.
        """
        machine, now_ms = self._world.machines[fenced.broker_id], self._world.now_ms
        if machine.leaving or fenced.broker_epoch == machine.left_in_epoch:
            return
        excuse = self._signs.excuse(controller, machine.address, active_since_ms, ends, now_ms)
        if excuse is None:
            why = f"fenced {machine.name}, who gave no cause in the {now_ms - active_since_ms} ms"
            raise Violation("C17", f"controller {controller.name} {why} since it is active")
        if excuse is Excuse.HUNG_UP:
            self._judge_evidence(controller, machine, fenced)

    def _judge_evidence(
        self, controller: Machine, machine: Machine, fenced: BrokerRegistration
    ) -> None:
        """L20: while a process lives and neither network nor disk breaks its connections, no end of
        one is evidence that it is gone: what it gives up tells nothing."""
        node, session_ms = machine.node, machine.config.broker_session_timeout_ms
        if node is None or node.cluster.broker_epoch != fenced.broker_epoch:
            return
        since_ms = self._world.now_ms - session_ms
        if not self._world.network.were_broken_since(controller.address, machine.address, since_ms):
            why = f"fenced {machine.name} for a connection that had ended, and it lives"
            raise Violation("L20", f"controller {controller.name} {why}")


def _judge_fenced(image: ClusterImage, broker_id: int) -> None:
    """C14: it leads nothing and is in sync nowhere, but for a last member that leads nothing."""
    for topic, index, partition in image.partitions_of(broker_id):
        if partition.leader == broker_id or (broker_id in partition.isr and len(partition.isr) > 1):
            why = f"is fenced and still in sync in {topic.name}-{index}"
            raise Violation("C14", f"{broker_id} {why}")


def _clean_shutdown_epoch(machine: Machine) -> int | None:
    """In which epoch the last process stopped cleanly, if all directories say so of the same."""
    epochs: set[int] = set()
    for directory in machine.config.log_directories:
        try:
            content = bytes(machine.disk.files.file_at(f"{directory}/{CLEAN_SHUTDOWN}").data)
        except DiskError:
            return None
        epochs.add(int(json.loads(content)["brokerEpoch"]))
    return epochs.pop() if len(epochs) == 1 else None
