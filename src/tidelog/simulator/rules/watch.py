"""All rules at work on one world."""

from __future__ import annotations

from tidelog.simulator.clients.workload import Workload
from tidelog.simulator.faults.faults import RestoreDisk, Wipe, WipeDirectory
from tidelog.simulator.rules.controller_rules import ControllerRules
from tidelog.simulator.rules.election_rules import ElectionRules
from tidelog.simulator.rules.ghost import Ghost
from tidelog.simulator.rules.liveness_rules import LivenessRules
from tidelog.simulator.rules.metadata_log_rules import MetadataLogRules
from tidelog.simulator.rules.metadata_rules import MetadataRules
from tidelog.simulator.rules.promise_rules import PromiseRules
from tidelog.simulator.rules.proposal_rules import ProposalRules
from tidelog.simulator.rules.replica_rules import ReplicaRules
from tidelog.simulator.rules.storage_rules import StorageRules
from tidelog.simulator.world.happenings import (
    ClientActed,
    Died,
    Happening,
    PowerGoes,
    Started,
    Stepped,
    Struck,
)
from tidelog.simulator.world.world import World


def watch_nodes(world: World) -> Ghost:
    """Judge everything that nodes do from now on."""
    ghost = Ghost()
    replicas = ReplicaRules(world, ghost)
    proposals = ProposalRules(world, ghost)
    metadata = MetadataRules(world, ghost, proposals, replicas.control_changed)
    storage = StorageRules(ghost)
    elections = ElectionRules()
    metadata_log = MetadataLogRules()
    controllers = ControllerRules()

    def look(_world: World, happening: Happening) -> None:
        if isinstance(happening, Struck):
            metadata.disturbed()
        match happening:
            case Started(machine=machine) | Stepped(machine=machine):
                storage.look_at(machine)
                elections.look_at(machine, happening)
                metadata_log.look_at(machine)
                controllers.look_at(machine)
                metadata.look_at(machine, happening)
                replicas.look_at(machine)
                proposals.look_at(machine, happening)
            case Died(machine=machine):
                metadata.disturbed()
                metadata.died(machine)
            case PowerGoes(machine=machine):
                storage.power_goes(machine)
            case Struck(fault=Wipe(node=node) | WipeDirectory(node=node)):
                storage.forget(node)
            case Struck(fault=RestoreDisk(node=node)):
                storage.forget(node)
                elections.forget(node)
                metadata_log.forget(node)
            case _:
                pass

    world.observers.append(look)
    return ghost


def watch(world: World, workload: Workload) -> Ghost:
    """Judge everything that happens from now on, and what clients are told of it."""
    ghost = watch_nodes(world)
    promises = PromiseRules(ghost, workload.history)

    def look(_world: World, happening: Happening) -> None:
        if isinstance(happening, ClientActed):
            promises.judge_fresh()

    world.observers.append(look)
    LivenessRules(world, ghost, workload, promises).expect()
    return ghost
