"""Access rules, credentials, delegation tokens and quotas, as the metadata log describes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never
from uuid import UUID

from tidelog.controller.image_delta import ImageDelta, QuotaOwner
from tidelog.controller.records import MetadataRecord
from tidelog.protocol.stored.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ClientQuotaRecordEntityData,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

AccessRecord: TypeAlias = (
    AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | DelegationTokenRecord
    | RemoveDelegationTokenRecord
    | ClientQuotaRecord
)


@dataclass(slots=True)
class AccessImage:
    """Who may do what. Changed only by the cluster image that owns it."""

    rules: dict[UUID, AccessControlEntryRecord] = field(default_factory=dict)
    credentials: dict[tuple[str, int], UserScramCredentialRecord] = field(default_factory=dict)
    tokens: dict[str, DelegationTokenRecord] = field(default_factory=dict)
    quotas: dict[QuotaOwner, dict[str, float]] = field(default_factory=dict)

    def copy(self) -> AccessImage:
        return AccessImage(
            rules=dict(self.rules),
            credentials=dict(self.credentials),
            tokens=dict(self.tokens),
            quotas={owner: dict(values) for owner, values in self.quotas.items()},
        )

    def apply(self, record: AccessRecord, delta: ImageDelta) -> None:
        match record:
            case AccessControlEntryRecord():
                self.rules[record.id] = record
                delta.access_rules[record.id] = None
            case RemoveAccessControlEntryRecord():
                self.rules.pop(record.id, None)
                delta.access_rules[record.id] = None
            case UserScramCredentialRecord():
                self.credentials[record.name, record.mechanism] = record
                delta.credentials[record.name, record.mechanism] = None
            case RemoveUserScramCredentialRecord():
                self.credentials.pop((record.name, record.mechanism), None)
                delta.credentials[record.name, record.mechanism] = None
            case DelegationTokenRecord():
                self.tokens[record.token_id] = record
                delta.tokens[record.token_id] = None
            case RemoveDelegationTokenRecord():
                self.tokens.pop(record.token_id, None)
                delta.tokens[record.token_id] = None
            case ClientQuotaRecord():
                delta.quotas[self._set_quota(record)] = None
            case _:
                assert_never(record)

    def _set_quota(self, record: ClientQuotaRecord) -> QuotaOwner:
        owner = tuple(sorted(record.entity, key=_entity_order))
        values = self.quotas.setdefault(owner, {})
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if not values:
            del self.quotas[owner]
        return owner

    def owners(self) -> list[QuotaOwner]:
        """Whoever has a quota, in an order that is always the same."""
        return sorted(self.quotas, key=lambda owner: [*map(_entity_order, owner)])

    def quota_records(self) -> Iterator[MetadataRecord]:
        for owner in self.owners():
            for key, value in sorted(self.quotas[owner].items()):
                yield ClientQuotaRecord(entity=owner, key=key, value=value)

    def security_records(self) -> Iterator[MetadataRecord]:
        for _, rule in sorted(self.rules.items()):
            yield rule
        for _, credential in sorted(self.credentials.items()):
            yield credential
        for _, token in sorted(self.tokens.items()):
            yield token


def _entity_order(entity: ClientQuotaRecordEntityData) -> tuple[str, bool, str]:
    return entity.entity_type, entity.entity_name is not None, entity.entity_name or ""
