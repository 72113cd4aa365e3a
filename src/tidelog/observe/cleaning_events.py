"""What the cleaner of compacted logs did."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleaned:
    """A compacted log was written anew up to `cleaned_to`."""

    partition: TopicPartition
    cleaned_to: int
    bytes_before: int
    bytes_after: int
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.partition} cleaned up to offset {self.cleaned_to}, "
            f"{self.bytes_before} bytes became {self.bytes_after}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningFailed:
    """A compacted log could not be cleaned; it stays as it is and is tried again later."""

    partition: TopicPartition
    retry_ms: int
    cause: str

    def __str__(self) -> str:
        return f"{self.partition} could not be cleaned, next try in {self.retry_ms} ms"
