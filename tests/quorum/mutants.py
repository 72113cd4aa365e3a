"""Guards of the quorum, each with a way to take it out, and the search that must notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from tests.quorum.exploration.scope import Scope
from tests.quorum.exploration.scopes import (
    A_RESTART,
    AN_OLD_RECORD,
    CUT_OFF_FROM_THE_LEADER,
    ONE_WAS_AWAY,
    SLOW_SYNCS,
    TWO_CANDIDATES,
    TWO_VOTERS,
    VOTERS_GO,
)

from tidelog.model.time import Now
from tidelog.quorum import quorum, quorum_state
from tidelog.quorum.election_state import ElectionState, read_election_state
from tidelog.quorum.elections import Elections
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import LogEnd
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.roles import Candidate, EpochElection, Follower, Prospective
from tidelog.quorum.voters import NOT_IN_LOG, VoterSet, changed_voters


class Mutant(NamedTuple):
    """A guard that is gone."""

    name: str
    owner: Any
    attribute: str
    instead: Any
    scope: Scope
    fires: str
    """What the search then finds broken."""


def _without_the_vote(*args: Any, **options: Any) -> ElectionState:
    stored = read_election_state(*args, **options)
    return ElectionState(stored.epoch, stored.leader_id)


def _count_copies(leader: Leader) -> bool:
    """Records of earlier epochs are committed by counting them too."""
    held = sorted(map(leader.end_offset_of, leader._members), reverse=True)
    moved = held[len(held) // 2] > leader.high_watermark
    leader.high_watermark = max(leader.high_watermark, held[len(held) // 2])
    return moved


_look_at: Final = Elections._look_at


def _campaign_at_once(elections: Elections[Any], role: Prospective | Candidate, now: Now) -> None:
    if isinstance(role, Prospective):
        elections._become_candidate(now)
    else:
        _look_at(elections, role, now)


def _change_as_if_committed(voters: VoterSet, *others: Any) -> Any:
    return changed_voters(replace(voters, written_at=NOT_IN_LOG), *others)


MUTANTS: Final = (
    Mutant(
        "votes are forgotten in a restart",
        quorum_state,
        "read_election_state",
        _without_the_vote,
        TWO_CANDIDATES,
        "C2",
    ),
    Mutant("any log will do", LogEnd, "__lt__", lambda _, __: False, ONE_WAS_AWAY, "C3"),
    Mutant(
        "the own vote is enough",
        EpochElection,
        "is_won",
        property(lambda election: len(election.granting) > 0),
        TWO_VOTERS,
        "C1",
    ),
    Mutant(
        "copies of old records are counted",
        Leader,
        "_high_watermark_moved",
        _count_copies,
        AN_OLD_RECORD,
        "C4",
    ),
    Mutant(
        "fetches promise what is not synced",
        Quorum,
        "_must_sync",
        property(lambda _: False),
        SLOW_SYNCS,
        "C5",
    ),
    Mutant(
        "a leader goes on without a majority",
        Leader,
        "has_lost_the_majority",
        lambda *_: False,
        A_RESTART,
        "C8",
    ),
    Mutant(
        "followers of a live leader grant pre-votes",
        Follower,
        "grants_pre_vote",
        lambda _: True,
        CUT_OFF_FROM_THE_LEADER,
        "deposed",
    ),
    Mutant(
        "nobody asks for pre-votes",
        Elections,
        "_look_at",
        _campaign_at_once,
        CUT_OFF_FROM_THE_LEADER,
        "deposed",
    ),
    Mutant(
        "voters change while another change is not committed",
        quorum,
        "changed_voters",
        _change_as_if_committed,
        VOTERS_GO,
        "C7",
    ),
)
