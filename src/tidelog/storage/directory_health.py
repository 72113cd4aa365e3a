"""Whether a log directory can still be trusted.

Invariant  One failed operation condemns the whole directory, for as long as the process lives: the
           kernel may have dropped what it could not write, so nothing is retried.
"""

from __future__ import annotations

from types import TracebackType

from tidelog.model.errors import DiskError, ErrorCode, Refusal


class DirectoryHealth:
    """Shared by a directory and every log in it; used as a context it notes what fails inside."""

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
