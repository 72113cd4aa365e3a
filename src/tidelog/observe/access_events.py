"""What somebody wanted and may not do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDenied:
    """A request was refused, or part of it, for want of a permission."""

    principal: str
    host: str
    api: str
    operation: str
    resource_type: str
    resource_name: str
    times: int
    """How often since it was last told."""
    cause: str

    def __str__(self) -> str:
        often = "" if self.times == 1 else f" {self.times} times"
        return (
            f"{self.principal} at {self.host} was denied {self.operation} on "
            f"{self.resource_type} {self.resource_name}{often}, asked for by {self.api}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDeniedToMany:
    """So much was denied at a time that not all of it is told one by one."""

    times: int
    cause: str

    def __str__(self) -> str:
        return f"{self.times} more requests were denied that are not told one by one"
