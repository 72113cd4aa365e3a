"""A story of a cluster as text: commands, and below each what came of it.

    # Silence is noticed.
    > cluster brokers=3 replica.lag.time.max.ms=2000
    > topic orders replicas=101,100,102
    created
    > cut pairs=102>101
    > produce orders to=101 acks=all values=a,b
    no answer yet
    > pass 3000
    101: orders-0 in sync: 100, 101 after ...
    acknowledged: offset 0

A line that begins with > is a command, one that begins with # says something to the reader, all
others are output. Faults are commands, written as in a plan.

Invariant  The output follows from the commands alone: replaying a transcript gives it again.
Invariant  All rules that need no workload are watched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tidelog.model.errors import ConfigError
from tidelog.model.nearest import nearest
from tidelog.simulator.clients.narrator import Narrator
from tidelog.simulator.rules.watch import watch_nodes
from tidelog.simulator.run.command_text import (
    COMMAND,
    COMMENT,
    Command,
    cluster_plan,
    parse_commands,
)
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.run.scenario_mistakes import ScenarioError, ScenarioMistake
from tidelog.simulator.world.world import World

PATIENCE_MS: Final = 400
"""How long a command waits for its answer."""
FORMING_MS: Final = 10_000
SETTLING_MS: Final = 1_500
"""Longer than a follower rests when its leader has not heard of a topic yet."""
LOOK_EVERY_MS: Final = 10


def is_transcript(text: str) -> bool:
    """Whether a text tells a story, and is not a plan."""
    return any(line.startswith(COMMAND.strip()) for line in text.splitlines())


class Stage:
    """Where a transcript is played: it builds the world, and hears what the author says."""

    def build_world(self, plan: Plan, reader: Callable[[str], None]) -> World:
        """A world that has not started yet, with everybody who watches it."""
        world = World(plan, reader)
        watch_nodes(world)
        return world

    def comment(self, text: str) -> None:
        """What stands, on one line or several, before the next command."""


def replay(text: str, stage: Stage | None = None) -> str:
    """Carry out the commands of a transcript; the transcript as it should be."""
    return "\n".join(_told(text, stage or Stage())) + "\n"


def _told(text: str, stage: Stage) -> Iterator[str]:
    commands = {each.line: each for each in parse_commands(text)}
    comments = comments_before_commands(text)
    story = _Story(stage)
    for number, line in enumerate(text.splitlines(), 1):
        if number in comments:
            stage.comment(comments[number])
        if number in commands:
            yield line
            try:
                story.carry_out(commands[number])
            except ConfigError as error:
                raise ScenarioError([ScenarioMistake(number, f"{line}: {error}")]) from error
            yield from story.take_lines()
        elif line.startswith(COMMENT) or not line:
            yield line


def comments_before_commands(text: str) -> dict[int, str]:
    """What the author says to the reader, by the line of the command that follows it."""
    found: dict[int, str] = {}
    said: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(COMMENT):
            said.append(line.removeprefix(COMMENT).strip())
        elif line.startswith(COMMAND.strip()) and said:
            found[number] = " ".join(said)
            said = []
    return found


class _Story:
    """The world of a transcript; `cluster` is the first command."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._lines: list[str] = []
        self._world: World | None = None
        self._narrator = Narrator(self._lines.append)
        self._commands: dict[str, Callable[[list[str], dict[str, str]], None]] = {
            "topic": self._topic,
            "produce": self._produce,
            "fetch": self._fetch,
            "latest": self._latest,
            "delete": self._delete,
            "elect": self._elect,
            "reassign": self._reassign,
            "pass": self._pass,
            "show": self._show,
        }

    def take_lines(self) -> list[str]:
        """What came of the last command."""
        lines = self._lines[:]
        self._lines.clear()
        return lines

    def carry_out(self, command: Command) -> None:
        """Do what one line says."""
        if command.word == "cluster":
            self._cluster(cluster_plan(command))
        elif command.fault is not None:
            self._running.inject(command.fault)
            self._running.run_for(1)
        else:
            self._commands[command.word](list(command.plain), dict(command.named))

    @property
    def _running(self) -> World:
        assert self._world is not None
        return self._world

    # The cluster.

    def _cluster(self, plan: Plan) -> None:
        self._world = world = self._stage.build_world(plan, self._heard)
        world.add_client(self._narrator)
        world.start()
        while not self._has_formed() and world.now_ms < FORMING_MS:
            world.run_for(LOOK_EVERY_MS)
        if not self._has_formed():
            raise ConfigError(f"with these settings no cluster forms within {FORMING_MS} ms")
        world.run_for(SETTLING_MS)
        self._lines[:] = [f"brokers {', '.join(map(str, plan.broker_ids))} are unfenced"]

    def _has_formed(self) -> bool:
        image = self._running.controller_image()
        brokers = {} if image is None else image.brokers
        return len(brokers) == self._running.plan.brokers and not any(
            each.fenced for each in brokers.values()
        )

    def _heard(self, line: str) -> None:
        _, who, what, *_ = [*line.split(maxsplit=2), "", ""]
        if what.startswith("! "):
            self._lines.append(f"{who}: {what.removeprefix('! ')}")

    def _pass(self, plain: list[str], _named: dict[str, str]) -> None:
        self._running.run_for(int(plain[0]))

    def _show(self, plain: list[str], _named: dict[str, str]) -> None:
        """Every replica of a topic, from the inside."""
        (topic,) = plain
        image = self._running.controller_image()
        if image is not None and topic not in (known := image.topics_by_name):
            raise ConfigError(f"there is no topic {topic!r}; {nearest(topic, known)}")
        for machine in self._running.machines.values():
            node = machine.node
            if node is None:
                self._lines.append(f"{machine.name} is down")
                continue
            for partition in node.replicas:
                if partition.name.topic != topic:
                    continue
                role = "leads" if partition.is_leader else "follows"
                members = partition.leadership.in_sync if partition.is_leader else ()
                in_sync = f" in-sync={','.join(map(str, sorted(members)))}" if members else ""
                epochs = " ".join(
                    f"{epoch}@{start}" for epoch, start in partition.log.epochs.entries
                )
                self._lines.append(
                    f"{machine.name} {role} epoch={partition.leader_epoch}{in_sync} "
                    f"start={partition.log.start_offset} "
                    f"high-watermark={partition.high_watermark.offset} "
                    f"end={partition.log.end_offset} epochs: {epochs or 'none'}"
                )

    # Clients.

    def _topic(self, plain: list[str], named: dict[str, str]) -> None:
        replicas = _numbers(named.pop("replicas"))
        to = int(named.pop("to", "100"))
        self._narrator.create(to, plain[0], replicas, named)
        self._wait()
        self._running.run_for(SETTLING_MS)

    def _produce(self, plain: list[str], named: dict[str, str]) -> None:
        acks = {"all": -1}.get(named["acks"])
        acks = int(named["acks"]) if acks is None else acks
        self._narrator.produce(int(named["to"]), plain[0], named["values"].split(","), acks)
        self._wait()

    def _fetch(self, plain: list[str], named: dict[str, str]) -> None:
        self._narrator.fetch(int(named["from"]), plain[0], int(named["offset"]))
        self._wait()

    def _latest(self, plain: list[str], named: dict[str, str]) -> None:
        self._narrator.latest(int(named["from"]), plain[0])
        self._wait()

    def _delete(self, plain: list[str], named: dict[str, str]) -> None:
        self._narrator.delete(int(named["to"]), plain[0], int(named["before"]))
        self._wait()

    def _elect(self, _plain: list[str], named: dict[str, str]) -> None:
        self._narrator.elect(int(named.get("to", "100")))
        self._wait()

    def _reassign(self, plain: list[str], named: dict[str, str]) -> None:
        replicas = _numbers(named["replicas"])
        self._narrator.reassign(int(named.get("to", "100")), plain[0], replicas)
        self._wait()

    def _wait(self) -> None:
        """Until nothing is unanswered, or patience ends."""
        world = self._running
        end_ms = world.now_ms + PATIENCE_MS
        while self._narrator.unanswered and world.now_ms < end_ms:
            world.run_for(LOOK_EVERY_MS)
        if self._narrator.unanswered:
            self._lines.append("no answer yet")
        elif world.now_ms < end_ms - PATIENCE_MS + LOOK_EVERY_MS:
            world.run_for(LOOK_EVERY_MS)


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]
