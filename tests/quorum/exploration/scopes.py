"""What is searched: each scope is small enough to be looked at to the end."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final
from uuid import UUID

from tests.quorum.exploration.ghost import require
from tests.quorum.exploration.openings import all_new, elected_in_turn, led_among, standing
from tests.quorum.exploration.scope import Budget, Rules, Scope
from tests.quorum.exploration.seen import Seen

from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.voters import RemoveVoter

ALL: Final = frozenset({1, 2, 3})
ONE_BATCH: Final = 1
"""As few bytes of a fetch as still bring a whole batch."""


def the_first_is_followed(world: tuple[Seen, ...]) -> None:
    """Nobody disturbs a leader that a majority hears."""
    first, second, _ = world
    led = first.role == "leader" and (second.epoch, second.leader_id) == (first.epoch, 1)
    require(led, "a voter that cannot hear the leader has deposed it")


def _remove(node_id: int) -> RemoveVoter:
    return RemoveVoter(ReplicaKey(node_id, UUID(int=node_id + 1000)))


TWO_VOTERS: Final = Scope(
    rules=Rules(2),
    budget=Budget(timeouts=2, restarts=1, repeats=1),
    opening=all_new,
    impatient=ALL,
    fallible=ALL,
)
TWO_THAT_GOSSIP: Final = Scope(
    rules=Rules(2, gossip=True), budget=Budget(timeouts=2), opening=all_new, impatient=ALL
)
FIRST_ELECTION: Final = Scope(
    rules=Rules(3), budget=Budget(timeouts=2), opening=all_new, impatient=frozenset({1, 2})
)
A_RESTART: Final = Scope(
    rules=Rules(3),
    budget=Budget(timeouts=1, restarts=1),
    opening=all_new,
    impatient=ALL,
    fallible=ALL,
)
A_REPEATED_MESSAGE: Final = Scope(
    rules=Rules(3), budget=Budget(timeouts=1, repeats=1), opening=all_new, impatient=ALL
)
TWO_CANDIDATES: Final = Scope(
    rules=Rules(3),
    budget=Budget(restarts=1),
    opening=standing((1, 3), supporter=2),
    impatient=ALL,
    fallible=ALL,
)
SLOW_SYNCS: Final = Scope(
    rules=Rules(3, slow_syncs=True),
    budget=Budget(timeouts=1, restarts=1, writes=1),
    opening=led_among(1, 2, 3),
    impatient=frozenset({3}),
    fallible=ALL,
    cut=frozenset({frozenset({1, 3})}),
    power_fails=True,
)
A_LEADER_HANGS_UP: Final = Scope(
    rules=Rules(3),
    budget=Budget(timeouts=1, hang_ups=1),
    opening=led_among(1, 2, 3),
    impatient=ALL,
)
ONE_WAS_AWAY: Final = Scope(
    rules=Rules(3),
    budget=Budget(timeouts=2, hang_ups=1),
    opening=led_among(1, 2),
    impatient=frozenset({3}),
)
AN_OLD_RECORD: Final = Scope(
    rules=Rules(3, fetch_bytes=ONE_BATCH),
    budget=Budget(timeouts=1),
    opening=elected_in_turn((1, 2), (3, 2), (1, 2)),
    impatient=frozenset({2, 3}),
)
CUT_OFF_FROM_THE_LEADER: Final = Scope(
    rules=Rules(3),
    budget=Budget(timeouts=4, writes=1),
    opening=led_among(1, 2, 3),
    impatient=frozenset({3}),
    cut=frozenset({frozenset({1, 3})}),
    rule=the_first_is_followed,
)
VOTERS_GO: Final = Scope(
    rules=Rules(3),
    budget=Budget(timeouts=1, hang_ups=1, changes=2),
    opening=led_among(1, 2, 3),
    impatient=frozenset({2}),
    changes=(_remove(2), _remove(3)),
)

SCOPES: Final = MappingProxyType(
    {
        "two voters": TWO_VOTERS,
        "two that gossip": TWO_THAT_GOSSIP,
        "first election": FIRST_ELECTION,
        "a restart": A_RESTART,
        "a repeated message": A_REPEATED_MESSAGE,
        "two candidates": TWO_CANDIDATES,
        "slow syncs": SLOW_SYNCS,
        "a leader hangs up": A_LEADER_HANGS_UP,
        "one was away": ONE_WAS_AWAY,
        "an old record": AN_OLD_RECORD,
        "cut off from the leader": CUT_OFF_FROM_THE_LEADER,
        "voters go": VOTERS_GO,
    }
)
LONG_SCOPES: Final = MappingProxyType(
    {
        "first election, all impatient": FIRST_ELECTION._replace(impatient=ALL),
        "a leader hangs up and writes": A_LEADER_HANGS_UP._replace(
            budget=Budget(timeouts=1, hang_ups=1, writes=1)
        ),
        "slow syncs, all connected": SLOW_SYNCS._replace(impatient=frozenset({3}), cut=frozenset()),
        "two voters, three timeouts": TWO_VOTERS._replace(
            budget=Budget(timeouts=3, restarts=1, repeats=1)
        ),
    }
)
"""Too much for the tests."""
