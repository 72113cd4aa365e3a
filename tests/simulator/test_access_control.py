"""Access control in the simulator: whatever strikes, nobody is served after his permission went."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tidelog.node.api import fetch
from tidelog.node.core.authorization import Authorization
from tidelog.security.acls import AclOperation, ResourceType
from tidelog.security.authorizer import Authorizer
from tidelog.simulator.clients.guests import Guest
from tidelog.simulator.clients.workload import VAULT
from tidelog.simulator.faults.swarm import draw_plan
from tidelog.simulator.run.runner import SeedResult, run_plan
from tidelog.simulator.run.setup import standard_setup, with_access_control

pytestmark = pytest.mark.long

NOTICED_IN = (1, 3)
"""A fetch that waits while a permission goes is the rarer case."""


def run(seed: int) -> SeedResult:
    plan = with_access_control(draw_plan(seed, controllers=1))
    return run_plan(plan, setup=partial(standard_setup, with_access_control=True))


@pytest.mark.parametrize("seed", [1, 3])
def test_permissions_hold_whatever_strikes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    guests: list[Guest] = []
    begin = Guest.on_started

    def remember(self: Guest) -> None:
        guests.append(self)
        begin(self)

    monkeypatch.setattr(Guest, "on_started", remember)
    assert run(seed).violation is None
    assert len(guests) == 2
    assert all(guest.denials > 0 and guest.served_ms > 0 for guest in guests)


_judged: dict[Any, bool] = {}


def _when_it_arrives(context: Any, request: Any, _fetch: Any) -> Any:
    """A fetch that waits is judged by the rules that held when it came."""
    if request not in _judged:
        _judged[request] = context.authorization.allows(
            request, AclOperation.READ, ResourceType.TOPIC, VAULT
        )
    return lambda topic: topic != VAULT or _judged[request]


def _remembers(self: Authorizer) -> None:
    """Decisions outlive the rules that they were made by."""
    self.generation += 1


MUTANTS = [
    ("nobody is denied anything", Authorization, "allows", lambda *_, **__: True, {"A1"}),
    ("fetches that wait are not judged again", fetch, "_may_read", _when_it_arrives, {"A1"}),
    ("decisions outlive their rules", Authorizer, "_changed", _remembers, {"A1"}),
    ("rules never go", Authorizer, "remove", lambda *_: None, {"A2"}),
]


@pytest.mark.parametrize(
    ("name", "owner", "attribute", "instead", "rules"), MUTANTS, ids=[each[0] for each in MUTANTS]
)
def test_the_rules_notice_a_guard_that_is_gone(
    name: str,
    owner: Any,
    attribute: str,
    instead: Any,
    rules: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, attribute, instead)
    violation = next(filter(None, (run(seed).violation for seed in NOTICED_IN)), None)
    assert violation is not None, name
    assert violation.rule in rules
