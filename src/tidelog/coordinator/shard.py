"""A coordinator: a state machine over one partition of an internal topic.

The node around it (`node/coordination/coordinated_partition.py`) loads it by replaying the
partition when this broker begins to lead, runs commands against it, appends what they decide, and
drops it when the leadership ends.

Invariant  Stored state changes only in `replay` and `replay_marker`, so that a coordinator that
           was just loaded and the one that wrote the log are in the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol, TypeVar

from tidelog.coordinator.result import CoordinatorResult, ProducerIdAndEpoch
from tidelog.model.errors import Refusal
from tidelog.model.time import Now

T = TypeVar("T")


class Marker(NamedTuple):
    """The end of a producer's transaction in this partition."""

    producer: ProducerIdAndEpoch
    committed: bool


class CoordinatorShard(Protocol[T]):
    """The coordinator of everything that one partition of an internal topic holds."""

    def encode(self, record: T) -> tuple[bytes, bytes | None]:
        """Key and value as they are stored; the value None is a tombstone."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> T | None:
        """What was stored; None for a type of record that this version does not know."""
        ...

    def replay(self, record: T, producer: ProducerIdAndEpoch | None) -> None:
        """Take in a record that is in the log now."""
        ...

    def replay_marker(self, marker: Marker) -> None:
        """Take in the end of a transaction that is in the log now."""
        ...

    def loaded(self, now: Now) -> CoordinatorResult[T, None]:
        """The whole log is replayed: set timers, tidy up."""
        ...

    def unloaded(self, refusal: Refusal) -> None:
        """This broker no longer leads: answer everybody who was kept waiting."""
        ...


class CoordinatorTimer(Protocol[T]):
    """What a shard has to do later; gone with the shard."""

    def set(
        self,
        key: Hashable,
        due_ms: int,
        command: Callable[[Now], CoordinatorResult[T, None]],
    ) -> None:
        """Run `command` once monotonic time has reached `due_ms`; replaces the key's old one.

        A decision that could not be written is asked for again a little later, even if the
        command has set its own key.
        """
        ...

    def cancel(self, key: Hashable) -> None:
        """Forget it; harmless when there is none."""
        ...
