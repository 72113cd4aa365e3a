"""Who has been asked, who has answered, and whom to ask again.

Invariant  A voter counts once in an election, with its first answer.
"""

from __future__ import annotations

from collections.abc import Iterable


class Reminders:
    """Voters that are asked until they answer; at most one question to each is under way."""

    def __init__(self, voter_ids: Iterable[int], now_ms: int) -> None:
        self._due = dict.fromkeys(voter_ids, now_ms)
        self._under_way: set[int] = set()

    @property
    def due_ms(self) -> int | None:
        """When somebody is to be asked."""
        waiting = self._due.keys() - self._under_way
        return min((self._due[voter_id] for voter_id in waiting), default=None)

    @property
    def are_done(self) -> bool:
        """Whether everybody has answered."""
        return not self._due

    def take_due(self, now_ms: int) -> list[int]:
        """Whom to ask now."""
        due = [
            voter_id
            for voter_id, due_ms in sorted(self._due.items())
            if due_ms <= now_ms and voter_id not in self._under_way
        ]
        self._under_way.update(due)
        return due

    def answered(self, voter_id: int) -> None:
        """No need to ask again."""
        self._due.pop(voter_id, None)
        self._under_way.discard(voter_id)

    def unanswered(self, voter_id: int, again_ms: int) -> None:
        """The question was lost."""
        if voter_id in self._due:
            self._due[voter_id] = again_ms
            self._under_way.discard(voter_id)


class Tally:
    """The votes of one election, in which this node votes for itself."""

    def __init__(self, own_id: int, voter_ids: Iterable[int], now_ms: int) -> None:
        self._voter_ids = frozenset(voter_ids)
        self._granted = {own_id} & self._voter_ids
        self._rejected: set[int] = set()
        self.reminders = Reminders(sorted(self._voter_ids - {own_id}), now_ms)

    @property
    def granting(self) -> tuple[int, ...]:
        """Who voted for this node."""
        return tuple(sorted(self._granted))

    @property
    def is_won(self) -> bool:
        return len(self._granted) > len(self._voter_ids) // 2

    @property
    def is_lost(self) -> bool:
        """Whether the votes still to come cannot make a majority."""
        return len(self._voter_ids) - len(self._rejected) <= len(self._voter_ids) // 2

    def counted(self, voter_id: int, *, granted: bool) -> None:
        """A voter has answered."""
        self.reminders.answered(voter_id)
        if voter_id in self._voter_ids and voter_id not in self._granted | self._rejected:
            (self._granted if granted else self._rejected).add(voter_id)
