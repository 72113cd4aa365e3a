"""How much may be lost at a time, so that what replication promises can be held against it.

A replica that restarts without having stopped cleanly is taken for one that lost data, whether it
did or not, and leaves the in-sync set. So data is safe as long as the last member of that set is
not the very one that did lose something. From this follow the rules here:

- a machine loses data only while all others run, are in sync and are not about to die, and while
  no controller holds decisions that are not committed: they might say otherwise;
- until the cluster has noticed that loss, no other machine dies without a clean stop;
- nor does one that alone is known to hold a partition, while the loser led that last: when nobody
  is known to be complete, whoever led last is elected;
- until the loser is in sync again, no other machine loses data, unless the plan allows more;
- a node stays dead for good only if somebody else in sync goes on;
- a controller comes back with a blank disk, and so without its vote, only while all others run and
  those who kept their votes are a majority without it. An older copy of its disk it never gets: a
  voter that forgot a vote or a record which it had synced is nothing that a quorum survives.

Invariant  Whatever is refused here happens without the loss, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tidelog.controller.image import ClusterImage
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.simulation import Simulation


class JudgedWorld(Simulation, Protocol):
    """What can be known of a world whose machines may lose something."""

    @property
    def machines(self) -> Mapping[int, Machine]: ...

    def controller_image(self) -> ClusterImage | None: ...


class Losses:
    """The judge of what may befall a machine now."""

    def __init__(self, world: JudgedWorld) -> None:
        self._world = world

    def may_lose(self, machine: Machine) -> bool:
        """Whether this machine may lose data now that it has not synced."""
        if not machine.is_broker:
            return True
        if not self._is_settled():
            return False
        others = self._others(machine)
        losers = sum(1 for each in others if each.lossy)
        return losers < self._world.plan.loss_budget and all(
            each.lossy or (self.is_whole(each) and not each.doomed) for each in others
        )

    def may_be_blank(self, machine: Machine) -> bool:
        """Whether this machine may lose everything now."""
        return self.may_lose(machine) and self._is_no_needed_voter(machine)

    def may_be_older(self, machine: Machine) -> bool:
        """Whether this machine may forget the latest of what it has synced."""
        return self.may_lose(machine) and machine.node_id not in self._world.plan.controller_ids

    def _is_no_needed_voter(self, machine: Machine) -> bool:
        """Whether all other controllers run and know of a majority that needs no vote of this."""
        controllers = self._world.plan.controller_ids
        if machine.node_id not in controllers:
            return True
        for other in controllers:
            node = self._world.machines[other].node
            if other == machine.node_id:
                continue
            if node is None:
                return False
            voters = node.quorum.voters.voters
            able = sum(
                voter.voter_id != machine.node_id
                and voter.voter_directory_id == self._world.machines[voter.voter_id].directory_id
                for voter in voters
            )
            if able <= len(voters) // 2:
                return False
        return len(controllers) > 1

    def may_die(self, machine: Machine) -> bool:
        """Whether this machine may end without a clean stop now."""
        if not machine.is_broker:
            return True
        losers = [each for each in self._others(machine) if each.lossy]
        if losers and not self._is_settled():
            return False
        return all(map(self.is_noticed, losers)) and not self._is_last_hope(machine, losers)

    def can_stop_cleanly(self, machine: Machine) -> bool:
        """Whether a broker has come up: one that is stopped before has not loaded its logs."""
        image = self._world.controller_image()
        registration = None if image is None else image.brokers.get(machine.node_id)
        if registration is None or registration.fenced:
            return False
        return registration.broker_epoch > machine.registered_before

    def _is_settled(self) -> bool:
        """Whether the quorum knows all that it may yet decide: of several controllers each runs,
        and none has anything in its log that is not committed."""
        controllers = self._world.plan.controller_ids
        if len(controllers) == 1:
            return True
        nodes = [self._world.machines[node_id].node for node_id in controllers]
        quorums = [node.quorum for node in nodes if node is not None]
        high_watermark = max((quorum.replica.high_watermark for quorum in quorums), default=0)
        return len(quorums) == len(nodes) and all(
            each.log.end_offset <= high_watermark for each in quorums
        )

    def _is_last_hope(self, machine: Machine, losers: list[Machine]) -> bool:
        image = self._world.controller_image()
        lost = {each.node_id for each in losers}
        if image is None or not lost:
            return False
        return any(
            {*partition.isr, *partition.elr} == {machine.node_id}
            and not lost.isdisjoint(partition.last_known_elr)
            for _, _, partition in image.partitions_of(machine.node_id)
        )

    def is_noticed(self, machine: Machine) -> bool:
        """Whether the cluster knows that this machine is not what it was."""
        if machine.damaged:
            return False
        image = self._world.controller_image()
        registration = None if image is None else image.brokers.get(machine.node_id)
        return registration is not None and registration.broker_epoch > machine.lost_in_epoch

    def is_whole(self, machine: Machine) -> bool:
        """Whether a machine runs and is in sync in all its partitions, says the controller."""
        image = self._world.controller_image()
        if image is None or machine.process is None or machine.damaged:
            return False
        registration = image.brokers.get(machine.node_id)
        if registration is None or registration.fenced:
            return False
        if registration.broker_epoch <= machine.registered_before:
            return False  # that was the process before this one
        if machine.lossy and not self.is_noticed(machine):
            return False
        return all(
            machine.node_id in partition.isr
            for _, _, partition in image.partitions_of(machine.node_id)
        )

    def may_stay_dead(self, node_id: int) -> bool:
        """Whether every partition of a node has another member in sync that runs well, and the
        quorum a majority without it."""
        image = self._world.controller_image()
        if image is None or not self._is_no_needed_voter(self._world.machines[node_id]):
            return False
        able = {each.node_id for each in self._world.machines.values() if self.is_whole(each)}
        able.discard(node_id)
        return all(
            not able.isdisjoint(partition.isr) for _, _, partition in image.partitions_of(node_id)
        )

    def look(self) -> None:
        """Take note of machines that have got back what they lost."""
        for machine in self._world.machines.values():
            if machine.lossy and self.is_whole(machine):
                machine.lossy = False
                self._world.trace.note(f"{machine.name} is whole again")

    def _others(self, machine: Machine) -> list[Machine]:
        """The other brokers."""
        machines = self._world.machines.values()
        return [each for each in machines if each.is_broker and each is not machine]
