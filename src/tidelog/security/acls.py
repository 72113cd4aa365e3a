"""Access control lists: rules that allow or deny, as values, and filters that find them.

The words and numbers are those of the protocol: what travels in CreateAcls and stands in the
metadata log.

Invariant  An `Acl` names one kind of resource, one kind of pattern, one operation and one
           permission; what stands for several of them (ANY, MATCH) is a filter's alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

WILDCARD: Final = "*"
"""Every name, as a literal one; every host; with `User:`, everybody."""
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of the only cluster."""


class ResourceType(IntEnum):
    """What a rule is about."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name in a rule is to be read."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What somebody wants to do."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Whether a rule lets or forbids."""

    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED_OPERATIONS: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        ),
        ResourceType.GROUP: (
            AclOperation.READ,
            AclOperation.DELETE,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        ),
        ResourceType.CLUSTER: (
            AclOperation.CREATE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
        ),
        ResourceType.TRANSACTIONAL_ID: (
            AclOperation.WRITE,
            AclOperation.DESCRIBE,
            AclOperation.TWO_PHASE_COMMIT,
        ),
        ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
        ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
    }
)
"""What can be done to each kind of resource."""

_WordT = TypeVar("_WordT", bound=IntEnum)


def word(words: type[_WordT], code: int) -> _WordT | None:
    """The word behind a number of the protocol; None for one that nobody knows."""
    try:
        return words(code)
    except ValueError:
        return None


class Acl(NamedTuple):
    """One rule."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        kind = "" if self.pattern_type is PatternType.LITERAL else "names that begin with "
        return (
            f"{self.permission.name.lower()} {self.principal} from {self.host} "
            f"{self.operation.name} on {self.resource_type.name} {kind}{self.resource_name}"
        )


class AclFilter(NamedTuple):
    """Which rules are meant; None and ANY stand for everything.

    With MATCH, a name stands for every rule that would be looked at for a resource of that name.
    """

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether a rule is one of those that are meant."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type is not PatternType.MATCH:
            return self.pattern_type in (PatternType.ANY, acl.pattern_type) and (
                self.resource_name in (None, acl.resource_name)
            )
        if self.resource_name is None:
            return True
        if acl.pattern_type is PatternType.LITERAL:
            return acl.resource_name in (self.resource_name, WILDCARD)
        return self.resource_name.startswith(acl.resource_name)
