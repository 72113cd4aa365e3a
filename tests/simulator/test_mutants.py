"""Take out each guard of the protocol in turn: the rules must notice within a few seeds.

A mutant that lives means that a rule is too weak or that the clients do too little.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from tests.simulator.mutants import MUTANTS, Mutant

from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.run.runner import run_seed
from tidelog.simulator.run.transcript import replay
from tidelog.simulator.scenarios import scenario_text

pytestmark = pytest.mark.long

SEEDS_MOST: Final = 20
"""So many seeds are tried at most, the run that is known to show it first."""


def violation_in_story(name: str) -> Violation | None:
    try:
        replay(scenario_text(name))
    except Violation as found:
        return found
    return None


def violations(mutant: Mutant) -> Iterator[Violation | None]:
    """What the runs that are tried find, one after the other."""
    if mutant.story:
        yield violation_in_story(mutant.story)
    seeds = [*([] if mutant.seed is None else [mutant.seed]), *range(1, SEEDS_MOST)]
    for seed in seeds:
        yield run_seed(
            seed, controllers=mutant.controllers, directories=mutant.directories
        ).violation


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_missing_guard_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, attribute, instead in mutant.patches:
        assert hasattr(owner, attribute)
        monkeypatch.setattr(owner, attribute, instead)

    assert any(
        violation is not None and mutant.rule in ("", violation.rule)
        for violation in violations(mutant)
    )


@pytest.mark.parametrize(
    ("seed", "controllers", "directories"),
    sorted(
        {
            (each.seed, each.controllers, each.directories)
            for each in MUTANTS
            if each.seed is not None
        }
    ),
)
def test_with_all_guards_the_same_seeds_end_well(
    seed: int, controllers: int, directories: int
) -> None:
    assert run_seed(seed, controllers=controllers, directories=directories).violation is None


@pytest.mark.parametrize("story", sorted({each.story for each in MUTANTS if each.story}))
def test_with_all_guards_the_same_stories_end_well(story: str) -> None:
    assert violation_in_story(story) is None
