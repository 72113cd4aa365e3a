"""One partition of a simulated cluster at one moment, as a person may look at it.

Logs are read from the disks behind the nodes' backs, and what a leader knows of its followers from
the fetches that reached it; roles and high watermarks are the nodes' own, since they act on them.

Invariant  A picture is a value that shares nothing with the world: the world goes on, it does not.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.simulator.rules.held_log import HeldLog
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.world import World

UP: Final = "up"
DOWN: Final = "down"
PAUSED: Final = "paused"
STARTING: Final = "starting"

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
NO_ROLE: Final = ""


class EpochRun(NamedTuple):
    """Offsets from `start` up to and without `end`, written in one leader epoch."""

    epoch: int
    start: int
    end: int


class ReplicaPicture(NamedTuple):
    """What one broker has and knows of the partition."""

    life: str
    role: str = NO_ROLE
    epoch: int = -1
    follows: int = NO_LEADER
    start: int = 0
    end: int = 0
    high_watermark: int | None = None
    """As this replica knows it; None when nobody is there to know."""
    runs: tuple[EpochRun, ...] = ()
    in_sync: tuple[int, ...] = ()
    """At the leader: the set it goes by."""
    known: tuple[tuple[int, int], ...] = ()
    """At the leader: below which offset each follower holds everything, by its last fetch."""
    parked: tuple[int, ...] = ()
    """At the leader: the high watermarks for which acknowledgements wait."""

    def as_json(self) -> dict[str, Any]:
        return {
            "life": self.life,
            "role": self.role,
            "epoch": self.epoch,
            "follows": self.follows,
            "start": self.start,
            "end": self.end,
            "highWatermark": self.high_watermark,
            "runs": [list(run) for run in self.runs],
            "inSync": list(self.in_sync),
            "known": [list(each) for each in self.known],
            "parked": list(self.parked),
        }


class WritePicture(NamedTuple):
    """One batch that a client wrote, and what it was told about it."""

    label: str
    acks: int
    fate: str
    """`waits`, `acknowledged`, `refused` or `unanswered`."""
    offset: int = -1
    error: str = ""
    lost: bool = False
    """Acknowledged, and the present leader does not have it."""

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


class PartitionPicture(NamedTuple):
    """The partition on all brokers, and what the controller and the clients know of it."""

    replicas: dict[int, ReplicaPicture]
    leader: int = NO_LEADER
    epoch: int = -1
    in_sync: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    controller: int = -1
    controller_epoch: int = -1
    controllers: tuple[tuple[int, str], ...] = ()
    """Every node with a vote, and whether it is up."""
    fenced: tuple[int, ...] = ()
    cuts: tuple[tuple[str, str], ...] = ()
    writes: tuple[WritePicture, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """All of it but the replicas, which few steps change."""
        return {
            "leader": self.leader,
            "epoch": self.epoch,
            "inSync": list(self.in_sync),
            "eligible": list(self.eligible),
            "controller": self.controller,
            "controllerEpoch": self.controller_epoch,
            "controllers": [list(each) for each in self.controllers],
            "fenced": list(self.fenced),
            "cuts": [list(pair) for pair in self.cuts],
            "writes": [write.as_json() for write in self.writes],
        }


class Disks:
    """What every broker's disk holds of one partition, read when it may have changed."""

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self.held: dict[int, HeldLog] = {}
        self._seen: dict[int, tuple[object, ...]] = {}
        self._runs: dict[int, tuple[EpochRun, ...]] = {}

    def look(self, machine: Machine) -> None:
        """Read what is new on one machine; a disk without a process stays as it was."""
        node = machine.node
        replica = None if node is None else node.replicas.get(self._partition)
        if replica is None:
            return
        log = replica.log
        seen = (log, log.start_offset, log.end_offset, log.epochs.latest_epoch)
        if self._seen.get(machine.node_id) == seen:
            return
        self._seen[machine.node_id] = seen
        held = self.held.setdefault(machine.node_id, HeldLog(machine.node_id, self._partition))
        held.look(log, machine.disk.files, damaged=True)
        self._runs[machine.node_id] = _runs_of(held)

    def wiped(self, node_id: int) -> None:
        """The disk is another one."""
        for known in (self.held, self._seen, self._runs):
            known.pop(node_id, None)

    def runs(self, node_id: int) -> tuple[EpochRun, ...]:
        return self._runs.get(node_id, ())


def _runs_of(held: HeldLog) -> tuple[EpochRun, ...]:
    starts = held.epoch_starts
    if not starts:
        return ()
    bounds = [*starts, (-1, held.end_offset)]
    runs = (
        EpochRun(epoch, max(start, held.start_offset), end)
        for (epoch, start), (_, end) in pairwise(bounds)
    )
    return tuple(run for run in runs if run.end > run.start)


def picture_of_replica(
    machine: Machine,
    partition: TopicPartition,
    disks: Disks,
    known: dict[int, int],
    parked: tuple[int, ...],
) -> ReplicaPicture:
    """One broker's part."""
    runs = disks.runs(machine.node_id)
    start, end = (runs[0].start, runs[-1].end) if runs else (0, 0)
    node = machine.node
    if node is None:
        life = DOWN if machine.process is None else STARTING
        return ReplicaPicture(life, start=start, end=end, runs=runs)
    life = PAUSED if machine.paused else UP
    replica = node.replicas.get(partition)
    if replica is None:
        return ReplicaPicture(life, start=start, end=end, runs=runs)
    log, leads = replica.log, replica.is_leader
    return ReplicaPicture(
        life,
        LEADER if leads else FOLLOWER,
        replica.leader_epoch,
        replica.leadership.leader,
        log.start_offset,
        log.end_offset,
        replica.high_watermark.offset,
        runs,
        tuple(sorted(replica.leadership.in_sync)) if leads else (),
        tuple(sorted(known.items())) if leads else (),
        parked if leads else (),
    )


def picture_of_cluster(
    world: World,
    partition: TopicPartition,
    replicas: dict[int, ReplicaPicture],
    writes: tuple[WritePicture, ...],
) -> PartitionPicture:
    """What is known of the partition beside its replicas."""
    image = world.controller_image()
    control = None if image is None else image.partition(*partition)
    brokers = {} if image is None else image.brokers
    active = world.quorum_leader()
    controllers = tuple(
        (node_id, _life(world.machines[node_id])) for node_id in world.plan.controller_ids
    )
    picture = PartitionPicture(
        dict(replicas),
        controller=-1 if active is None else active.node_id,
        controller_epoch=-1 if active is None or active.node is None else active.node.quorum.epoch,
        controllers=controllers,
        fenced=tuple(sorted(each for each, known in brokers.items() if known.fenced)),
        cuts=tuple(world.network.paths.cuts),
        writes=writes,
    )
    if control is None:
        return picture
    return picture._replace(
        leader=control.leader,
        epoch=control.leader_epoch,
        in_sync=tuple(sorted(control.isr)),
        eligible=tuple(sorted(control.elr)),
    )


def _life(machine: Machine) -> str:
    if machine.process is None:
        return DOWN
    return PAUSED if machine.paused else UP
