"""Everything that makes one run what it is: the seed, the cluster, the everyday, the faults.

Invariant  A plan is a value: two worlds with equal plans go the same way, event by event.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidelog.simulator.faults.faults import TimedFault
from tidelog.simulator.world.cluster import broker_ids, controller_ids
from tidelog.simulator.world.conditions import EVERYDAY, Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a world is built from."""

    seed: int
    brokers: int = 3
    controllers: int = 1
    """So many nodes vote: the first of the brokers, unless they are nodes of their own."""
    separate: bool = False
    """Whether controllers are nodes of their own."""
    directories: int = 1
    """How many log directories each broker has; the metadata log is in the first."""
    settings: tuple[tuple[str, str], ...] = ()
    """Properties of every node, on top of the simulator's own."""
    conditions: Conditions = EVERYDAY
    faults: tuple[TimedFault, ...] = ()
    faults_ms: int = 60_000
    """How long faults may strike; then everything is mended."""
    calm_ms: int = 120_000
    """How long the cluster may take to be well again."""
    dead: tuple[int, ...] = ()
    """Nodes that die for good once all is well again: the others must do without them."""
    loss_budget: int = 1
    """How many machines may have lost data at a time: fewer than min.insync.replicas."""
    events_most: int = 5_000_000

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return broker_ids(self.brokers)

    @property
    def controller_ids(self) -> tuple[int, ...]:
        return controller_ids(self.controllers, separate=self.separate)

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Everybody, brokers first."""
        return self.broker_ids + (self.controller_ids if self.separate else ())

    def without(self, left_out: frozenset[int]) -> Plan:
        """The same run without the faults at these positions."""
        kept = (fault for index, fault in enumerate(self.faults) if index not in left_out)
        return replace(self, faults=tuple(kept))
