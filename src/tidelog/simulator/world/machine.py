"""A simulated machine: a disk, two clocks, an address, and perhaps a process.

    process dies (kill, crash)   the disk keeps what was written, the kernel says goodbye
    power goes                   unsynced bytes and names meet their fate, nobody says anything
    pause                        the kernel goes on taking connections and bytes, the node sleeps

Invariant  A process that ends by itself is started again after a while, as a supervisor would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final, Protocol
from uuid import UUID

from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.errors import DiskError, TidelogError
from tidelog.node.core.effects import Effect
from tidelog.node.core.inputs import Input
from tidelog.node.node import Node
from tidelog.simulator.disk.machine_disk import Disk, may_cost_records
from tidelog.simulator.disk.memory_filesystem import DiskImage
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.clock import Clock
from tidelog.simulator.world.cluster import (
    DATA,
    first_voters,
    format_log_directory,
    is_broker,
    machine_address,
    node_config,
)
from tidelog.simulator.world.dice import SeededEntropy, stream
from tidelog.simulator.world.network import End
from tidelog.simulator.world.process import Process
from tidelog.simulator.world.simulation import Simulation
from tidelog.storage.filesystem import FileSystem

_BOOT_MOST_MS: Final = 1_000_000_000
_START_AGAIN_LEAST_US: Final = 500_000
_START_AGAIN_MOST_US: Final = 5_000_000


class LossJudge(Protocol):
    """The judge of what may befall a machine now."""

    def may_lose(self, machine: Machine) -> bool: ...

    def may_die(self, machine: Machine) -> bool: ...


class MachineWorld(Simulation, Protocol):
    """What a machine needs of the world it stands in, and tells it."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def losses(self) -> LossJudge: ...

    @property
    def machines(self) -> Mapping[int, Machine]: ...

    @property
    def build_node(self) -> Callable[[NodeConfig, FileSystem, Entropy], Node]: ...

    def broker_epoch(self, node_id: int) -> int: ...

    def machine_started(self, machine: Machine, effects: Sequence[Effect]) -> None: ...

    def machine_stepped(
        self, machine: Machine, happened: Input, effects: Sequence[Effect], frame: bytes
    ) -> None: ...

    def power_goes(self, machine: Machine) -> None: ...

    def machine_died(self, machine: Machine, cause: str) -> None: ...


class Machine:
    """Where one node of the cluster runs, most of the time."""

    def __init__(self, world: MachineWorld, node_id: int) -> None:
        conditions = world.plan.conditions
        self.world = world
        self.node_id: Final = node_id
        self.name: Final = str(node_id)
        self.zone: Final = self.name
        self.address: Final = machine_address(node_id)
        self.dice = stream(world.seed, "machine", node_id)
        self.disk = Disk(conditions.write_us, conditions.sync_us)
        drift = self.dice.randint(-conditions.drift_ppm, conditions.drift_ppm)
        self.clock = Clock(self.dice.randrange(_BOOT_MOST_MS), drift)
        self.process: Process | None = None
        self.powered = True
        self.paused = False
        self.lossy = False
        """Whether it lost data that it has not yet got back from the others."""
        self.lost_in_epoch = -1
        """The broker epoch that was known when it lost them."""
        self.registered_before = -1
        """The last broker epoch of the processes before the present one."""
        self.damaged = False
        """Whether files that matter were damaged since its disk was new."""
        self.started_ms = 0
        """When the present process, or the last one, began."""
        self.supervised = True
        self.leaving = False
        """Whether its present process, or the last one, was asked to stop."""
        self.left_in_epoch = -1
        """The last broker epoch in which a process was asked to stop."""
        self._incarnation = 0
        self._formatted = 0
        self._directory_ids: dict[str, UUID] = {}
        self._copy: DiskImage | None = None
        self._power_goes: str | None = None
        self._while_down: list[Callable[[], None]] = []
        self._format(*self.config.log_directories)

    @property
    def is_broker(self) -> bool:
        """Whether it may hold data, and not only metadata."""
        return is_broker(self.node_id)

    @property
    def node(self) -> Node | None:
        """The node, once it has started and while its process runs or sleeps."""
        if self.process is None or not self.process.node.has_started:
            return None
        return self.process.node

    @property
    def doomed(self) -> bool:
        """Whether it will end before long without anybody doing anything more to it."""
        if self.process is None:
            return False
        return self.process.dies_before_effects or self.disk.is_failing or self.is_crippled

    @property
    def is_crippled(self) -> bool:
        """Whether its process goes on, but must end before all its directories are used again."""
        return self.process is not None and self.disk.has_refused

    @property
    def directory_id(self) -> UUID:
        """The identity of its first directory, with which it may have a vote."""
        return self._directory_ids[DATA]

    @property
    def config(self) -> NodeConfig:
        plan = self.world.plan
        settings = dict(plan.settings)
        return node_config(self.node_id, settings, plan.controller_ids, plan.directories)

    # What operators and supervisors do.

    def start(self) -> None:
        """Start the process, and the machine before that if it is off."""
        if self.process is not None:
            return
        if not self.powered:
            self.powered = True
            self.clock.restart(self.dice.randrange(_BOOT_MOST_MS))
            self.world.network.paths_changed()
        self.supervised = True
        self.leaving = False
        self._incarnation += 1
        self.started_ms = self.world.timeline.now_ms
        self.note("starts")
        entropy = SeededEntropy(stream(self.world.seed, "node", self.node_id, self._incarnation))
        node = self.world.build_node(self.config, self.disk.files, entropy)
        self.process = process = Process(
            self,
            node,
            self.world.timeline,
            self.world.network,
            self.world.plan.conditions.step_us,
        )
        process.begin()

    def stop(self) -> None:
        """Ask the node to stop in an orderly way."""
        if self.process is not None:
            self.supervised = False
            self.leaving = True
            self.left_in_epoch = self.world.broker_epoch(self.node_id)
            self.process.request_stop("SIGTERM")

    def pause(self) -> None:
        if self.process is not None and not self.paused:
            self.paused = True
            self.note("pauses")

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self.note("resumes")
            if self.process is not None:
                self.process.resume()

    def wipe(self) -> None:
        """Put an empty disk in; the node is formatted anew and stays down."""
        self.loses_data()
        self.kill("its disk is replaced")
        self.disk.replace(())
        self.disk.failed = False
        self.damaged = False
        self._format(*self.config.log_directories)

    def wipe_directory(self, path: str) -> None:
        """Put an empty disk in the place of one directory, formatted anew; the node stays down."""
        self.loses_data()
        self.kill(f"the disk of {path} is replaced")
        self.heal_disk()
        self.disk.files.remove_directory(path)
        self._format(path)

    def copy_disk(self) -> None:
        """Take a copy of the disk as it is now."""
        self._copy = self.disk.copy()

    def restore_disk(self) -> bool:
        """Put the copy in the place of the disk; the node stays down. False without a copy."""
        if self._copy is None:
            return False
        self.loses_data()
        self.kill("an older copy of its disk is restored")
        self.disk.replace(self._copy)
        return True

    def when_down(self, action: Callable[[], None]) -> None:
        """Do something to the disk now or, while a process uses it, once that is gone."""
        if self.process is None:
            action()
        else:
            self._while_down.append(action)

    def heal_disk(self) -> None:
        """Make the disk work again.

        After a sync has failed nobody knows what is on it: the kernel has forgotten which pages
        were still to be written. Only a restart of the machine shows, so there is one.
        """
        if self.disk.forgot_pages:
            self.lose_power("lost")
        self.disk.heal()

    def calm(self) -> None:
        """Undo and forget every fault, and see to it that the process runs from now on."""
        self.heal_disk()
        if self.process is not None:
            self.process.dies_before_effects = False
        self.supervised = True
        self.resume()
        self.start()

    def look_after(self) -> None:
        """Start the process again that lost a directory, once nobody needs what it still serves."""
        if self.is_crippled and self.world.losses.may_die(self):
            self.kill("killed, to use all its directories again")
            self.start()

    # What befalls it.

    def kill(self, cause: str = "killed") -> None:
        """End the process at once; everything it wrote stays."""
        if self.process is not None:
            self.supervised = False
            self._end(partial(self.world.network.abort, reason="connection reset by peer"), cause)

    def lose_power(self, fate: str) -> None:
        """Lose what was not synced, in the way this fate says, unless too many did already."""
        if not self.powered:
            return
        if fate != "kept" and not self.world.losses.may_lose(self):
            fate = "kept"
        if fate != "kept":
            self.loses_data()
        self.world.power_goes(self)
        self.powered = False
        self.supervised = False
        self.disk.lose_power(fate, self.dice)
        if self.process is None:
            self.note(f"loses power, unsynced {fate}")
        else:
            self._end(self.world.network.vanish, f"loses power, unsynced {fate}")

    def loses_data(self) -> None:
        """Not all that it promised to keep is there any more; the others must help out.

        What a controller promises it has synced, so only a broker can lack something.
        """
        if not self.is_broker:
            return
        self.lossy = True
        self.lost_in_epoch = self.world.broker_epoch(self.node_id)

    def damage(self, kind: str, how: str, dice: Random) -> None:
        """Damage a file behind the node's back."""
        path = self.disk.damage(kind, how, dice)
        if path is not None and may_cost_records(kind, how):
            self.loses_data()
            self.damaged = True
        self.note(f"{how} in {path or 'no file'}")

    def die_after(self, operations: int, fate: str | None) -> None:
        """Be killed, or lose power, in the middle of a step: at one of the next file changes."""
        if self.process is not None:
            self._power_goes = fate
            self.disk.die_after(operations)

    def die_before_effects(self) -> None:
        """Be killed after a step that decided something, before the world hears of it."""
        if self.process is not None:
            self.process.dies_before_effects = True

    # From its process.

    def note(self, words: str) -> None:
        """Write a line of the trace."""
        self.world.trace.note(f"{self.name} {words}")

    def started(self, effects: Sequence[Effect]) -> None:
        self.world.machine_started(self, effects)

    def stepped(self, happened: Input, effects: Sequence[Effect], frame: bytes) -> None:
        self.world.machine_stepped(self, happened, effects, frame)

    def dies_here(self) -> None:
        """The operation it was to die at has come."""
        if self._power_goes is None:
            self.kill("killed in the middle of a step")
        else:
            self.lose_power(self._power_goes)

    def failed(self, error: TidelogError) -> None:
        """The node cannot go on; the process ends at once."""
        if not (isinstance(error, DiskError) and self.disk.failed):
            raise Violation("node", f"{self.name} failed without a fault: {error}") from error
        self._end(
            partial(self.world.network.abort, reason="connection reset by peer"), f"failed: {error}"
        )

    def stopped(self, failure: str | None) -> None:
        """The node is done, in an orderly way."""
        now_us = self.world.timeline.now_us
        self._end(
            lambda end: self.world.network.close(end, "the node stopped", now_us),
            "stopped" if failure is None else f"stopped: {failure}",
        )

    # From the network.

    def listening(self, port: int) -> str | None:
        return None if self.process is None else self.process.ports.get(port)

    def accepted(self, end: End, listener: str, peer_address: str) -> None:
        if self.process is not None:
            self.process.accepted(end, listener, peer_address)

    def connected(self, end: End) -> None:
        if self.process is not None:
            self.process.connected(end)

    def frame_arrived(self, end: End, frame: bytes) -> None:
        if self.process is not None:
            self.process.frame_arrived(end, frame)

    def disconnected(self, end: End, reason: str) -> None:
        if self.process is not None:
            self.process.disconnected(end, reason)

    def _end(self, let_go: Callable[[End], None], cause: str) -> None:
        self.registered_before = self.world.broker_epoch(self.node_id)
        process, self.process = self.process, None
        if process is None:
            return
        self.paused = False
        self._power_goes = None
        self.note(cause)
        process.give_up_connections(let_go)
        self.disk.disarm()
        while_down, self._while_down = self._while_down, []
        for action in while_down:
            action()
        self.world.machine_died(self, cause)
        if self.supervised:
            again_us = self.dice.randint(_START_AGAIN_LEAST_US, _START_AGAIN_MOST_US)
            self.world.timeline.at(
                self.world.timeline.now_us + again_us, self._start_again, self._incarnation
            )

    def _start_again(self, incarnation: int) -> None:
        if self._incarnation == incarnation and self.supervised:
            self.start()

    def _format(self, *paths: str) -> None:
        self._formatted += 1
        world = self.world
        entropy = SeededEntropy(stream(world.seed, "format", self.node_id, self._formatted))
        wall_ms = self.clock.at(world.timeline.now_us).wall_ms
        self.disk.files.wall_ms = wall_ms
        is_first = self._formatted == 1  # who comes later finds out from the others who votes
        voters = first_voters(world.seed, world.plan.controller_ids) if is_first else ()
        for path in paths:
            self._directory_ids[path] = directory_id = entropy.uuid()
            format_log_directory(
                self.disk.files,
                path,
                self.config,
                world.cluster_id,
                directory_id,
                voters,
                wall_ms,
            )
