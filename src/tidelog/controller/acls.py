"""Changes of access control lists.

Invariant  No rule stands in the metadata twice, and each can be read: unknown words are refused.
Invariant  What one request adds or removes takes effect together.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from tidelog.controller.image import ClusterImage
from tidelog.controller.result import ControllerResult, together
from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.principal import Principal
from tidelog.protocol.stored.metadata import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from tidelog.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    word,
)

RECORDS_MAX: Final = 10_000
"""So many rules one request may add or remove."""
WordT = TypeVar("WordT", ResourceType, PatternType, AclOperation, AclPermission)


class AclText(NamedTuple):
    """A rule or a filter as a request spells it."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int


def acl_of(record: AccessControlEntryRecord) -> Acl | None:
    """The rule in a record; None for words of a later version."""
    rule = AclText(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )
    read = new_acl(rule)
    return read if isinstance(read, Acl) else None


def new_acl(text: AclText) -> Acl | Refusal:
    """The rule that is to be added, or what is wrong with it."""
    kind = word(ResourceType, text.resource_type)
    pattern = word(PatternType, text.pattern_type)
    operation = word(AclOperation, text.operation)
    permission = word(AclPermission, text.permission)
    if kind is None or kind is ResourceType.ANY:
        return _invalid(f"Invalid resourceType {_name(kind)}")
    if kind is ResourceType.CLUSTER and text.resource_name != CLUSTER_NAME:
        return _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not text.resource_name:
        return _invalid("Invalid empty resource name")
    if pattern is not PatternType.LITERAL and pattern is not PatternType.PREFIXED:
        return _invalid(f"Invalid patternType {_name(pattern)}")
    if operation is None or operation is AclOperation.ANY:
        return _invalid(f"Invalid operation {_name(operation)}")
    if permission is not AclPermission.ALLOW and permission is not AclPermission.DENY:
        return _invalid(f"Invalid permissionType {_name(permission)}")
    try:
        Principal.parse(text.principal or "")
    except ValueError as error:
        return _invalid(str(error))
    return Acl(
        kind,
        text.resource_name,
        pattern,
        text.principal or "",
        text.host or "",
        operation,
        permission,
    )


def acl_filter(text: AclText) -> AclFilter | Refusal:
    """The filter that a request spells, or what is wrong with it."""
    kind = word(ResourceType, text.resource_type)
    pattern = word(PatternType, text.pattern_type)
    if kind is None or pattern is None:
        return _invalid("Unknown patternFilter.")
    operation = word(AclOperation, text.operation)
    permission = word(AclPermission, text.permission)
    if operation is None or permission is None:
        return _invalid("Unknown entryFilter.")
    return AclFilter(
        kind, text.resource_name, pattern, text.principal, text.host, operation, permission
    )


def create_acls(
    image: ClusterImage, entropy: Entropy, rules: Collection[AclText]
) -> ControllerResult[list[Refusal | None]]:
    """Add every rule that can be added; one that is there already is no error."""
    known = {acl_of(record) for record in image.access.rules.values()}
    taken: set[UUID] = set(image.access.rules)
    outcomes: list[Refusal | None] = []
    records: list[AccessControlEntryRecord] = []
    for text in rules:
        acl = new_acl(text)
        outcomes.append(acl if isinstance(acl, Refusal) else None)
        if isinstance(acl, Refusal) or acl in known:
            continue
        acl_id = entropy.uuid()
        while acl_id in taken:
            acl_id = entropy.uuid()
        known.add(acl)
        taken.add(acl_id)
        records.append(
            AccessControlEntryRecord(
                id=acl_id,
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    if len(records) > RECORDS_MAX:
        return ControllerResult((), [_too_many() for _ in rules])
    return together(records, outcomes)


def delete_acls(
    image: ClusterImage, filters: Collection[AclText]
) -> ControllerResult[list[list[Acl] | Refusal]]:
    """Remove every rule that a filter means; the answer names them, filter by filter."""
    outcomes: list[list[Acl] | Refusal] = []
    removed: dict[UUID, None] = {}
    rules = [
        (acl_id, acl)
        for acl_id, record in sorted(image.access.rules.items())
        if (acl := acl_of(record)) is not None
    ]
    for text in filters:
        wanted = acl_filter(text)
        if isinstance(wanted, Refusal):
            outcomes.append(wanted)
            continue
        found = [(acl_id, acl) for acl_id, acl in rules if wanted.matches(acl)]
        removed.update((acl_id, None) for acl_id, _ in found)
        outcomes.append([acl for _, acl in found])
    if len(removed) > RECORDS_MAX:
        return ControllerResult((), [_too_many() for _ in filters])
    return together([RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed], outcomes)


def _invalid(why: str) -> Refusal:
    return Refusal(ErrorCode.invalid_request, why)


def _too_many() -> Refusal:
    return Refusal(
        ErrorCode.policy_violation,
        f"One request may change at most {RECORDS_MAX} ACLs: split it.",
    )


def _name(known: WordT | None) -> str:
    return "UNKNOWN" if known is None else known.name
