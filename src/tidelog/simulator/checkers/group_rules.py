"""The rules on groups.

G1  an offset that was promised is told ever after, or a later one
G2  no offset is told that nobody committed
G3  no partition has two readers at once
G4  in the end every partition has one

"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.coordinator.internal_topics import OFFSETS_TOPIC
from tidelog.simulator.checkers.ghost import Ghost
from tidelog.simulator.happenings import ClientActed, Happening
from tidelog.simulator.violation import Violation
from tidelog.simulator.workload_groups import GROUP, Committer, Member
from tidelog.simulator.world import World


class GroupRules:
    """Compares what members and a committer were told with each other."""

    def __init__(
        self, world: World, ghost: Ghost, members: Sequence[Member], committer: Committer
    ) -> None:
        self._world = world
        self._ghost = ghost
        self._members = members
        self._committer = committer

    def watch(self) -> None:
        """Judge from now on."""
        self._world.observers.append(self._look)
        self._world.expect("G4", self._readers)

    def _look(self, _world: World, happening: Happening) -> None:
        if isinstance(happening, ClientActed):
            self._judge_reads()
            self._judge_owners()

    def _judge_reads(self) -> None:
        committer = self._committer
        while committer.reads:
            told, least, most = committer.reads.pop()
            if told in committer.uncertain or self._is_forgiven(committer.group):
                continue
            if told < least:
                raise Violation("G1", f"{least} was promised, and {told} was told")
            if told > most:
                raise Violation("G2", f"{told} was told, and {most} was the last that was tried")

    def _judge_owners(self) -> None:
        owners: dict[object, str] = {}
        for member in self._members:
            for place in member.owned:
                other = owners.setdefault(place, member.name)
                if other != member.name and not self._is_forgiven(GROUP):
                    both = f"{other} and {member.name}"
                    raise Violation("G3", f"{both} both read partition {place[1]}")

    def _readers(self) -> str | None:
        image = self._world.controller_image()
        topic = None if image is None else image.topics_by_name.get(self._members[0].topic)
        if topic is None:
            return f"{self._members[0].topic} is not there"
        owned = sorted(place for member in self._members for place in member.owned)
        wanted = sorted((topic.topic_id, index) for index in topic.partitions)
        return None if owned == wanted else f"{len(owned)} of {len(wanted)} partitions are read"

    def _is_forgiven(self, group: str) -> bool:
        return self._ghost.has_lost(OFFSETS_TOPIC, group)
