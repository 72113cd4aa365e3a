"""What the controller may say of brokers, C16, C17 and, of those it fences, C14."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.controller.image import ClusterImage
from tidelog.controller.registrations import BrokerRegistration
from tidelog.node.effects import OpenLink
from tidelog.node.inputs import ConnectionClosed, ConnectionOpened, LinkClosed
from tidelog.simulator.happenings import Started, Stepped
from tidelog.simulator.machine import Machine
from tidelog.simulator.violation import Violation
from tidelog.simulator.world import World

CLOCKS_AGREE: Final = 0.99
"""Drifting clocks differ by less than that."""
REMEMBERED_MS: Final = 10_000
"""So long before its election a controller may have seen that a connection closed."""


class BrokerRules:
    """Looks at the registrations in the newest committed image."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: Mapping[int, BrokerRegistration] = {}
        self._activated: dict[int, tuple[int, int]] = {}
        """The quorum epoch each controller was last seen to lead, and since when."""
        self._peers: dict[tuple[int, int], str] = {}
        """Who is at the other end of the connections of each controller; links are negative."""
        self._closed_ms: dict[tuple[int, str], int] = {}
        """When a controller last saw a connection with an address end."""

    def hear(self, machine: Machine, happening: Started | Stepped) -> None:
        """A controller took a step: note whose connections come and go."""
        for effect in happening.effects:
            if type(effect) is OpenLink:
                self._peers[machine.node_id, -effect.link] = effect.host
        if not isinstance(happening, Stepped):
            return
        match happening.happened:
            case ConnectionOpened(connection=number, peer_host=host):
                self._peers[machine.node_id, number] = host
            case ConnectionClosed(connection=number):
                self._hung_up(machine, number)
            case LinkClosed(link=number):
                self._hung_up(machine, -number)
            case _:
                pass

    def _hung_up(self, machine: Machine, number: int) -> None:
        host = self._peers.pop((machine.node_id, number), None)
        if host is not None:
            self._closed_ms[machine.node_id, host] = self._world.now_ms

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

    def judge(self, controller: Machine, image: ClusterImage, active_since_ms: int | None) -> None:
        """Compare the registrations with those before."""
        before, self._known = self._known, dict(image.brokers)
        for broker_id, now in image.brokers.items():
            known = before.get(broker_id)
            if known is None or known == now:
                continue
            if known.incarnation_id == now.incarnation_id:
                self._judge_same_process(controller, image, known, now, active_since_ms)
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
    ) -> None:
        if known.broker_epoch != now.broker_epoch:
            why = f"from epoch {known.broker_epoch} to {now.broker_epoch} in one life"
            raise Violation("C16", f"broker {now.broker_id} went {why}")
        if now.fenced and not known.fenced:
            _judge_fenced(image, now.broker_id)
            if not known.in_controlled_shutdown and active_since_ms is not None:
                self._judge_patience(controller, now.broker_id, active_since_ms)
        elif known.fenced and not now.fenced:
            self._judge_unfenced(now)

    def _judge_new_incarnation(
        self, image: ClusterImage, known: BrokerRegistration, now: BrokerRegistration
    ) -> None:
        """C16: a new process is in no ISR before it has caught up, but for a last member; one
        that lost something may not lead either when nobody else is left."""
        machine = self._world.machines[now.broker_id]
        lost = machine.lossy and known.broker_epoch <= machine.lost_in_epoch
        for topic, index, partition in image.partitions_of(now.broker_id):
            is_elected = lost and not machine.damaged and now.broker_id in partition.elr
            if is_elected or (now.broker_id in partition.isr and len(partition.isr) > 1):
                why = f"began anew and still may lead {topic.name}-{index}"
                raise Violation("C16", f"{now.broker_id} {why}")

    def _judge_unfenced(self, now: BrokerRegistration) -> None:
        """C16: a broker is unfenced only once it knows of its own registration."""
        node = self._world.machines[now.broker_id].node
        if node is None or node.broker.broker_epoch != now.broker_epoch:
            return  # that was another process
        own = node.broker.image.brokers.get(now.broker_id)
        if own is None or own.broker_epoch < now.broker_epoch:
            why = f"is unfenced in epoch {now.broker_epoch} and knows only of {own}"
            raise Violation("C16", f"broker {now.broker_id} {why}")

    def _judge_patience(self, controller: Machine, broker_id: int, active_since_ms: int) -> None:
        """C17: a controller that is new gives everybody a whole session first.

        A closed connection is evidence of death, where that is configured to count.
        """
        machine, node = self._world.machines[broker_id], controller.node
        if node is None or machine.leaving:
            return
        config, runs_ms = node.broker.config, self._world.now_ms - active_since_ms
        if runs_ms >= config.broker_session_timeout_ms * CLOCKS_AGREE:
            return
        closed_ms = self._closed_ms.get((controller.node_id, machine.address))
        if (
            config.broker_disconnect_grace_ms == 0
            or closed_ms is None
            or closed_ms < active_since_ms - REMEMBERED_MS
        ):
            why = f"fenced {broker_id} after {runs_ms} ms"
            raise Violation("C17", f"controller {controller.name} {why}")


def _judge_fenced(image: ClusterImage, broker_id: int) -> None:
    """C14: it leads nothing and is in sync nowhere, but for a last member that leads nothing."""
    for topic, index, partition in image.partitions_of(broker_id):
        if partition.leader == broker_id or (broker_id in partition.isr and len(partition.isr) > 1):
            why = f"is fenced and still in sync in {topic.name}-{index}"
            raise Violation("C14", f"{broker_id} {why}")
