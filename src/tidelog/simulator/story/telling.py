"""Running a transcript, a seed or a plan under the eyes of a recorder."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.model.ids import TopicPartition
from tidelog.node.node import Node
from tidelog.simulator.clients.workload import ORDERS
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.rules.watch import watch_nodes
from tidelog.simulator.run.command_text import parse_commands
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.run.runner import SeedResult, run_plan
from tidelog.simulator.run.setup import Setup
from tidelog.simulator.run.transcript import Stage, replay
from tidelog.simulator.story.recorder import Recorder
from tidelog.simulator.world.happenings import Happening
from tidelog.simulator.world.world import NodeFactory, World


class Recording(NamedTuple):
    """What a recorder saw of a run, and the rule that it broke, if it did."""

    recorder: Recorder
    violation: Violation | None


class RecordingStage(Stage):
    """A stage with a recorder; a broken rule is part of what is told.

    Nodes of another kind than ours are not judged by our rules: what they lose is told anyway.
    """

    def __init__(
        self,
        recorder: Recorder,
        build_node: NodeFactory = Node,
    ) -> None:
        self.recorder = recorder
        self.violation: Violation | None = None
        self._build_node = build_node

    def build_world(self, plan: Plan, reader: Callable[[str], None]) -> World:
        world = World(plan, reader, self._build_node)
        self.recorder.watch(world)
        if self._build_node is not Node:
            return world
        recorders = len(world.observers)
        watch_nodes(world)
        rules = world.observers[recorders:]

        def judge(world: World, happening: Happening) -> None:
            if self.violation is not None:
                return
            try:
                for rule in rules:
                    rule(world, happening)
            except Violation as violation:
                self.violation = violation
                self.recorder.note(world, broken_rule_sentence(violation))

        world.observers[recorders:] = [judge]
        return world

    def comment(self, text: str) -> None:
        self.recorder.caption(text)


def broken_rule_sentence(violation: Violation) -> str:
    return f"A rule is broken. {violation.rule}: {violation.why}."


def record_transcript(
    text: str, partition: TopicPartition, build_node: NodeFactory = Node
) -> Recording:
    """Play a transcript to its end, whatever happens in it."""
    stage = RecordingStage(Recorder(partition), build_node)
    replay(text, stage)
    return Recording(stage.recorder, stage.violation)


def first_partition(text: str) -> TopicPartition | None:
    """Of the first topic that a transcript creates."""
    created = (each.plain[0] for each in parse_commands(text) if each.word == "topic")
    return next((TopicPartition(topic, 0) for topic in created), None)


def partition_to_watch(result: SeedResult) -> TopicPartition:
    """The partition that a broken rule names, or the first one of the workload."""
    if result.violation is not None:
        for word in result.violation.why.split():
            named = TopicPartition.from_directory(word.strip(",.:;()"))
            if named is not None:
                return named
    return TopicPartition(ORDERS, 0)


def record_plan(
    plan: Plan, partition: TopicPartition, setup: Setup
) -> tuple[Recording, SeedResult]:
    """Run a plan as `run_plan` does; a violation is its end."""
    recorder = Recorder(partition, everyday_matters=False)
    worlds: list[World] = []

    def watched(world: World) -> None:
        worlds.append(world)
        recorder.watch(world)
        setup(world)

    result = run_plan(plan, setup=watched)
    if result.violation is not None:
        recorder.note(worlds[0], broken_rule_sentence(result.violation))
    return Recording(recorder, result.violation), result
