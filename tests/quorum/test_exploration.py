"""The search itself: what it takes for the same is the same."""

from __future__ import annotations

from tests.quorum.exploration.behaviour import Behaviour, Outcome
from tests.quorum.exploration.happenings import Happening
from tests.quorum.exploration.machine import Machine
from tests.quorum.exploration.scope import Rules
from tests.quorum.exploration.scopes import A_RESTART
from tests.quorum.exploration.search import Search


class Twins(Behaviour):
    """Whenever a voter is met in a second way, both go on, and must stay alike."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self._twins: dict[int, Machine] = {}
        self.compared = 0

    def meets(self, voter: int, happening: Happening) -> Outcome:
        is_known = (voter, happening) in self._outcomes
        outcome = super().meets(voter, happening)
        if not is_known and (twin := self._twins.pop(voter, None)) is not None:
            sent = tuple(sorted(map(self.number_of, twin.meets(happening))))
            assert (self.seen[outcome.voter], outcome.sent) == (twin.seen(), sent)
            self.compared += 1
        return outcome

    def _known(self, machine: Machine, way: tuple[int, Happening] | int) -> int:
        known = len(self.seen)
        number = super()._known(machine, way)
        if number < known:
            self._twins[number] = machine
        return number


def test_voters_of_which_the_same_is_seen_go_on_alike_whatever_they_went_through() -> None:
    search = Search(A_RESTART)
    search.behaviour = twins = Twins(A_RESTART.rules)
    search.run()
    assert twins.compared > 100
