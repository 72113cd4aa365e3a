"""Every way a small quorum can go: all interleavings of messages, timeouts and restarts.

What is on its way arrives at any time, in any order, or never; any timeout fires at any moment, any
voter restarts at any moment. What is bounded is how often voters lose patience, restart, see their
connection close, get a message twice, and write: see `Scope`.

States that look the same are looked at once. Voters are not taken for one another, and no order of
steps for another. A message is forgotten when it can have no effect any more, whatever comes:

- a question of an epoch that its receiver has left, when the answer has none either: it would be
  refused and change nothing;
- an answer to somebody who leads the epoch, unless it tells of a later one;
- an answer to a question of an epoch that who asked it has left, unless it tells of the epoch that
  this one is in, or a later one. Where a scope has no gossip, such news are lost too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.quorum.exploration.behaviour import Behaviour, Outcome, VoterStopped
from tests.quorum.exploration.ghost import Ghost, RuleBroken, first_ghost
from tests.quorum.exploration.happenings import (
    Happening,
    HungUp,
    Restarted,
    Synced,
    TimePassed,
    VotersChanged,
    Written,
)
from tests.quorum.exploration.scope import Budget, Scope
from tests.quorum.exploration.telling import told


class State(NamedTuple):
    """A world of voters at one moment; all but the budget are numbers of what they stand for."""

    voters: tuple[int, ...]
    network: tuple[int, ...]
    ghost: int
    left: Budget


class Move(NamedTuple):
    """Something that may happen next to one of the voters."""

    node_id: int
    happening: Happening
    message: int | None
    """The number of the message, if it is one."""
    network: tuple[int, ...]
    """What is on its way meanwhile."""
    left: Budget


class Found(NamedTuple):
    """Where the search has been."""

    states: int
    steps: int
    depth: int
    """So many steps it takes to the state that is farthest from the first."""
    worlds: frozenset[tuple[int, ...]]
    """The voters of all states, whatever was on its way between them."""


class CounterExample(Exception):
    """What must not happen, and the shortest way there."""


class Search:
    """Breadth first, so that what is found is found the short way."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.behaviour = Behaviour(scope.rules)
        self._came_from: dict[State, tuple[State, Move] | None] = {}
        self._ghosts: list[Ghost] = []
        self._ghost_numbers: dict[Ghost, int] = {}

    def run(self, states_most: int | None = None) -> Found:
        """Look at every state in the scope; CounterExample when a rule is broken."""
        first = self._first()
        self._came_from = {first: None}
        frontier, steps, depth = [first], 0, 0
        while frontier and (states_most is None or len(self._came_from) < states_most):
            reached = []
            for state in frontier:
                for move in self._moves(state):
                    after = self._after(state, move)
                    steps += 1
                    if after not in self._came_from:
                        self._came_from[after] = state, move
                        reached.append(after)
            frontier = reached
            depth += bool(reached)
        worlds = frozenset(state.voters for state in self._came_from)
        return Found(len(self._came_from), steps, depth, worlds)

    def _first(self) -> State:
        voters, sent = self.scope.opening(self.behaviour)
        ghost = first_ghost([self.behaviour.seen[each] for each in voters])
        return State(voters, self._alive(sent, voters), self._number(ghost), self.scope.budget)

    def _number(self, ghost: Ghost) -> int:
        number = self._ghost_numbers.setdefault(ghost, len(self._ghosts))
        if number == len(self._ghosts):
            self._ghosts.append(ghost)
        return number

    # Steps

    def _moves(self, state: State) -> Iterator[Move]:
        left = state.left
        for number in state.network:
            to, happening = self.behaviour.messages[number]
            others = tuple(other for other in state.network if other != number)
            yield Move(to, happening, number, others, left)
            if left.repeats:
                fewer = left._replace(repeats=left.repeats - 1)
                yield Move(to, happening, number, state.network, fewer)
        for node_id in range(1, len(state.voters) + 1):
            for happening, fewer in self._choices(node_id, state):
                yield Move(node_id, happening, None, state.network, fewer)

    def _choices(self, node_id: int, state: State) -> Iterator[tuple[Happening, Budget]]:
        """What may happen to a voter without a message, and what may happen after that."""
        left, scope = state.left, self.scope
        seen = self.behaviour.seen[state.voters[node_id - 1]]
        if seen.is_syncing:
            yield Synced(), left
        if left.timeouts and seen.stands_in_ms is not None and node_id in scope.impatient:
            yield TimePassed(seen.stands_in_ms), left._replace(timeouts=left.timeouts - 1)
        if left.restarts and node_id in scope.fallible:
            yield Restarted(scope.power_fails), left._replace(restarts=left.restarts - 1)
        if left.hang_ups and seen.role == "follower":
            yield HungUp(), left._replace(hang_ups=left.hang_ups - 1)
        if left.writes and seen.is_active:
            yield Written(f"record {left.writes}"), left._replace(writes=left.writes - 1)
        if left.changes and seen.role == "leader":
            fewer = left._replace(changes=left.changes - 1)
            yield from ((VotersChanged(change), fewer) for change in scope.changes)

    def _after(self, state: State, move: Move) -> State:
        seen, place, ghost = self.behaviour.seen, move.node_id - 1, state.ghost
        try:
            outcome = self._outcome(state.voters[place], move)
            voters = *state.voters[:place], outcome.voter, *state.voters[place + 1 :]
            before, after = seen[state.voters[place]], seen[outcome.voter]
            if before is not after or outcome.vote is not None:
                world = tuple(seen[each] for each in voters)
                fresh = isinstance(move.happening, Restarted)
                past = self._ghosts[ghost].after(world, before, after, outcome.vote, fresh)
                ghost = self._number(past)
                if self.scope.rule is not None:
                    self.scope.rule(world)
        except (VoterStopped, RuleBroken) as broken:
            raise self._counter_example(state, move, broken) from broken
        return State(voters, self._alive((*move.network, *outcome.sent), voters), ghost, move.left)

    def _outcome(self, voter: int, move: Move) -> Outcome:
        if move.message is not None:
            return self.behaviour.delivered(voter, move.message)
        return self.behaviour.meets(voter, move.happening)

    def _alive(self, network: Iterable[int], voters: tuple[int, ...]) -> tuple[int, ...]:
        """The messages that may still have an effect."""
        behaviour, cut, gossip = self.behaviour, self.scope.cut, self.scope.rules.gossip
        alive = set()
        for number in network:
            sender, to, asked_in, answered_in = behaviour.routes[number]
            receiver = behaviour.seen[voters[to - 1]]
            if answered_in is None:
                asker = behaviour.seen[voters[sender - 1]]
                matters = gossip or asked_in >= receiver.epoch or asked_in == asker.epoch
            elif receiver.role == "leader":
                matters = answered_in > receiver.epoch and (gossip or asked_in == receiver.epoch)
            elif asked_in < receiver.epoch:
                matters = answered_in >= receiver.epoch and gossip
            else:
                matters = True
            if matters and not (cut and frozenset((sender, to)) in cut):
                alive.add(number)
        return tuple(sorted(alive))

    def _counter_example(self, state: State, move: Move, why: Exception) -> CounterExample:
        lines = [f"  {move.node_id} {told(move.happening)}"]
        came = self._came_from[state]
        while came is not None:
            state, move = came
            lines.append(f"  {move.node_id} {told(move.happening)}")
            came = self._came_from[state]
        return CounterExample("\n".join([f"{why}, after", *reversed(lines)]))
