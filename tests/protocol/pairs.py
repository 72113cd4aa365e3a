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


TURNING_POINTS: Final = [
    (api_key, version)
    for api_key, version in ALL
    if _is_a_turning_point(SUPPORTED[api_key], version)
]
"""The first version, the last one, and the first with the compact encoding."""

PAIRS: Final = TURNING_POINTS if TIER is Tier.QUICK else ALL
"""Those that this run reads and writes."""

DAMAGED: Final = ALL if TIER is Tier.SOAK else TURNING_POINTS
"""Those whose every byte this run damages: a version between two others has no field of a kind
that they do not have."""

UNKNOWN_TO_KIO: Final = frozenset({(ApiKey.API_VERSIONS, 5)})
JUDGED: Final = [pair for pair in PAIRS if pair not in UNKNOWN_TO_KIO]
"""Those of them of which there is a second opinion."""
JUDGED_DAMAGED: Final = [pair for pair in DAMAGED if pair not in UNKNOWN_TO_KIO]


def name(value: object) -> str:
    """How a test calls one of the two."""
    return value.name if isinstance(value, ApiKey) else str(value)
