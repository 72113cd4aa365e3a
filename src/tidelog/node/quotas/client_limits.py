"""Which quota of one kind counts for a client: the most specific that was set.

| set for | shared by |
|---|---|
| user and client id | the user's connections with this client id |
| user and any client id | the user's connections with the same client id |
| user | all connections of the user |
| any user and client id | connections of the same user with this client id |
| any user and any client id | connections of the same user with the same client id |
| any user | all connections of the same user |
| client id | all connections with this client id, whoever's |
| any client id | all connections with the same client id, whoever's |

The first row that was set counts. A client without an id has none of the rows with a client id.
What is not a number above 0, which other controllers may have let in, bounds nobody, and neither
does what nobody can reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from tidelog.controller.image_delta import QuotaOwner
from tidelog.model.quota_words import CLIENT_ID, USER
from tidelog.model.settings.setting import MAX_LONG

NOT_NAMED: Final = ""
"""In the place of a user or a client id that an entity does not have; None is the default."""

Sharers: TypeAlias = tuple[str, str]
"""User and client id of the connections that share one rate; either may not be named."""


class ClientLimit(NamedTuple):
    """What bounds a client, and with whom it shares that."""

    sharers: Sharers
    limit: float


class ClientLimits:
    """All quotas of one kind that are set for users and client ids."""

    __slots__ = ("_limits",)

    def __init__(self, quotas: Mapping[QuotaOwner, Mapping[str, float]], key: str) -> None:
        self._limits: dict[tuple[str | None, str | None], float] = {}
        for owner, values in quotas.items():
            names = {part.entity_type: part.entity_name for part in owner}
            limit = values.get(key, MAX_LONG)
            if 0 < limit < MAX_LONG and names.keys() <= {USER, CLIENT_ID}:
                entity = (names.get(USER, NOT_NAMED), names.get(CLIENT_ID, NOT_NAMED))
                self._limits[entity] = limit

    def __bool__(self) -> bool:
        return bool(self._limits)

    def of(self, user: str, client_id: str) -> ClientLimit | None:
        """What counts for a client; None when nothing does."""
        for entity, sharers in _by_precedence(user, client_id):
            limit = self._limits.get(entity)
            if limit is not None:
                return ClientLimit(sharers, limit)
        return None


def _by_precedence(
    user: str, client_id: str
) -> Iterator[tuple[tuple[str | None, str | None], Sharers]]:
    for named in (user, None):
        if client_id:
            yield (named, client_id), (user, client_id)
            yield (named, None), (user, client_id)
        yield (named, NOT_NAMED), (user, NOT_NAMED)
    if client_id:
        yield (NOT_NAMED, client_id), (NOT_NAMED, client_id)
        yield (NOT_NAMED, None), (NOT_NAMED, client_id)
