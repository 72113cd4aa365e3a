"""Who may do what: the decision of Apache Kafka's StandardAuthorizer.

Whoever is a super user may do everything. For anybody else the rules that speak of the resource
are looked at: those of its very name, those of the wildcard, and those of every prefix of its name.

Invariant  A rule that denies wins over any number of rules that allow.
Invariant  Nobody has said anything of a resource: `allow.everyone.if.no.acl.found` decides. As soon
           as one rule speaks of it, of whomever, what is not allowed is denied.
Invariant  Who may read, write, delete or alter something may describe it, and who may alter its
           configuration may describe that; who may not do the one may still do the other.
Invariant  A decision is remembered only for as long as no rule changes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, TypeAlias

from tidelog.model.principal import Principal
from tidelog.security.acls import (
    EVERYBODY,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

DECISIONS_MAX: Final = 10_000
"""So many decisions are remembered before all of them are forgotten."""
REMEMBERED_NAME_MAX: Final = 249
"""Longer names are decided anew each time: topics have none, and whoever asks chooses them."""

_ANY_NAME: Final = "hardcode"
"""Nobody's name: what may be done to it may be done to whatever no rule speaks of by name."""
_DESCRIBE: Final = AclOperation.DESCRIBE
_DESCRIBE_CONFIGS: Final = AclOperation.DESCRIBE_CONFIGS
_IMPLIED: Final = {
    AclOperation.READ: _DESCRIBE,
    AclOperation.WRITE: _DESCRIBE,
    AclOperation.DELETE: _DESCRIBE,
    AclOperation.ALTER: _DESCRIBE,
    AclOperation.ALTER_CONFIGS: _DESCRIBE_CONFIGS,
}
"""What a rule that allows the one allows besides."""


class Action(NamedTuple):
    """Somebody wants to do something to one resource."""

    principal: Principal
    host: str
    operation: AclOperation
    resource_type: ResourceType
    resource_name: str

    @property
    def wanted_acl(self) -> Acl:
        """The narrowest rule that would allow it."""
        return Acl(
            self.resource_type,
            self.resource_name,
            PatternType.LITERAL,
            str(self.principal),
            self.host,
            self.operation,
            AclPermission.ALLOW,
        )


_AnyAction: TypeAlias = tuple[Principal, str, AclOperation, ResourceType]


class _Rules:
    """The rules of one kind of resource."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, set[Acl]] = {}
        self.prefixed: dict[str, set[Acl]] = {}
        self.lengths: list[int] = []
        """How long the prefixes are: so many names are looked up, however many rules there are."""

    def add(self, acl: Acl) -> None:
        by_name = self.literal
        if acl.pattern_type is PatternType.PREFIXED:
            by_name = self.prefixed
            if len(acl.resource_name) not in self.lengths:
                insort(self.lengths, len(acl.resource_name))
        by_name.setdefault(acl.resource_name, set()).add(acl)

    def remove(self, acl: Acl) -> None:
        is_prefixed = acl.pattern_type is PatternType.PREFIXED
        by_name = self.prefixed if is_prefixed else self.literal
        by_name[acl.resource_name].discard(acl)
        if not by_name[acl.resource_name]:
            del by_name[acl.resource_name]
            if is_prefixed:
                self.lengths = sorted({len(name) for name in by_name})

    def of(self, name: str) -> Iterator[Acl]:
        """Every rule that speaks of a resource of this name."""
        yield from self.literal.get(name, ())
        if name != WILDCARD:
            yield from self.literal.get(WILDCARD, ())
        for length in self.lengths:
            if length > len(name):
                return
            yield from self.prefixed.get(name[:length], ())


class Authorizer:
    """The rules of a cluster, and what follows from them."""

    def __init__(
        self, super_users: Iterable[Principal] = (), *, allow_if_no_acl: bool = False
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._rules: dict[ResourceType, _Rules] = {kind: _Rules() for kind in SUPPORTED_OPERATIONS}
        self._times: dict[Acl, int] = {}
        """How often each rule stands in the metadata, where each has an id of its own."""
        self._decisions: dict[Action, bool] = {}
        self._some: dict[_AnyAction, bool] = {}
        self.generation = 0
        """Another one whenever a rule comes or goes."""

    def is_super_user(self, principal: Principal) -> bool:
        return principal in self._super_users

    def add(self, acl: Acl) -> None:
        """The rule holds from now on."""
        self._times[acl] = self._times.get(acl, 0) + 1
        self._rules[acl.resource_type].add(acl)
        self._changed()

    def remove(self, acl: Acl) -> None:
        """The rule holds no more, unless it stands there once more."""
        self._times[acl] -= 1
        if self._times[acl] == 0:
            del self._times[acl]
            self._rules[acl.resource_type].remove(acl)
            self._changed()

    def _changed(self) -> None:
        self._decisions.clear()
        self._some.clear()
        self.generation += 1

    def acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """The rules that a filter means, in a fixed order."""
        return sorted(acl for acl in self._times if wanted is None or wanted.matches(acl))

    def allows(self, action: Action) -> bool:
        """Whether it may be done."""
        decided = self._decisions.get(action)
        if decided is None:
            decided = self._decide(action)
            if len(action.resource_name) <= REMEMBERED_NAME_MAX:
                if len(self._decisions) >= DECISIONS_MAX:
                    self._decisions.clear()
                self._decisions[action] = decided
        return decided

    def _decide(self, action: Action) -> bool:
        if self.is_super_user(action.principal):
            return True
        is_spoken_of = is_allowed = False
        for acl in self._rules[action.resource_type].of(action.resource_name):
            is_spoken_of = True
            if _is_about(acl, action.principal, action.host) and _covers(acl, action.operation):
                if acl.permission is AclPermission.DENY:
                    return False
                is_allowed = True
        return is_allowed if is_spoken_of else self._allow_if_no_acl

    def denied_by(self, action: Action) -> Acl | None:
        """The rule that denies it; None when only nothing allows it."""
        denying = (
            acl
            for acl in self._rules[action.resource_type].of(action.resource_name)
            if acl.permission is AclPermission.DENY
            and _is_about(acl, action.principal, action.host)
            and _covers(acl, action.operation)
        )
        return min(denying, default=None)

    def allows_some(
        self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType
    ) -> bool:
        """Whether there is a name of this kind of resource to which it may be done."""
        asked = (principal, host, operation, kind)
        decided = self._some.get(asked)
        if decided is None:
            if len(self._some) >= DECISIONS_MAX:
                self._some.clear()
            decided = self._some[asked] = self._decide_some(*asked)
        return decided

    def _decide_some(
        self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType
    ) -> bool:
        """Look through all rules.

        Rules that deny take away what they cover whole: a literal name of the same name, and
        everything that begins like a prefix of theirs; but not what the wildcard allows.
        """
        if self.allows(Action(principal, host, operation, kind, _ANY_NAME)):
            return True
        mine = [
            acl
            for acl in self._times
            if acl.resource_type is kind
            and _is_about(acl, principal, host)
            and _names(acl, operation)
        ]
        denied = {
            (acl.pattern_type, acl.resource_name)
            for acl in mine
            if acl.permission is AclPermission.DENY
        }
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(
            acl.resource_name == WILDCARD or not _is_taken_away(acl, denied)
            for acl in mine
            if acl.permission is AclPermission.ALLOW
        )


def _is_about(acl: Acl, principal: Principal, host: str) -> bool:
    """Whether a rule speaks of somebody who asks from there."""
    if acl.principal not in (EVERYBODY, str(principal)):
        return False
    if acl.host in (WILDCARD, host):
        return True
    address = _address(host)
    return address is not None and _address(acl.host) == address


@lru_cache(maxsize=1024)
def _address(host: str) -> IPv4Address | IPv6Address | None:
    """An address however it is written: Java writes IPv6 at full length."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def _covers(acl: Acl, operation: AclOperation) -> bool:
    """Whether a rule speaks of an operation."""
    if _names(acl, operation):
        return True
    return acl.permission is AclPermission.ALLOW and _IMPLIED.get(acl.operation) is operation


def _names(acl: Acl, operation: AclOperation) -> bool:
    return acl.operation in (operation, AclOperation.ALL)


def _is_taken_away(allowed: Acl, denied: set[tuple[PatternType, str]]) -> bool:
    name = allowed.resource_name
    if allowed.pattern_type is PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))
