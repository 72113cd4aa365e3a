"""The rules on committed offsets.

G1  an offset that is stored is told ever after, or a later one: none ever steps back
G2  no offset is told that nobody committed, or that was refused
G5  a generation that is over commits nothing
G6  what was deleted is gone for good, be it an offset or a group with all of them

What is known to be stored is what somebody was promised or told. An attempt without an answer may
be done at any time, but only while its generation lasts.
"""

from __future__ import annotations

from tidelog.coordinator.internal_topics import OFFSETS_TOPIC
from tidelog.model.ids import TopicPartition
from tidelog.simulator.clients.offset_history import (
    NOBODY,
    NOTHING,
    Commit,
    Deletion,
    OffsetHistory,
    Outcome,
    ToldOffset,
)
from tidelog.simulator.rules.ghost import Ghost
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import ClientActed, Happening
from tidelog.simulator.world.world import World


class OffsetRules:
    """Compares what was told of a group's offsets with what was asked for."""

    def __init__(self, world: World, ghost: Ghost, history: OffsetHistory) -> None:
        self._world = world
        self._ghost = ghost
        self._history = history

    def watch(self) -> None:
        """Judge from now on."""
        self._world.observers.append(self._look)

    def _look(self, _world: World, happening: Happening) -> None:
        if not isinstance(happening, ClientActed):
            return
        history = self._history
        commits, history.fresh_commits = history.fresh_commits, []
        reads, history.fresh_reads = history.fresh_reads, []
        sights, history.fresh_sights = history.fresh_sights, []
        if self._ghost.has_lost(OFFSETS_TOPIC, history.group):
            return
        for partition, commit in commits:
            self._judge_commit(partition, commit)
        for told in reads:
            self._judge_read(told)
        for asked in sights:
            self._judge_sight(asked)

    # Reads.

    def _judge_read(self, told: ToldOffset) -> None:
        found = self._attempt(told)
        if found is not None:
            self._judge_gone(told, found)
            if found.outcome is Outcome.OPEN:
                found.outcome, found.answered = Outcome.DONE, self._history.moment()
        for stored in self._history.commits[told.partition]:
            if stored.outcome is not Outcome.DONE or stored.answered > told.asked:
                continue
            if (found is None or _is_before(found, stored)) and self._lasts(told, stored):
                what = f"{_text(stored)} of {told.partition} was stored"
                raise Violation("G1", f"{what}, and {_text(found)} was told")

    def _attempt(self, told: ToldOffset) -> Commit | None:
        if told.offset == NOTHING:
            return None
        commits = self._history.commits[told.partition]
        what = f"{told.offset} of {told.partition} was told"
        if not 0 < told.offset <= len(commits):
            raise Violation("G2", f"{what}, and nobody has asked to commit that")
        found = commits[told.offset - 1]
        if found.outcome is Outcome.REFUSED:
            raise Violation("G2", f"{what}, and that commit was refused")
        return found

    def _lasts(self, told: ToldOffset, stored: Commit) -> bool:
        """Whether no deletion can have taken what was stored."""
        return not any(
            deletion.may_touch(told.partition) and deletion.answered > stored.asked
            for deletion in self._history.deletions
        )

    def _judge_gone(self, told: ToldOffset, found: Commit) -> None:
        for deletion in self._history.deletions:
            if (
                deletion.outcome is Outcome.DONE
                and deletion.may_touch(told.partition)
                and deletion.answered < told.asked
                and _is_over_before(found, deletion)
            ):
                what = f"{found.number} of {told.partition} was deleted"
                raise Violation("G6", f"{what}, and told again")

    # Commits.

    def _judge_commit(self, partition: TopicPartition, commit: Commit) -> None:
        """A generation is over when a later one was told before; a deleted group begins anew."""
        if commit.outcome is not Outcome.DONE or commit.by is NOBODY:
            return
        for later in self._history.generations:
            if later.number <= commit.by.generation or later.answered > commit.asked:
                continue
            if not any(
                deletion.may_touch(None) and deletion.answered > later.asked
                for deletion in self._history.deletions
            ):
                what = f"{_text(commit)} was committed of {partition}"
                raise Violation("G5", f"{what}, and generation {later.number} had begun before")

    # The group itself.

    def _judge_sight(self, asked: int) -> None:
        """A group that had members is there: nobody may have deleted it since the last one came."""
        for deletion in self._history.deletions:
            if (
                deletion.outcome is Outcome.DONE
                and deletion.partition is None
                and self._history.join_asked < deletion.asked
                and deletion.answered < asked
            ):
                raise Violation("G6", f"{self._history.group} was deleted, and is there again")


def _text(commit: Commit | None) -> str:
    if commit is None:
        return "nothing"
    return f"{commit.number} by {commit.by.member_id or 'nobody'} in {commit.by.generation}"


def _is_before(one: Commit, other: Commit) -> bool:
    """Whether an attempt, if it was ever done, was done before another one that was."""
    if 0 <= one.by.generation < other.by.generation:
        return True
    return one.outcome is Outcome.DONE and one.answered < other.asked


def _is_over_before(commit: Commit, deletion: Deletion) -> bool:
    """Whether an attempt can only have been done before a deletion that was.

    Nothing is deleted under members, so no generation that somebody knew of outlives a deletion.
    """
    if commit.by is not NOBODY and commit.by.known_since < deletion.asked:
        return True
    return commit.outcome is Outcome.DONE and commit.answered < deletion.asked
