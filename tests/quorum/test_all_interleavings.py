"""Small quorums in every way they can go: nothing is ever broken, and a leader is always found.

`python -m tests.quorum.exploration` searches further.
"""

from __future__ import annotations

import pytest
from tests.quorum.exploration.ghost import RuleBroken
from tests.quorum.exploration.quiet import require_leaders_after, require_resignations_in
from tests.quorum.exploration.scope import Scope
from tests.quorum.exploration.scopes import SCOPES
from tests.quorum.exploration.search import CounterExample, Found, Search
from tests.quorum.mutants import MUTANTS, Mutant

pytestmark = pytest.mark.long


def searched(scope: Scope) -> Found:
    """Everything in the scope, and what comes of it when the quorum is left in peace."""
    search = Search(scope)
    found = search.run()
    require_resignations_in(search.behaviour, found.worlds)
    if not scope.changes:
        require_leaders_after(search.behaviour, found.worlds)
    return found


@pytest.mark.parametrize("name", SCOPES)
def test_no_interleaving_breaks_a_rule_and_a_leader_is_found_after_each(name: str) -> None:
    assert searched(SCOPES[name]).states > 100


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_missing_guard_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mutant.scope in SCOPES.values(), "which the same search finds nothing in otherwise"
    monkeypatch.setattr(mutant.owner, mutant.attribute, mutant.instead)
    with pytest.raises((CounterExample, RuleBroken), match=mutant.fires):
        searched(mutant.scope)
