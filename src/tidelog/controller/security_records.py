"""The metadata records about who may do what, and how much: rules, credentials, tokens, quotas.

Invariant  Values are immutable and compare by content; all sequences are tuples.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tidelog.protocol.schema import Int8, Int32, Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord:
    """A delegation token exists; its secret is derived, not stored."""

    owner: str
    requester: str
    renewers: tuple[str, ...] = ()
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    """The salted keys of one user for one mechanism."""

    name: str
    mechanism: Int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity:
    """One part of who a quota applies to; a null name is the default of that type."""

    entity_type: str
    entity_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    """One quota value of one entity was set or removed."""

    entity: tuple[QuotaEntity, ...]
    key: str
    value: float
    remove: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    """One access rule."""

    id: UUID
    resource_type: Int8
    resource_name: str
    pattern_type: Int8
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    """One access rule is gone."""

    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    """The salted keys of one user for one mechanism are gone."""

    name: str
    mechanism: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDelegationTokenRecord:
    """A delegation token is gone."""

    token_id: str
