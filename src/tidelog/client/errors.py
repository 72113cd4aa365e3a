"""What can go wrong between a client and its cluster.

Unreachable        nobody answers: no connection, or silence past the timeout.
NoController       brokers answer, and say that nobody can decide anything.
RequestRefused     a broker answered with an error that trying again does not cure.
NoSuchName         the same, of a name that somebody may have misspelt.
BrokenConversation what came back is not an answer to what was asked; the connection is useless.
"""

from __future__ import annotations

from typing import Protocol

from tidelog.model.errors import ErrorCode, TidelogError


class ClientError(TidelogError):
    """Root of everything a client raises."""


class Unreachable(ClientError):
    """Nobody answered: connection refused, cut, or silent past the timeout."""


class NoController(ClientError):
    """The cluster has no active controller; what needs none can still be asked."""


class RequestRefused(ClientError):
    """A broker said no; `code` is the protocol's reason."""

    def __init__(self, code: ErrorCode, what: str, why: str | None = None) -> None:
        self.code = code
        reason = why or explanation(code)
        super().__init__(f"{what}: {reason} ({code.name.upper()})")


class NoSuchName(ClientError):
    """There is nothing of this name; the message says what there is."""


class BrokenConversation(ClientError):
    """The peer does not follow the protocol."""


class Answered(Protocol):
    """An answer, or a part of one, that says whether it is an error."""

    @property
    def error_code(self) -> ErrorCode: ...


def require_accepted(answer: Answered, what: str) -> None:
    """Raise the refusal that an answer stands for, in the broker's words where it has some."""
    if answer.error_code is not ErrorCode.none:
        raise RequestRefused(answer.error_code, what, getattr(answer, "error_message", None))


_EXPLANATIONS = {
    ErrorCode.unknown_topic_or_partition: "there is no such topic or partition",
    ErrorCode.unknown_topic_id: "there is no topic with that identity",
    ErrorCode.topic_already_exists: "a topic of that name exists already",
    ErrorCode.invalid_topic_exception: "the name is not allowed for a topic",
    ErrorCode.invalid_partitions: "the number of partitions is not allowed",
    ErrorCode.invalid_replication_factor: "not enough brokers for that many replicas",
    ErrorCode.offset_out_of_range: "the offset lies outside the log",
    ErrorCode.message_too_large: "the batch is larger than the topic allows",
    ErrorCode.leader_not_available: "the partition has no leader at the moment",
    ErrorCode.group_id_not_found: "there is no such group",
    ErrorCode.non_empty_group: "the group has members",
    ErrorCode.unsupported_version: "the broker does not serve this request",
}


def explanation(code: ErrorCode) -> str:
    """A reason in words for a code that came without one."""
    return _EXPLANATIONS.get(code, code.name.replace("_", " "))
