"""What observers of a world are told, right after it happened and before anybody else knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from tidelog.node.core.effects import Effect
from tidelog.node.core.inputs import Input
from tidelog.simulator.clients.client import Client
from tidelog.simulator.faults.faults import Fault
from tidelog.simulator.world.machine import Machine


class Started(NamedTuple):
    """A process began on a machine; `machine.node` is its node, which nobody has heard of yet."""

    machine: Machine
    effects: Sequence[Effect]


class Stepped(NamedTuple):
    """A node took one step, whose effects are about to be carried out."""

    machine: Machine
    happened: Input
    effects: Sequence[Effect]
    frame: bytes = b""
    """What the network carried, when that is what happened: the node may have changed its copy."""


class PowerGoes(NamedTuple):
    """A machine is about to lose power; its disk still shows everything written."""

    machine: Machine


class Died(NamedTuple):
    """The process of a machine is gone; `lossy` says that its disk may have lost something."""

    machine: Machine
    cause: str
    lossy: bool


class ClientActed(NamedTuple):
    """A client heard of something and did what it does then."""

    client: Client
    sender: str = ""
    """Whose answer it heard, if that is what happened."""
    frame: bytes = b""


class Struck(NamedTuple):
    """A fault was let loose."""

    fault: Fault


Happening: TypeAlias = Started | Stepped | PowerGoes | Died | ClientActed | Struck
