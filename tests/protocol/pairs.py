"""Every API and version that is served, or those of them at which the encoding changes."""

from __future__ import annotations

from typing import Final

from tests.tiers import TIER, Tier

from tidelog.protocol.apis import SUPPORTED, ApiKey, VersionRange

ALL: Final = [
    (api_key, version)
    for api_key, served in SUPPORTED.items()
    for version in range(served.decodable_from, served.max + 1)
]


def _is_a_turning_point(served: VersionRange, version: int) -> bool:
    return version in (served.decodable_from, served.first_flexible, served.max)


PAIRS: Final = [
    (api_key, version)
    for api_key, version in ALL
    if TIER is not Tier.QUICK or _is_a_turning_point(SUPPORTED[api_key], version)
]
"""Those that this run looks at."""

UNKNOWN_TO_KIO: Final = frozenset({(ApiKey.API_VERSIONS, 5)})
JUDGED: Final = [pair for pair in PAIRS if pair not in UNKNOWN_TO_KIO]
"""Those of them of which there is a second opinion."""


def name(value: object) -> str:
    """How a test calls one of the two."""
    return value.name if isinstance(value, ApiKey) else str(value)
