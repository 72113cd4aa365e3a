"""The table of transitions, cell by cell: each that is in it happens, and no other may."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

import pytest
from tests.quorum.voter_bench import GRANTED, REFUSED, VoterBench

from tidelog.model.errors import InvariantBroken
from tidelog.quorum import quorum_state
from tidelog.quorum.leader import Leader
from tidelog.quorum.quorum_state import TRANSITIONS, RoleType, Trigger
from tidelog.quorum.roles import Candidate, Follower, Prospective, Resigned, Unattached

Act: TypeAlias = Callable[[VoterBench], object]


def is_encouraged(bench: VoterBench) -> None:
    bench.answer(bench.stand()[0], GRANTED)


def follows(bench: VoterBench) -> None:
    bench.follow(2, 5)


def has_resigned(bench: VoterBench) -> None:
    bench.win()
    bench.elections.resign(bench.now)


BECOMES: Final[Mapping[RoleType, Act]] = MappingProxyType(
    {
        Unattached: lambda bench: None,
        Prospective: VoterBench.wait_until_due,
        Candidate: is_encouraged,
        Leader: VoterBench.win,
        Follower: follows,
        Resigned: has_resigned,
    }
)
"""How a new voter gets to each role."""


def hears_of_a_later_epoch(bench: VoterBench) -> None:
    bench.ask_vote(2, 9, pre_vote=True)


def hears_of_a_leader(bench: VoterBench) -> None:
    bench.follow(3, 9)


def waits(bench: VoterBench) -> None:
    bench.wait(bench.quorum.role.due_ms - bench.now.monotonic_ms)


def loses_its_vote(bench: VoterBench) -> None:
    bench.voters_become(2, 3)
    waits(bench)


def is_refused(bench: VoterBench) -> None:
    for asked in bench.requests():
        bench.answer(asked, REFUSED)


def is_granted(bench: VoterBench) -> None:
    bench.answer(bench.requests()[0], GRANTED)


def loses_its_vote_and_its_leader(bench: VoterBench) -> None:
    bench.voters_become(2, 3)
    bench.elections.leader_disconnected(bench.now)


def resigns(bench: VoterBench) -> None:
    bench.elections.resign(bench.now)


MAKES: Final[Mapping[Trigger, Act]] = MappingProxyType(
    {
        Trigger.LATER_EPOCH: hears_of_a_later_epoch,
        Trigger.LEADER_FOUND: hears_of_a_leader,
        Trigger.TIMED_OUT: waits,
        Trigger.NO_SUCCESSOR: waits,
        Trigger.NOT_A_VOTER: loses_its_vote,
        Trigger.PRE_VOTES_WON: is_granted,
        Trigger.PRE_VOTES_LOST: is_refused,
        Trigger.LEADER_KEPT: is_refused,
        Trigger.VOTES_WON: is_granted,
        Trigger.LEADER_DISCONNECTED: loses_its_vote_and_its_leader,
        Trigger.RESIGNED: resigns,
    }
)
"""What pulls each trigger."""

LEGAL: Final = [(role, on) for role, moves in TRANSITIONS.items() for on in moves]


def named(value: object) -> str:
    return value.name.lower() if isinstance(value, Trigger) else getattr(value, "name", "")


def voter_that_is(role: RoleType, *, of_a_leader: bool = False) -> VoterBench:
    bench = VoterBench()
    if of_a_leader:
        follows(bench)
    BECOMES[role](bench)
    assert type(bench.quorum.role) is role
    return bench


@pytest.mark.parametrize(("role", "on"), LEGAL, ids=named)
def test_every_legal_transition_happens(role: RoleType, on: Trigger) -> None:
    bench = voter_that_is(role, of_a_leader=on is Trigger.LEADER_KEPT)
    MAKES[on](bench)
    assert bench.quorum.state.entered_on is on
    assert type(bench.quorum.role) is TRANSITIONS[role][on]


@pytest.mark.parametrize("role", TRANSITIONS, ids=named)
def test_any_other_transition_stops_the_node(role: RoleType) -> None:
    bench = voter_that_is(role)
    before = bench.quorum.role
    others = {to: voter_that_is(to).quorum.role for to in TRANSITIONS}
    for on, to in product(Trigger, TRANSITIONS):
        if TRANSITIONS[role].get(on) is not to:
            with pytest.raises(InvariantBroken, match="does not become"):
                bench.quorum.state.become(others[to], on)
    assert bench.quorum.role is before


@pytest.mark.parametrize(
    ("role", "on", "epoch"),
    [
        (Unattached, Trigger.LATER_EPOCH, 3),
        (Unattached, Trigger.LATER_EPOCH, 2),
        (Follower, Trigger.NOT_A_VOTER, 6),
        (Follower, Trigger.NOT_A_VOTER, 4),
        (Resigned, Trigger.NO_SUCCESSOR, 4),
        (Resigned, Trigger.NOT_A_VOTER, 5),
    ],
)
def test_an_epoch_that_does_not_fit_the_transition_stops_the_node(
    role: RoleType, on: Trigger, epoch: int
) -> None:
    with pytest.raises(InvariantBroken, match="does not follow on"):
        voter_that_is(role).quorum.state.become(Unattached(epoch, 0), on)


def test_the_transitions_are_written_down_as_they_are() -> None:
    """In the docstring of the table, and as the picture in docs/quorum.md."""
    expected = {
        (role.__name__, on.name, to.__name__)
        for role, moves in TRANSITIONS.items()
        for on, to in moves.items()
    }
    assert transitions_in_docstring() == expected
    assert transitions_in_picture() == expected


def transitions_in_docstring() -> set[tuple[str, str, str]]:
    """Of rows `role  TRIGGER, TRIGGER  role`; a row without a role goes on with the last one."""
    found, role, waiting = set(), "", list[str]()
    table, _, _ = (quorum_state.__doc__ or "").partition("Invariant")
    for line in table.splitlines():
        if not line.startswith("    ") or line.split()[1] == "on":
            continue
        words = line.replace(",", " ").split()
        if not words[0].isupper():
            role = words.pop(0)
        waiting += [word for word in words if word.isupper()]
        if not words[-1].isupper():
            found |= {(role, on, words[-1]) for on in waiting}
            waiting = []
    return found


def transitions_in_picture() -> set[tuple[str, str, str]]:
    page = (Path(__file__).parents[2] / "docs" / "quorum.md").read_text()
    arrows = re.findall(r"^ +(\w+) --> (\w+): (.+)$", page, re.MULTILINE)
    return {
        (before, on.strip(), after) for before, after, label in arrows for on in label.split(",")
    }
