"""What is wrong with the cluster that pages look at, as JSON: found anew when something changed.

Invariant  Finding problems takes a small part of the time, however many partitions have one: a
           search that was long is not repeated soon.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tidelog.monitor.problems import Problem, Severity, as_object, lives, problems
from tidelog.view.cluster_picture import ClusterPicture
from tidelog.view.cluster_snapshot import ClusterLook, snapshot_of

_REST: Final = 20
"""So many times as long as a search took, none follows it."""
_MOST_NAMED: Final = 100
"""Partitions that a page is told with a problem; it counts the others."""


class ClusterHealth:
    """The problems that were found last."""

    def __init__(self, picture: ClusterPicture) -> None:
        self._picture = picture
        self._look, self._turns = ClusterLook(), dict[str, int]()
        self._is_stale = True
        self._rests_until = 0.0
        self.problems: list[dict[str, Any]] = []
        """The worst first."""

    @property
    def not_told(self) -> tuple[str, ...]:
        return self._look.not_told

    def learn(self, look: ClusterLook, turns: Mapping[str, int]) -> None:
        """Somebody looked around; `turns` are those of the nodes when that began."""
        self._look, self._turns = look, dict(turns)
        self._is_stale = True

    def find_problems(self, *, changed: bool) -> bool:
        """Search if something changed and it is time to; whether a search was made."""
        self._is_stale = self._is_stale or changed
        began = time.monotonic()
        if not self._is_stale or began < self._rests_until:
            return False
        now_ms = time.time_ns() // 1_000_000
        seen = snapshot_of(self._picture, self._look, self._turns, now_ms)
        self._picture.leaders_are_silent(
            frozenset(each.node_id for each in seen.brokers if not lives(seen, each.node_id))
        )
        found = [*problems(seen), *_not_understood(self._picture)]
        self.problems = [_as_json(each) for each in found]
        self._is_stale = False
        ended = time.monotonic()
        self._rests_until = ended + _REST * (ended - began)
        return True


def _not_understood(picture: ClusterPicture) -> Iterator[Problem]:
    """What nodes tell in words that this view does not know."""
    for node in picture.nodes.values():
        who = f"node {node.node_id}" if node.node_id is not None else f"the node at {node.address}"
        for what in node.not_understood.values():
            yield Problem(
                Severity.NOTICE,
                "not-understood",
                f"{who} tells what this view does not understand: {what}",
                f"its version is {node.version or 'not known'}: look with the same one",
                node.node_id,
            )


def _as_json(problem: Problem) -> dict[str, Any]:
    named = problem._replace(partitions=problem.partitions[:_MOST_NAMED])
    return {**as_object(named), "count": len(problem.partitions)}
