"""Which client speaks which mechanism."""

from __future__ import annotations

from tidelog.security.exchange import SaslClient
from tidelog.security.plain import PlainClient
from tidelog.security.scram import SCRAM_BY_NAME, ScramClient


def sasl_client(mechanism: str, user: str, password: str, nonce: bytes) -> SaslClient:
    """An exchange with a server, by any mechanism that has a password."""
    scram = SCRAM_BY_NAME.get(mechanism)
    if scram is None:
        return PlainClient(user, password)
    return ScramClient(scram, user, password, nonce)
