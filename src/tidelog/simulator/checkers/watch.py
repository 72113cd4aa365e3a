"""All rules at work on one world."""

from __future__ import annotations

from tidelog.simulator.checkers.ghost import Ghost
from tidelog.simulator.checkers.liveness_rules import LivenessRules
from tidelog.simulator.checkers.metadata_rules import MetadataRules
from tidelog.simulator.checkers.promise_rules import PromiseRules
from tidelog.simulator.checkers.replica_rules import ReplicaRules
from tidelog.simulator.happenings import ClientActed, Happening, Started, Stepped
from tidelog.simulator.workload import Workload
from tidelog.simulator.world import World


def watch(world: World, workload: Workload) -> Ghost:
    """Judge everything that happens from now on."""
    ghost = Ghost()
    replicas = ReplicaRules(world, ghost)
    metadata = MetadataRules(world, ghost, replicas.control_changed)
    promises = PromiseRules(ghost, workload.history)

    def look(_world: World, happening: Happening) -> None:
        if isinstance(happening, Started | Stepped):
            metadata.look_at(happening.machine)
            replicas.look_at(happening.machine)
        elif isinstance(happening, ClientActed):
            promises.judge_fresh()

    world.observers.append(look)
    LivenessRules(world, ghost, workload, promises).expect()
    return ghost
