"""What a group was asked to commit and to forget, and what it told of that.

Invariant  Every attempt to commit has a number of its own, so that whoever is told an offset knows
           which attempt is stored.
Invariant  Moments are counted, not measured: of two things that clients do or hear, one is first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition

NOTHING: Final = -1
"""The offset of a partition of which nothing is stored."""
NEVER: Final = 1 << 62

REFUSALS: Final = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_instance_id,
        ErrorCode.rebalance_in_progress,
        ErrorCode.non_empty_group,
        ErrorCode.group_id_not_found,
        ErrorCode.group_subscribed_to_topic,
        ErrorCode.coordinator_load_in_progress,
    }
)
"""Answers after which nothing comes of a question any more."""


class Membership(NamedTuple):
    """On whose behalf something is committed."""

    member_id: str
    instance_id: str | None
    generation: int
    known_since: int
    """When the member knew of its generation."""


NOBODY: Final = Membership("", None, -1, 0)


class Outcome(Enum):
    """What became of a question, as far as anybody knows."""

    OPEN = "open"
    """It may have been done, or be done at any time."""
    DONE = "done"
    REFUSED = "refused"


@dataclass(slots=True)
class Asked:
    """A question that changes something, between two moments."""

    asked: int
    answered: int = NEVER
    """When it was known to be done or refused."""
    outcome: Outcome = Outcome.OPEN


@dataclass(slots=True, kw_only=True)
class Commit(Asked):
    """An attempt to commit its own number."""

    number: int
    by: Membership


@dataclass(slots=True, kw_only=True)
class Deletion(Asked):
    """The group is to go with all its offsets, or the offset of one partition."""

    partition: TopicPartition | None

    def may_touch(self, partition: TopicPartition | None) -> bool:
        """Whether it takes the offset of a partition, or without one the group, if it is done."""
        return self.outcome is not Outcome.REFUSED and self.partition in (None, partition)


@dataclass(slots=True, kw_only=True)
class Generation(Asked):
    """An assignment that was told to a member."""

    number: int


class ToldOffset(NamedTuple):
    """What was told of a partition; `asked` is when."""

    partition: TopicPartition
    offset: int
    asked: int


class OffsetHistory:
    """All of that for one group; what is fresh nobody has judged yet."""

    def __init__(self, group: str, partitions: Collection[TopicPartition]) -> None:
        self.group = group
        self.partitions = tuple(partitions)
        self.commits: dict[TopicPartition, list[Commit]] = defaultdict(list)
        self.deletions: list[Deletion] = []
        self.generations: list[Generation] = []
        self.join_asked = 0
        """When somebody last asked to join."""
        self.fresh_reads: list[ToldOffset] = []
        self.fresh_commits: list[tuple[TopicPartition, Commit]] = []
        self.fresh_sights: list[int] = []
        """When questions were asked that found the group without members, of which it had some."""
        self._moment = 0

    def moment(self) -> int:
        """Now, which is later than everything before."""
        self._moment += 1
        return self._moment

    def commit(self, partition: TopicPartition, by: Membership) -> Commit:
        """Somebody asks to commit the next number."""
        commits = self.commits[partition]
        commits.append(Commit(asked=self.moment(), number=len(commits) + 1, by=by))
        return commits[-1]

    def committed(self, partition: TopicPartition, commit: Commit, error: ErrorCode) -> None:
        """Somebody was answered."""
        self.answered(commit, error)
        self.fresh_commits.append((partition, commit))

    def answered(self, question: Asked, error: ErrorCode) -> None:
        """Note what an answer says; an error that is no refusal leaves everything open."""
        if question.outcome is Outcome.OPEN and (error is ErrorCode.none or error in REFUSALS):
            question.answered = self.moment()
            question.outcome = Outcome.REFUSED if error else Outcome.DONE

    def not_asked(self, question: Asked) -> None:
        """There was nobody to ask."""
        question.answered, question.outcome = self.moment(), Outcome.REFUSED

    def delete(self, partition: TopicPartition | None) -> Deletion:
        """Somebody asks to delete the group, or an offset."""
        deletion = Deletion(asked=self.moment(), partition=partition)
        self.deletions.append(deletion)
        return deletion

    def generation(self, number: int, asked: int) -> int:
        """Somebody who asked for its part of a generation was told it; since when it knows."""
        told = Generation(asked, self.moment(), Outcome.DONE, number=number)
        self.generations.append(told)
        return told.answered

    def told(self, partition: TopicPartition, offset: int, asked: int) -> None:
        """Somebody was told what is stored."""
        self.fresh_reads.append(ToldOffset(partition, offset, asked))
