"""How voters behave, worked out once: a voter and what happens to it give the voter it is then.

A voter is known by a number. Behind the number stand what is seen of it and one way to get there;
to learn what else may come of it, a machine is led that way again.

Invariant  The same voter, to which the same happens, becomes the same voter and says the same: so
           a world of voters is a tuple of numbers, and most of its steps are looked up.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.quorum.exploration.happenings import (
    Answered,
    Asked,
    FetchAnswered,
    FetchAsked,
    Happening,
    Message,
)
from tests.quorum.exploration.machine import Machine
from tests.quorum.exploration.scope import Rules
from tests.quorum.exploration.seen import Seen

from tidelog.model.errors import InvariantBroken, TidelogError
from tidelog.quorum.messages import Vote

LIVE_MACHINES: Final = 2_000
"""So many machines are kept where they are, for the next time that they are needed there."""


class VoterStopped(Exception):
    """The voter found something that it must not go on with."""


class Route(NamedTuple):
    """Where a message comes from, and what it is about."""

    sender: int
    to: int
    asked_in: int
    """The epoch of the question."""
    answered_in: int | None
    """The epoch of the answer; None when it is a question."""


class Outcome(NamedTuple):
    """What came of a happening."""

    voter: int
    sent: tuple[int, ...]
    """The numbers of messages."""
    vote: Vote | None = None
    """The question that got this voter's vote."""


class Behaviour:
    """All voters and messages that were met so far, by number, and all that is known of them."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.seen: list[Seen] = []
        self.messages: list[Message] = []
        self.routes: list[Route] = []
        """For each message who it is from and to, and what it is about."""
        self._voter_numbers: dict[Seen, int] = {}
        self._message_numbers: dict[Message, int] = {}
        self._ways: list[tuple[int, Happening] | int] = []
        self._outcomes: dict[tuple[int, Happening], Outcome] = {}
        self._deliveries: dict[tuple[int, int], Outcome] = {}
        self._live: dict[int, Machine] = {}

    def first(self, node_id: int) -> int:
        """A voter that starts for the first time."""
        return self._known(Machine(node_id, self.rules), node_id)

    def number_of(self, message: Message) -> int:
        number = self._message_numbers.setdefault(message, len(self.messages))
        if number == len(self.messages):
            self.messages.append(message)
            self.routes.append(_route(message))
        return number

    def delivered(self, voter: int, message: int) -> Outcome:
        """A message arrives: as `meets`, and known by the number of the message."""
        outcome = self._deliveries.get((voter, message))
        if outcome is None:
            outcome = self.meets(voter, self.messages[message].happening)
            self._deliveries[voter, message] = outcome
        return outcome

    def meets(self, voter: int, happening: Happening) -> Outcome:
        """Something happens to a voter."""
        outcome = self._outcomes.get((voter, happening))
        if outcome is None:
            machine = self._machine(voter)
            try:
                messages = machine.meets(happening)
            except (InvariantBroken, TidelogError) as stopped:
                raise VoterStopped(f"{type(stopped).__name__}: {stopped}") from stopped
            sent = tuple(sorted(map(self.number_of, messages)))
            vote = _vote_in(happening, messages)
            outcome = Outcome(self._known(machine, (voter, happening)), sent, vote)
            self._outcomes[voter, happening] = outcome
        return outcome

    def _known(self, machine: Machine, way: tuple[int, Happening] | int) -> int:
        seen = machine.seen()
        number = self._voter_numbers.setdefault(seen, len(self.seen))
        if number == len(self.seen):
            self.seen.append(seen)
            self._ways.append(way)
            if len(self._live) < LIVE_MACHINES:
                self._live[number] = machine
        return number

    def _machine(self, voter: int) -> Machine:
        """A machine that is this voter, which is the caller's to use up."""
        live = self._live.pop(voter, None)
        if live is not None:
            return live
        happened: list[Happening] = []
        way = self._ways[voter]
        while not isinstance(way, int):
            happened.append(way[1])
            way = self._ways[way[0]]
        machine = Machine(way, self.rules)
        for each in reversed(happened):
            machine.meets(each)
        return machine


def _vote_in(happening: Happening, messages: tuple[Message, ...]) -> Vote | None:
    if not isinstance(happening, Asked):
        return None
    question = happening.sent.request
    if not isinstance(question, Vote) or question.pre_vote:
        return None
    granted = any(
        isinstance(said.happening, Answered) and said.happening.answer.granted for said in messages
    )
    return question if granted else None


def _route(message: Message) -> Route:
    to, happening = message
    match happening:
        case Asked(sender, sent):
            return Route(sender, to, sent.request.epoch, None)
        case FetchAsked(sender, asked):
            return Route(sender, to, asked.leader_epoch, None)
        case Answered(sent, answer):
            return Route(sent.to.voter_id, to, sent.request.epoch, answer.epoch)
        case FetchAnswered(sender, asked, fetched):
            return Route(sender, to, asked.leader_epoch, fetched.leader_epoch)
        case _:
            raise AssertionError(f"{happening} is no message")
