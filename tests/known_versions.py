"""Versions that others know, too: kio, the second opinion on messages, and Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.protocol.apis import SUPPORTED, ApiKey

NEWEST_KNOWN: Final[Mapping[ApiKey, int]] = {
    ApiKey.API_VERSIONS: 4,
    ApiKey.TXN_OFFSET_COMMIT: 5,
}
"""Where it is older than what we serve; tests of their own cover the versions behind it."""


def known_versions(api_key: ApiKey) -> range:
    """Those that can be decoded, up to the newest one that others know."""
    served = SUPPORTED[api_key]
    return range(served.decodable_from, NEWEST_KNOWN.get(api_key, served.max) + 1)
