"""Letting a fault loose on a world.

Invariant  What would lose more than replication promises to survive is softened into a fault
           without loss, or left out (see `losses`).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final, Protocol, assert_never

from tidelog.model.errors import invariant
from tidelog.simulator.disk.machine_disk import may_cost_records
from tidelog.simulator.faults.fault_text import fault_text
from tidelog.simulator.faults.faults import (
    CopyDisk,
    Cut,
    Damage,
    Depose,
    FailDisk,
    Fault,
    HealDisk,
    JumpClock,
    Kill,
    KillBeforeEffects,
    MachineFault,
    Mend,
    MendAll,
    Pause,
    PowerCut,
    Reset,
    RestoreDisk,
    Resume,
    Slow,
    SlowDisk,
    Start,
    Stop,
    Wipe,
    WipeDirectory,
)
from tidelog.simulator.faults.losses import Losses
from tidelog.simulator.world.dice import stream
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.paths import Slowness, apart, one_way
from tidelog.simulator.world.simulation import Simulation

_DEADLY: Final = (Kill, KillBeforeEffects, PowerCut, Wipe, WipeDirectory, RestoreDisk, FailDisk)
"""What ends a process without a clean stop, sooner or later."""


class FaultyWorld(Simulation, Protocol):
    """A world with everything that a fault can befall."""

    @property
    def losses(self) -> Losses: ...

    @property
    def machines(self) -> Mapping[int, Machine]: ...

    def quorum_leader(self) -> Machine | None: ...

    def inject(self, fault: Fault) -> None:
        """Let a fault loose now, unless the calm has begun."""
        ...


def inject(world: FaultyWorld, fault: Fault) -> None:
    """Do to the world what the fault says."""
    world.trace.note(f"* {fault_text(fault)}")
    network = world.network
    match fault:
        case Cut(pairs=pairs):
            network.paths.cut(pairs)
        case Slow(pairs=pairs):
            network.paths.slow(
                pairs, Slowness(fault.latency_ms * 1000, fault.loss_ppm, fault.bytes_per_s)
            )
        case Mend(pairs=pairs):
            network.paths.mend(pairs)
            network.paths_changed()
        case MendAll():
            network.paths.mend_all()
            network.paths_changed()
        case Reset(pairs=pairs):
            for one, other in pairs:
                network.reset_between(one, other)
        case Depose():
            _depose(world, fault)
        case _:
            machine = world.machines.get(fault.node)
            if machine is not None:
                _inject_into_machine(world, machine, fault)


def _depose(world: FaultyWorld, fault: Depose) -> None:
    """Find out who leads the quorum, and do to it now and later what the fault says."""
    leader = world.quorum_leader()
    if leader is None:
        world.trace.note("nobody leads the quorum")
        return
    begins: Fault
    ends: Fault | None
    match fault.how:
        case "kill":
            begins, ends = Kill(node=leader.node_id), Start(node=leader.node_id)
        case "pause":
            begins, ends = Pause(node=leader.node_id), Resume(node=leader.node_id)
        case "cut":
            pairs = apart([leader.name], _without(leader, world.plan.controller_ids))
            begins, ends = Cut(pairs=pairs), Mend(pairs=pairs)
        case _:
            invariant(fault.how == "reset", f"nobody knows how to depose by {fault.how}")
            everybody = _without(leader, world.plan.node_ids)
            begins, ends = Reset(pairs=one_way([leader.name], everybody)), None
    world.inject(begins)
    if ends is not None:
        ends_us = world.timeline.now_us + fault.for_ms * 1000
        world.timeline.at(ends_us, world.inject, ends)


def _without(machine: Machine, nodes: tuple[int, ...]) -> list[str]:
    return [str(node_id) for node_id in nodes if node_id != machine.node_id]


def _inject_into_machine(world: FaultyWorld, machine: Machine, fault: MachineFault) -> None:
    disk = machine.disk
    is_deadly = isinstance(fault, _DEADLY) or (
        isinstance(fault, Stop) and not world.losses.can_stop_cleanly(machine)
    )
    if is_deadly and not world.losses.may_die(machine):
        world.trace.note(f"{machine.name} is spared")
        return
    match fault:
        case Kill(after=after):
            if after < 0:
                machine.kill()
            else:
                machine.die_after(after, None)
        case KillBeforeEffects():
            machine.die_before_effects()
        case PowerCut(fate=fate, after=after):
            if after < 0:
                machine.lose_power(fate)
            else:
                machine.die_after(after, fate)
        case Start():
            machine.start()
        case Stop():
            machine.stop()
        case Pause():
            machine.pause()
        case Resume():
            machine.resume()
        case Wipe():
            if world.losses.may_be_blank(machine):
                machine.wipe()
            else:
                machine.kill("killed; its disk is spared")
        case WipeDirectory(path=path):
            if world.losses.may_lose(machine):
                machine.wipe_directory(path)
            else:
                machine.kill("killed; its disk is spared")
        case CopyDisk():
            machine.copy_disk()
        case RestoreDisk():
            if not (world.losses.may_be_older(machine) and machine.restore_disk()):
                machine.kill("killed; its disk is spared")
        case SlowDisk(write_ms=write_ms, sync_ms=sync_ms):
            disk.slow_down(write_ms * 1000, sync_ms * 1000)
        case FailDisk(how=how, part=part):
            disk.fail(how, part)
        case HealDisk():
            machine.heal_disk()
        case Damage():
            _damage(world, machine, fault, stream(world.seed, "damage", fault.draw))
        case JumpClock(by_ms=by_ms):
            machine.clock.wall_offset_ms += by_ms
        case _:
            assert_never(fault)


def _damage(world: FaultyWorld, machine: Machine, fault: Damage, dice: Random) -> None:
    def damage() -> None:
        if not may_cost_records(fault.kind, fault.how) or world.losses.may_lose(machine):
            machine.damage(fault.kind, fault.how, dice)

    if fault.how == "flip":
        damage()
    else:
        machine.when_down(damage)
