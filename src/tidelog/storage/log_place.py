"""The log directory as the logs in it see it.

Invariant  One failed operation condemns the whole directory, for as long as the process lives: the
           kernel may have dropped what it could not write, so nothing is retried.
Invariant  What is written down about a log in the checkpoints of its directory is lowered, durably,
           before the log is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Protocol

from tidelog.model.entropy import Entropy
from tidelog.model.errors import DiskError, ErrorCode, Refusal
from tidelog.storage.filesystem import FileSystem


class DirectoryHealth:
    """Whether a log directory can still be trusted.

    Shared by the directory and every log in it; used as a context it notes what fails inside.
    """

    __slots__ = ("offline_reason",)

    def __init__(self) -> None:
        self.offline_reason: str | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, DiskError):
            self.fail(str(error))

    def require(self) -> None:
        """Raise unless the directory can still be trusted."""
        if self.offline_reason is not None:
            raise DiskError(self.offline_reason)

    def fail(self, reason: str) -> Refusal:
        """Note the first failure; the answer is what a client is told."""
        if self.offline_reason is None:
            self.offline_reason = reason
        return self.refusal()

    def refusal(self) -> Refusal:
        return Refusal(ErrorCode.kafka_storage_error, f"log directory: {self.offline_reason}")


class Lower(NamedTuple):
    """The most that may be written down about a log that is to be cut."""

    recovery_point: int
    start_offset: int


class Lowering(Protocol):
    """Makes durable that less is written down about a log; in several turns, each a job."""

    def run(self) -> None:
        """Block; raises `DiskError`."""
        ...

    def done(self, error: str | None) -> bool:
        """It has run: whether it must run once more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """What a log needs from the log directory it lies in."""

    files: FileSystem
    directory: str
    entropy: Entropy
    health: DirectoryHealth
    lowered: Callable[[], None]
    """Called before a log is cut below a recovery point that may be on disk: lower that first."""
    lowering: Callable[[Lower], Lowering | None]
    """The same as a job, None when there is nothing to lower."""
