"""The rules on copiers, which read and write in one transaction.

X1  in the end every input is in the output, once and in its order
X2  what a group has committed never steps back
X3  nobody is told an offset whose transaction was not asked to commit

What the copies themselves promise is judged by the rules on transactions.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.coordinator.internal_topics import OFFSETS_TOPIC
from tidelog.model.ids import TopicPartition
from tidelog.simulator.clients.copier import SEPARATOR, Copier
from tidelog.simulator.clients.copier_member import COPIERS
from tidelog.simulator.clients.copy_auditor import CopyAuditor, ToldOffset
from tidelog.simulator.rules.ghost import Ghost
from tidelog.simulator.rules.transaction_verdicts import TransactionVerdicts
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import ClientActed, Happening
from tidelog.simulator.world.world import World


class CopyRules:
    """Compares the input with the output, and what the group has committed with both."""

    def __init__(
        self,
        world: World,
        ghost: Ghost,
        copiers: Sequence[Copier],
        auditor: CopyAuditor,
    ) -> None:
        self._world = world
        self._ghost = ghost
        self._copiers = copiers
        self._auditor = auditor
        self._places = copiers[0].places
        self._verdicts = {name: TransactionVerdicts(name) for pair in self._places for name in pair}

    def watch(self) -> None:
        """Judge from now on."""
        self._world.observers.append(self._look)
        self._world.expect("X1", self._copies)

    def _look(self, _world: World, happening: Happening) -> None:
        if not isinstance(happening, ClientActed):
            return
        while self._auditor.fresh:
            self._judge(self._auditor.fresh.pop())

    def _judge(self, told: ToldOffset) -> None:
        if self._has_lost_offsets():
            return
        if told.offset < told.least:
            what = f"{told.least} of {told.partition} was committed by the group"
            raise Violation("X2", f"{what}, and then {told.offset} was told")
        if told.offset and not any(
            transaction.has_asked_to_commit
            and transaction.offsets.get(told.partition) == told.offset
            for copier in self._copiers
            for transaction in copier.transactions
        ):
            what = f"{told.offset} of {told.partition} was told as committed"
            raise Violation("X3", f"{what}, and nobody has asked to commit that")

    def _copies(self) -> str | None:
        if self._has_lost_offsets():
            return None
        for copier in self._copiers:
            if not copier.is_idle:
                return f"{copier.name} is not done"
        for pair in self._places:
            values = [self._visible(name) for name in pair]
            if values[0] is None or values[1] is None:
                continue
            given, copied = values[0], [copy.split(SEPARATOR)[0] for copy in values[1]]
            if copied != given[: len(copied)]:
                raise Violation("X1", f"{pair[0]} is {_text(given)}, its copy {_text(copied)}")
            if len(copied) < len(given):
                return f"{len(copied)} of {len(given)} records of {pair[0]} are copied"
        return None

    def _visible(self, name: TopicPartition) -> list[bytes] | None:
        """What a reader of committed records gets; None when too many disks went to say."""
        ghost = self._ghost.by_name(name)
        if ghost is None or ghost.is_murky or ghost.forgiven:
            return None
        verdicts = self._verdicts[name]
        verdicts.follow(ghost)
        return [value for _, value in sorted(verdicts.visible.items())]

    def _has_lost_offsets(self) -> bool:
        return self._ghost.has_lost(OFFSETS_TOPIC, COPIERS)


def _text(values: Sequence[bytes]) -> str:
    return ", ".join(value.decode() for value in values)
