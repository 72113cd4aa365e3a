"""A whole cluster with its clients in virtual time, from one plan.

    world = World(plan)
    world.add_client(Producer("producer-1"))
    world.observers.append(checker)          # called after every step of a node, and more
    world.start()
    world.run_for(60_000)                    # milliseconds of virtual time
    world.calm()                             # no more faults: now everybody must recover
    world.run_until_well(120_000)
    world.bury((102,))                       # and now the others must do without that one
    world.run_until_well(120_000)

Invariant  Equal plans, clients and observers give equal traces, in any process.
Invariant  Observers see the inside of nodes; no node and no client ever does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final, TypeAlias

from tidelog.controller.image import ClusterImage
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.ids import uuid_text
from tidelog.node.core.effects import Effect
from tidelog.node.core.inputs import Input
from tidelog.node.node import Node
from tidelog.simulator.clients.client import Client, ClientHost
from tidelog.simulator.faults.faults import Fault
from tidelog.simulator.faults.injection import inject
from tidelog.simulator.faults.losses import Losses
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.world.dice import SeededEntropy, stream
from tidelog.simulator.world.happenings import (
    ClientActed,
    Died,
    Happening,
    PowerGoes,
    Started,
    Stepped,
    Struck,
)
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.network import Network
from tidelog.simulator.world.timeline import Timeline
from tidelog.simulator.world.trace import Trace
from tidelog.storage.filesystem import FileSystem

NodeFactory: TypeAlias = Callable[[NodeConfig, FileSystem, Entropy], Node]
Observer: TypeAlias = "Callable[[World, Happening], None]"
Expectation: TypeAlias = Callable[[], str | None]
"""What is still missing until all is well, in words; None when nothing is."""

_LOOK_EVERY_MS: Final = 250


class World:
    """Machines, clients and the network between them."""

    def __init__(
        self,
        plan: Plan,
        reader: Callable[[str], None] | None = None,
        build_node: NodeFactory = Node,
    ) -> None:
        self.plan = plan
        self.build_node: Final = build_node
        self.seed: Final = plan.seed
        self.timeline: Final = Timeline()
        self.trace: Final = Trace(self.timeline, reader)
        self.network: Final = Network(self.timeline, plan.conditions, plan.seed)
        self.cluster_id: Final = uuid_text(SeededEntropy(self.dice("cluster")).uuid())
        self.losses: Final = Losses(self)
        self.observers: list[Observer] = []
        self.expectations: list[tuple[str, Expectation]] = []
        self.clients: dict[str, Client] = {}
        self.steps = 0
        """Steps of all nodes."""
        self.calm_since_ms: int | None = None
        """When faults stopped; None while they may still strike."""
        self.machines: Final[dict[int, Machine]] = {
            node_id: Machine(self, node_id) for node_id in plan.node_ids
        }
        for machine in self.machines.values():
            self.network.add(machine)

    @property
    def now_ms(self) -> int:
        return self.timeline.now_ms

    def dice(self, *purpose: str | int) -> Random:
        """Dice for a purpose that nobody else names."""
        return stream(self.seed, *purpose)

    # Setting up.

    def add_client(self, client: Client, stream: str = "") -> None:
        """Give a client its place; it is told to start with the world, or now if that runs.

        Its dice are those of its name, unless `stream` names others.
        """
        host = ClientHost(self, client, len(self.clients) + 1, stream or client.name)
        self.clients[client.name] = client
        self.network.add(host)
        self.timeline.at(self.timeline.now_us, host.begin)

    def at(self, ms: int, action: Callable[[], None], label: str) -> None:
        """Do something at a moment; the label stands in the trace."""
        self.timeline.at(ms * 1000, self._act, action, label)

    def expect(self, label: str, expectation: Expectation) -> None:
        """Something that must become true once faults have stopped."""
        self.expectations.append((label, expectation))

    def start(self) -> None:
        """Start every machine and plan every fault."""
        for machine in self.machines.values():
            self.timeline.at(0, machine.start)
        for at_ms, fault in self.plan.faults:
            self.timeline.at(at_ms * 1000, self.inject, fault)
        self.timeline.at(_LOOK_EVERY_MS * 1000, self._look_after_losses)

    # Running.

    def run_until(self, ms: int) -> None:
        """Let virtual time pass up to a moment."""
        self.timeline.run_until(ms * 1000, self.plan.events_most)
        if self.timeline.happened >= self.plan.events_most:
            raise Violation("livelock", f"{self.plan.events_most} events and no end")

    def run_for(self, ms: int) -> None:
        self.run_until(self.now_ms + ms)

    def inject(self, fault: Fault) -> None:
        """Let a fault loose now, unless the calm has begun."""
        if self.calm_since_ms is None:
            inject(self, fault)
            self._tell(Struck(fault))

    def calm(self) -> None:
        """End all faults: mend, heal, resume and start everything."""
        self.calm_since_ms = self.now_ms
        self.plan = replace(self.plan, dead=())
        self.trace.note("* calm")
        self.network.paths.mend_all()
        for machine in self.machines.values():
            machine.calm()
        self.network.paths_changed()

    def bury(self, nodes: tuple[int, ...]) -> None:
        """Let nodes die for good that the others can do without; these become the plan's dead."""
        for node_id in filter(self.losses.may_stay_dead, nodes):
            self.machines[node_id].kill("dies for good")
            self.plan = replace(self.plan, dead=(*self.plan.dead, node_id))

    def run_until_well(self, within_ms: int) -> None:
        """Run until every expectation is met; a violation when that takes too long."""
        end_ms = self.now_ms + within_ms
        while missing := self._missing():
            if self.now_ms >= end_ms:
                label, what = missing[0]
                raise Violation(label, f"not well after {within_ms} ms of calm: {what}")
            self.run_for(_LOOK_EVERY_MS)

    # From machines and clients, for those who watch.

    def machine_started(self, machine: Machine, effects: Sequence[Effect]) -> None:
        self._tell(Started(machine, effects))

    def machine_stepped(
        self, machine: Machine, happened: Input, effects: Sequence[Effect], frame: bytes
    ) -> None:
        self.steps += 1
        self._tell(Stepped(machine, happened, effects, frame))

    def power_goes(self, machine: Machine) -> None:
        self._tell(PowerGoes(machine))

    def machine_died(self, machine: Machine, cause: str) -> None:
        self._tell(Died(machine, cause, machine.lossy))

    def client_acted(self, client: Client, sender: str, frame: bytes) -> None:
        self._tell(ClientActed(client, sender, frame))

    def _tell(self, happening: Happening) -> None:
        for observer in self.observers:
            observer(self, happening)

    # Looking inside.

    @property
    def running(self) -> list[Machine]:
        """The machines with a process, paused ones included."""
        return [machine for machine in self.machines.values() if machine.process is not None]

    def controller_image(self) -> ClusterImage | None:
        """The committed metadata of the controller that knows most of it, while one runs."""
        known = [
            node.cluster.image
            for machine in self.machines.values()
            if (node := machine.node) is not None and node.cluster.config.is_controller
        ]
        return max(known, key=lambda image: image.end_offset, default=None)

    def quorum_leader(self) -> Machine | None:
        """Who leads the latest epoch of the quorum, as far as it knows itself."""
        leading = [
            (node.quorum.epoch, machine.node_id)
            for machine in self.running
            if (node := machine.node) is not None and node.quorum.is_leader
        ]
        return self.machines[max(leading)[1]] if leading else None

    def broker_epoch(self, node_id: int) -> int:
        """The newest registration of a node that anybody knows of; -1 for none."""
        images = [node.cluster.image for each in self.running if (node := each.node) is not None]
        known = [image.brokers[node_id] for image in images if node_id in image.brokers]
        return max((registration.broker_epoch for registration in known), default=-1)

    def is_whole(self, machine: Machine) -> bool:
        """Whether a machine runs and is in sync in all its partitions, says the controller."""
        return self.losses.is_whole(machine)

    def _look_after_losses(self) -> None:
        self.losses.look()
        if self.calm_since_ms is not None:
            for machine in self.machines.values():
                machine.look_after()
        self.timeline.at(self.timeline.now_us + _LOOK_EVERY_MS * 1000, self._look_after_losses)

    def _missing(self) -> list[tuple[str, str]]:
        return [
            (label, what)
            for label, expectation in self.expectations
            if (what := expectation()) is not None
        ]

    def _act(self, action: Callable[[], None], label: str) -> None:
        self.trace.note(f"* {label}")
        action()
