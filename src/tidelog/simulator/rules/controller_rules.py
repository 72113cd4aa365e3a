"""When a controller decides and what a node knows of its decisions, C10 and C11."""

from __future__ import annotations

from tidelog.quorum.leader import Leader
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.machine import Machine


class ControllerRules:
    """Looks at the controller of a node, and at how far the node has applied the metadata."""

    def look_at(self, machine: Machine) -> None:
        """After a step of this machine's node."""
        node = machine.node
        if node is None:
            return
        quorum, applied = node.quorum, node.rooms.metadata.feed.applied
        if applied != quorum.replica.high_watermark:
            why = f"has applied the metadata below {applied} of {quorum.replica.high_watermark}"
            raise Violation("C11", f"{machine.name} {why} and goes on")
        plane = node.rooms.control.plane
        if plane is None or not plane.is_active:
            return
        leader = quorum.role
        if not isinstance(leader, Leader):
            raise Violation("C10", f"{machine.name} decides and is {leader.name}")
        if applied <= leader.epoch_start_offset:
            why = f"and its epoch began at {leader.epoch_start_offset}"
            raise Violation("C10", f"{machine.name} decides on what is below {applied}, {why}")
