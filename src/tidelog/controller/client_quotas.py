"""Client quotas: who may have which, and what is said of those that are set.

Invariant  An entity of a request is altered whole or not at all; one bad entity never stands in the
           way of the others.
Invariant  Only what changes is recorded.
Invariant  An address is written as digits: a controller asks nobody for the address behind a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeAlias

from tidelog.controller.access_image import AccessImage
from tidelog.controller.image_delta import QuotaOwner
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import ControllerResult, together
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.quota_words import (
    CLIENT_ID,
    CLIENT_KEYS,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    ENTITY_TYPES,
    IP,
    IP_KEYS,
    PRODUCER_BYTE_RATE,
    USER,
)
from tidelog.model.settings.setting import MAX_INT
from tidelog.protocol.stored.metadata import ClientQuotaRecord, ClientQuotaRecordEntityData

MATCH_EXACT: Final = 0
MATCH_DEFAULT: Final = 1
MATCH_ANY: Final = 2

_MAX_LONG: Final = float(2**63 - 1)
_WHOLE: Final = {
    PRODUCER_BYTE_RATE: (_MAX_LONG, "a LONG"),
    CONSUMER_BYTE_RATE: (_MAX_LONG, "a LONG"),
    CONNECTION_CREATION_RATE: (float(MAX_INT), "an INT"),
}
"""Quotas that are whole numbers, the largest of each, and what that is called."""
_FRACTION_AT_MOST: Final = 1e-6

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Types with names; None is the default of a type."""


class QuotaAlteration(NamedTuple):
    """What is to become of the quotas of one entity; None takes a quota away."""

    entity: QuotaEntity
    ops: Sequence[tuple[str, float | None]]


class EntityFilter(NamedTuple):
    """Which entities are asked for, by one of their types."""

    entity_type: str
    match_type: int
    match: str | None


AlteredQuotas: TypeAlias = list[tuple[QuotaEntity, Refusal | None]]
DescribedQuotas: TypeAlias = list[tuple[QuotaOwner, Mapping[str, float]]]


def alter_client_quotas(
    access: AccessImage, alterations: Iterable[QuotaAlteration], *, validate_only: bool = False
) -> ControllerResult[AlteredQuotas]:
    """Each entity for itself; one that is named twice keeps what its first mention made of it."""
    records: list[MetadataRecord] = []
    outcome: dict[frozenset[tuple[str, str | None]], tuple[QuotaEntity, Refusal | None]] = {}
    for entity, ops in alterations:
        entity = tuple(dict(entity).items())
        key = frozenset(entity)
        keys = [name for name, _ in ops]
        if key in outcome or len(set(keys)) != len(keys):
            why = f"Ignoring duplicate entity {_text(entity)}"
            outcome[key] = (entity, Refusal(ErrorCode.invalid_request, why))
            continue
        changes = _changes(access, entity, ops)
        if isinstance(changes, Refusal):
            outcome[key] = (entity, changes)
        else:
            outcome[key] = (entity, None)
            records.extend(changes)
    return together(() if validate_only else records, list(outcome.values()))


def _changes(
    access: AccessImage, entity: QuotaEntity, ops: Sequence[tuple[str, float | None]]
) -> list[ClientQuotaRecord] | Refusal:
    keys = _keys_of(dict(entity))
    if isinstance(keys, Refusal):
        return keys
    owner = owner_of(entity)
    current = access.quotas.get(owner, {})
    changes: list[ClientQuotaRecord] = []
    for key, value in ops:
        if value is None:
            if key in current:
                changes.append(ClientQuotaRecord(entity=owner, key=key, remove=True))
            continue
        why_not = _value_refused(keys, key, value)
        if why_not is not None:
            return Refusal(ErrorCode.invalid_request, why_not)
        if current.get(key) != value:
            changes.append(ClientQuotaRecord(entity=owner, key=key, value=value))
    return changes


def owner_of(entity: Iterable[tuple[str, str | None]]) -> QuotaOwner:
    """The entity as the image has it: in the order of its types."""
    return tuple(
        ClientQuotaRecordEntityData(entity_type=kind, entity_name=name)
        for kind, name in sorted(entity, key=lambda part: part[0])
    )


def _keys_of(entity: Mapping[str, str | None]) -> Sequence[str] | Refusal:
    """Which quotas such an entity may have."""
    why = None
    for kind, name in entity.items():
        if kind not in ENTITY_TYPES:
            why = why or f"Unhandled client quota entity type: {kind}"
        elif name == "":
            why = why or f"Empty {kind} not supported"
    if why is None and not entity:
        why = "Invalid empty client quota entity"
    if why is None and IP in entity:
        if len(entity) > 1:
            why = (
                "Invalid quota entity combination, IP entity should"
                "not be combined with User or ClientId"
            )
        elif not _is_address(entity[IP]):
            why = f"{entity[IP]} is not a valid IP address; names of hosts are not resolved."
        else:
            return IP_KEYS
    return CLIENT_KEYS if why is None else Refusal(ErrorCode.invalid_request, why)


def _is_address(name: str | None) -> bool:
    if name is None:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _value_refused(keys: Sequence[str], key: str, value: float) -> str | None:
    if key not in keys:
        return f"Invalid configuration key {key}"
    if not value > 0:
        return f"Quota {key} must be greater than 0"
    whole = _WHOLE.get(key)
    if whole is not None:
        most, called = whole
        if value > most:
            return f"Proposed value for {key} is too large for {called}."
        if value % 1.0 > _FRACTION_AT_MOST:
            return f"{key} cannot be a fractional value."
    return None


def _text(entity: QuotaEntity) -> str:
    names = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{names}}})"


def describe_client_quotas(
    access: AccessImage, filters: Sequence[EntityFilter], *, strict: bool
) -> DescribedQuotas | Refusal:
    """The entities that have all that the filters ask for; a strict one has nothing else."""
    refusal = _filters_refused(filters)
    if refusal is not None:
        return refusal
    found: DescribedQuotas = []
    for owner in access.owners():
        names = {part.entity_type: part.entity_name for part in owner}
        if (not strict or len(names) == len(filters)) and all(
            each.entity_type in names
            and (each.match_type == MATCH_ANY or names[each.entity_type] == each.match)
            for each in filters
        ):
            found.append((owner, access.quotas[owner]))
    return found


def _filters_refused(filters: Sequence[EntityFilter]) -> Refusal | None:
    seen: set[str] = set()
    for kind, match_type, match in filters:
        why = None
        if not kind:
            why = "Invalid empty entity type."
        elif kind in seen:
            why = f"Entity type {kind} cannot appear more than once in the filter."
        elif kind not in ENTITY_TYPES:
            return Refusal(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")
        elif match_type == MATCH_EXACT:
            if match is None:
                why = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        elif match_type not in (MATCH_DEFAULT, MATCH_ANY):
            why = f"Unknown match type {match_type}"
        elif match is not None:
            called = "DEFAULT" if match_type == MATCH_DEFAULT else "SPECIFIED"
            why = f"Request specified MATCH_TYPE_{called}, but also specified a match string."
        if why is not None:
            return Refusal(ErrorCode.invalid_request, why)
        seen.add(kind)
    if IP in seen and seen & {USER, CLIENT_ID}:
        why = (
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
        return Refusal(ErrorCode.invalid_request, why)
    return None
