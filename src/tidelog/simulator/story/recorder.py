"""Records a run, seen from one partition: a step for each thing that mattered to it.

    recorder = Recorder(TopicPartition("orders", 0))
    recorder.watch(world)                # before the rules: the step that breaks one is kept
    world.start()
    ...
    recorder.steps

Invariant  Watching changes nothing: a run goes the same way with and without a recorder.
Invariant  A step is there if the picture changed, somebody was refused, or something was announced;
           fetches that find nothing and tell nothing are only counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.model.ids import TopicPartition
from tidelog.node.core.effects import Announce, Effect
from tidelog.observe.cluster_events import (
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    ControllerActivated,
    ControllerDeactivated,
)
from tidelog.observe.events import Event, NodeStopped
from tidelog.simulator.faults.faults import (
    Depose,
    Kill,
    KillBeforeEffects,
    PowerCut,
    RestoreDisk,
    Start,
    Stop,
    Wipe,
    WipeDirectory,
)
from tidelog.simulator.story.picture import (
    LEADER,
    Disks,
    PartitionPicture,
    ReplicaPicture,
    picture_of_cluster,
    picture_of_replica,
)
from tidelog.simulator.story.sentences import (
    TURNING_POINTS,
    events_sentence,
    fault_sentence,
    high_watermark_sentence,
    loss_sentence,
    message_label,
    message_sentence,
)
from tidelog.simulator.story.traffic import (
    CarriedMessage,
    FetchAnswered,
    FetchAsked,
    IsrAnswered,
    IsrAsked,
    OtherMessage,
    ProduceAnswered,
    ProduceAsked,
    Traffic,
)
from tidelog.simulator.story.writes import Writes
from tidelog.simulator.world.cluster import machine_address
from tidelog.simulator.world.happenings import (
    ClientActed,
    Died,
    Happening,
    Started,
    Stepped,
    Struck,
)
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.world import World

OF_THE_CLUSTER: Final = (
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    ControllerActivated,
    ControllerDeactivated,
    NodeStopped,
)
"""Events that name no partition and matter to all of them."""
_TOLD_OTHERWISE: Final = (Kill, KillBeforeEffects, PowerCut, Start, Stop)
"""Faults whose outcome is a step of its own: a process that ends, or one that begins."""


class DrawnMessage(NamedTuple):
    """A message on its way, as it is drawn."""

    sender: str
    receiver: str
    kind: str
    label: str


class Step(NamedTuple):
    """One thing that happened, and everything after it."""

    at_us: int
    text: str
    message: DrawnMessage | None
    picture: PartitionPicture
    chapter: int
    """The caption that it stands under; -1 before the first."""
    matters: bool
    """Whether a reader in a hurry should stop here."""


class Recorder:
    """An observer of one world, for one partition."""

    def __init__(self, partition: TopicPartition, *, everyday_matters: bool = True) -> None:
        self.partition: Final = partition
        self._everyday_matters = everyday_matters
        """Whether a reader should stop at every commit and every answer to a client."""
        self.steps: list[Step] = []
        self.captions: list[str] = []
        self.idle = 0
        """How many messages about the partition changed nothing and said nothing new."""
        self.values: dict[tuple[int, int], str] = {}
        """Short values of records, by epoch and offset."""
        self._disks = Disks(partition)
        self._writes = Writes()
        self._known: dict[int, tuple[int, dict[int, int]]] = {}
        """What reached each leader of its followers' ends, and in which epoch."""
        self._replicas: dict[int, ReplicaPicture] = {}
        self._last = PartitionPicture({})
        self._traffic = Traffic(partition, {})

    def watch(self, world: World) -> None:
        """Look at everything that happens in a world from now on."""
        names = {machine_address(node_id): str(node_id) for node_id in world.machines}
        self._traffic = Traffic(self.partition, _Names(world, names))
        self._replicas = {node_id: ReplicaPicture("down") for node_id in world.plan.broker_ids}
        self._last = PartitionPicture(dict(self._replicas))
        world.observers.append(self._look)

    @property
    def saw_partition(self) -> bool:
        """Whether any broker ever had a replica of it."""
        return self._traffic.topic_id is not None

    def caption(self, text: str) -> None:
        """What the author says about the steps that follow."""
        self.captions.append(text)

    def note(self, world: World, text: str) -> None:
        """Something that is told about the run and happened to nobody: a broken rule."""
        self._add(world, text, None, matters=True)

    # Looking.

    def _look(self, world: World, happening: Happening) -> None:
        match happening:
            case Started(machine=machine, effects=effects):
                self._traffic.started(happening)
                self._known.pop(machine.node_id, None)
                events = self._relevant(effects)
                self._look_at(machine)
                text = f"{machine.name} starts. {events_sentence(machine.name, events)}"
                self._add(world, text, None, matters=True)
            case Stepped():
                self._stepped(world, happening)
            case Died(machine=machine, cause=cause):
                self._known.pop(machine.node_id, None)
                self._writes.broker_died(machine.name)
                self._look_at(machine)
                self._add(world, f"{machine.name} is gone: {cause}. ", None, matters=True)
            case ClientActed():
                message = self._traffic.client_heard(happening)
                if message is not None and not isinstance(message.content, OtherMessage):
                    self._client_heard(world, message)
            case Struck(fault=fault):
                if isinstance(fault, Wipe | WipeDirectory | RestoreDisk):
                    self._disks.wiped(fault.node)
                for machine in world.machines.values():
                    self._look_at(machine)
                told_otherwise = isinstance(fault, Depose) and fault.how == "kill"
                if not isinstance(fault, _TOLD_OTHERWISE) and not told_otherwise:
                    self._add(world, fault_sentence(fault), None, matters=True)
            case _:
                pass

    def _stepped(self, world: World, step: Stepped) -> None:
        machine = step.machine
        message = self._traffic.stepped(step)
        events = self._relevant(step.effects)
        about = message is not None and not isinstance(message.content, OtherMessage)
        replica = None if machine.node is None else machine.node.replicas.get(self.partition)
        if replica is not None:
            self._traffic.topic_id = replica.log.topic_id
            self._disks.look(machine)
        if message is not None and about:
            self._take_in(machine, message)
        answered = self._traffic.answers(machine.node_id, step.effects)
        self._writes.answered(answered)
        if not about and not events and not self._has_changed(machine):
            return
        self._look_at(machine)
        before, after = self._last, self._picture(world)
        diverges = _shows_divergence(message, after)
        if before == after and not events and not _speaks(message) and not diverges:
            self.idle += about
            return
        said = (
            "" if message is None else message_sentence(message, before, after, self._writes.label)
        )
        told = said + high_watermark_sentence(before, after) + events_sentence(machine.name, events)
        if not told:
            told = _plain_change(machine.name, before, after)
        if not told:
            self._last = after
            return
        if message is not None and not about and not events:
            message = None
        turning = any(isinstance(event, TURNING_POINTS) for event in events)
        moved = bool(high_watermark_sentence(before, after))
        everyday = self._everyday_matters and (moved or _speaks(message))
        self._add(world, told, message, matters=turning or diverges or everyday)

    def _client_heard(self, world: World, message: CarriedMessage) -> None:
        content = message.content
        if isinstance(content, ProduceAnswered):
            self._writes.heard(message.request_id, content.given)
        elif isinstance(content, FetchAnswered) and not content.error:
            records = content.given.records
            if not records and not self._everyday_matters:
                self.idle += 1
                return
        before = self._last
        text = message_sentence(message, before, self._picture(world), self._writes.label)
        refused = isinstance(content, ProduceAnswered) and bool(content.given.error)
        self._add(world, text, message, matters=refused or self._everyday_matters)

    def _take_in(self, machine: Machine, message: CarriedMessage) -> None:
        """Note what a request tells its receiver."""
        content = message.content
        if isinstance(content, ProduceAsked):
            self._writes.arrived(message, content)
        elif isinstance(content, FetchAsked) and content.replica_id >= 0:
            node = machine.node
            replica = None if node is None else node.replicas.get(self.partition)
            if replica is None or not replica.is_leader:
                return
            epoch, known = self._known.get(machine.node_id, (-1, {}))
            if epoch != replica.leader_epoch:
                known = {}
                self._known[machine.node_id] = (replica.leader_epoch, known)
            if self._is_sound(machine.node_id, content, replica.leader_epoch):
                known[content.replica_id] = content.wanted.fetch_offset
            else:
                known.pop(content.replica_id, None)

    def _is_sound(self, leader: int, asked: FetchAsked, leader_epoch: int) -> bool:
        """Whether the log that a fetch speaks of is a beginning of the leader's."""
        wanted = asked.wanted
        if wanted.current_leader_epoch != leader_epoch:
            return False
        if wanted.last_fetched_epoch < 0:
            return wanted.fetch_offset <= self._end_of(leader)
        below = [run for run in self._disks.runs(leader) if run.start < wanted.fetch_offset]
        if not below:
            return True
        last = below[-1]
        return last.epoch == wanted.last_fetched_epoch and wanted.fetch_offset <= last.end

    def _end_of(self, node_id: int) -> int:
        runs = self._disks.runs(node_id)
        return runs[-1].end if runs else 0

    # Pictures.

    def _has_changed(self, machine: Machine) -> bool:
        """Whether the replica of a machine is another than at the last look."""
        known = self._replicas.get(machine.node_id)
        return known is not None and self._replica_picture(machine) != known

    def _look_at(self, machine: Machine) -> None:
        if machine.node_id in self._replicas:
            self._disks.look(machine)
            self._replicas[machine.node_id] = self._replica_picture(machine)

    def _replica_picture(self, machine: Machine) -> ReplicaPicture:
        epoch, known = self._known.get(machine.node_id, (-1, {}))
        held = self._disks.held.get(machine.node_id)
        parked = self._writes.parked_at(machine.name, held)
        picture = picture_of_replica(machine, self.partition, self._disks, known, parked)
        return picture if epoch == picture.epoch else picture._replace(known=())

    def _picture(self, world: World) -> PartitionPicture:
        picture = picture_of_cluster(world, self.partition, self._replicas, ())
        leading = picture.replicas.get(picture.leader)
        held = None
        if leading is not None and leading.role == LEADER and leading.epoch == picture.epoch:
            held = self._disks.held.get(picture.leader)
        return picture._replace(writes=self._writes.pictures(held))

    def _add(
        self, world: World, text: str, message: CarriedMessage | None, *, matters: bool
    ) -> None:
        before, picture = self._last, self._picture(world)
        lost = loss_sentence(before, picture)
        self._last = picture
        self._note_values()
        drawn = None
        if message is not None:
            kind, label = message_label(message)
            drawn = DrawnMessage(message.sender, message.receiver, kind, label)
        self.steps.append(
            Step(
                world.timeline.now_us,
                " ".join(f"{text} {lost}".split()),
                drawn,
                picture,
                len(self.captions) - 1,
                matters or bool(lost),
            )
        )

    def _note_values(self) -> None:
        for held in self._disks.held.values():
            self._writes.note_values(held, self.values)

    def _relevant(self, effects: Sequence[Effect]) -> list[Event]:
        announced = (effect.event for effect in effects if isinstance(effect, Announce))
        return [event for event in announced if self._is_relevant(event)]

    def _is_relevant(self, event: Event) -> bool:
        if isinstance(event, OF_THE_CLUSTER):
            return True
        return getattr(event, "partition", None) == self.partition


class _Names(dict[str, str]):
    """Addresses by the names of whoever has them; clients may come later."""

    def __init__(self, world: World, nodes: dict[str, str]) -> None:
        super().__init__(nodes)
        self._world = world

    def get(self, address: str, default: str | None = None) -> str:  # type: ignore[override]
        if address not in self:
            self.update((client.host.address, name) for name, client in self._world.clients.items())
        return super().get(address, default or address)


def _shows_divergence(message: CarriedMessage | None, after: PartitionPicture) -> bool:
    """Whether a follower's fetch speaks of a log that its leader does not have."""
    if message is None or not isinstance(message.content, FetchAsked):
        return False
    leader = after.replicas.get(int(message.receiver))
    follower = message.content.replica_id
    is_led = leader is not None and leader.role == LEADER
    return follower >= 0 and leader is not None and is_led and follower not in dict(leader.known)


def _speaks(message: CarriedMessage | None) -> bool:
    """Whether a message is worth telling though it changed nothing."""
    if message is None:
        return False
    content = message.content
    match content:
        case FetchAnswered(_, given, error):
            return bool(error) or given.diverging_epoch is not None
        case ProduceAnswered() | ProduceAsked() | IsrAsked() | IsrAnswered():
            return True
        case _:
            return False


def _plain_change(who: str, before: PartitionPicture, after: PartitionPicture) -> str:
    """A change without a message and without an announcement: time passed, a sync ended."""
    if not who.isdigit() or int(who) not in after.replicas:
        return ""
    was, is_now = before.replicas.get(int(who)), after.replicas[int(who)]
    if was is None or was._replace(parked=()) == is_now._replace(parked=()):
        return ""
    if is_now.end != was.end:
        return f"The log of {who} ends at {is_now.end} instead of {was.end}. "
    if is_now.high_watermark != was.high_watermark:
        return f"{who} takes {is_now.high_watermark} for the high watermark. "
    if is_now.start != was.start:
        return f"The log of {who} begins at {is_now.start}. "
    return ""
