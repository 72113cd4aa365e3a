"""The rules on who reads what.

G3  no partition has two readers at once
G4  in the end every partition has one

"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.coordinator.internal_topics import OFFSETS_TOPIC
from tidelog.simulator.clients.groups import GroupMember
from tidelog.simulator.rules.ghost import Ghost
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import ClientActed, Happening
from tidelog.simulator.world.world import World


class GroupRules:
    """Compares what the members of a group think that they read."""

    def __init__(self, world: World, ghost: Ghost, members: Sequence[GroupMember]) -> None:
        self._world = world
        self._ghost = ghost
        self._members = members
        self._group = members[0].group
        self._topic = members[0].topic

    def watch(self) -> None:
        """Judge from now on."""
        self._world.observers.append(self._look)
        self._world.expect("G4", self._readers)

    def _look(self, _world: World, happening: Happening) -> None:
        if not isinstance(happening, ClientActed):
            return
        readers: dict[int, str] = {}
        for member in self._members:
            for index in member.reads:
                other = readers.setdefault(index, member.name)
                if other != member.name and not self._ghost.has_lost(OFFSETS_TOPIC, self._group):
                    both = f"{other} and {member.name}"
                    raise Violation("G3", f"{both} both read partition {index}")

    def _readers(self) -> str | None:
        image = self._world.controller_image()
        topic = None if image is None else image.topics_by_name.get(self._topic)
        if topic is None:
            return f"{self._topic} is not there"
        read = sorted(index for member in self._members for index in member.reads)
        wanted = sorted(topic.partitions)
        if read == wanted:
            return None
        return f"{len(read)} of {len(wanted)} partitions are read by {self._group}"
