"""Situations from which a search goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tests.quorum.exploration.behaviour import Behaviour
from tests.quorum.exploration.happenings import AllLost, Answered, Asked, TimePassed
from tests.quorum.exploration.quiet import QuietWorld
from tests.quorum.exploration.scope import Opened, Opening

from tidelog.quorum.messages import Vote


def all_new(behaviour: Behaviour) -> Opened:
    """Nobody has heard of anybody."""
    return _asking(behaviour, _new_voters(behaviour))


def led_among(*connected: int) -> Opening:
    """The connected voters have elected a leader, and hold the same log; the others are new."""

    def opening(behaviour: Behaviour) -> Opened:
        quiet = QuietWorld(behaviour, _new_voters(behaviour), connected)
        quiet.until_led()
        return _asking(behaviour, tuple(quiet.voters))

    return opening


def elected_in_turn(*elections: tuple[int, int]) -> Opening:
    """Of each pair the first was elected with the vote of the second, and nobody has fetched; what
    was said before the last election is lost."""

    def opening(behaviour: Behaviour) -> Opened:
        voters, left = list(_new_voters(behaviour)), set[int]()
        for candidate, supporter in elections:
            while behaviour.seen[voters[candidate - 1]].role != "leader":
                left = _stand(behaviour, voters, candidate, supporter)
        return Opened(tuple(voters), tuple(left))

    return opening


def standing(candidates: tuple[int, ...], supporter: int) -> Opening:
    """The supporter has told the candidates that it would vote for them, and they ask it to."""

    def opening(behaviour: Behaviour) -> Opened:
        voters, left = list(_new_voters(behaviour)), set[int]()
        for candidate in candidates:
            left |= _stand(behaviour, voters, candidate, supporter, pre_votes_only=True)
        return Opened(tuple(voters), tuple(left))

    return opening


def _new_voters(behaviour: Behaviour) -> tuple[int, ...]:
    return tuple(map(behaviour.first, range(1, behaviour.rules.voters + 1)))


def _asking(behaviour: Behaviour, voters: Iterable[int]) -> Opened:
    """The voters have just asked what they want to know."""
    outcomes = [behaviour.meets(each, AllLost()) for each in voters]
    sent = tuple(number for outcome in outcomes for number in outcome.sent)
    return Opened(tuple(outcome.voter for outcome in outcomes), sent)


def _stand(
    behaviour: Behaviour,
    voters: list[int],
    candidate: int,
    supporter: int,
    *,
    pre_votes_only: bool = False,
) -> set[int]:
    """The candidate's time is up, and only the supporter votes; what else was said."""
    ms = behaviour.seen[voters[candidate - 1]].stands_in_ms
    assert ms is not None
    outcome = behaviour.meets(voters[candidate - 1], TimePassed(ms))
    voters[candidate - 1] = outcome.voter
    on_its_way, left = deque(outcome.sent), set[int]()
    while on_its_way:
        number = on_its_way.popleft()
        to, happening = behaviour.messages[number]
        sender = behaviour.routes[number].sender
        sent = happening.sent if isinstance(happening, Asked | Answered) else None
        question = None if sent is None else sent.request
        is_heard = isinstance(question, Vote) and (question.pre_vote or not pre_votes_only)
        if {sender, to} == {candidate, supporter} and is_heard:
            outcome = behaviour.delivered(voters[to - 1], number)
            voters[to - 1] = outcome.voter
            on_its_way.extend(outcome.sent)
        else:
            left.add(number)
    return left
