"""Every API and version that is served and known to kio, or those at which the encoding changes."""

from __future__ import annotations

from typing import Final

from tests.known_versions import known_versions
from tests.tiers import TIER, Tier

from tidelog.protocol.apis import SUPPORTED, ApiKey

ALL: Final = [(api_key, version) for api_key in SUPPORTED for version in known_versions(api_key)]


def _is_a_turning_point(api_key: ApiKey, version: int) -> bool:
    known = known_versions(api_key)
    return version in (known[0], SUPPORTED[api_key].first_flexible, known[-1])


TURNING_POINTS: Final = [
    (api_key, version) for api_key, version in ALL if _is_a_turning_point(api_key, version)
]
"""The first version, the last one, and the first with the compact encoding."""

PAIRS: Final = TURNING_POINTS if TIER is Tier.QUICK else ALL
"""Those that this run reads and writes."""

DAMAGED: Final = ALL if TIER is Tier.SOAK else TURNING_POINTS
"""Those whose every byte this run damages: a version between two others has no field of a kind
that they do not have."""


def name(value: object) -> str:
    """How a test calls one of the two."""
    return value.name if isinstance(value, ApiKey) else str(value)
