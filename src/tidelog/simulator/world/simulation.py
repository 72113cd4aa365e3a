"""What everything in a simulated world shares: its plan, virtual time, the network, the trace."""

from __future__ import annotations

from typing import Protocol

from tidelog.simulator.run.plan import Plan
from tidelog.simulator.world.network import Network
from tidelog.simulator.world.timeline import Timeline
from tidelog.simulator.world.trace import Trace


class Simulation(Protocol):
    """A world, as far as all of its inhabitants know it."""

    @property
    def plan(self) -> Plan: ...

    @property
    def seed(self) -> int: ...

    @property
    def timeline(self) -> Timeline: ...

    @property
    def trace(self) -> Trace: ...

    @property
    def network(self) -> Network: ...
