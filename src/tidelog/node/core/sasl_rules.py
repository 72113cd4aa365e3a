"""What each listener of a node with SASL asks of its peers.

Invariant  A configuration whose users cannot be read keeps the node from starting.
Invariant  Credentials are looked up when they are needed: who was removed proves nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy, random_bytes
from tidelog.node.core.authentication import SaslRules
from tidelog.security.exchange import SaslServer
from tidelog.security.jaas import parse_jaas
from tidelog.security.plain import PlainServer
from tidelog.security.scram import (
    NONCE_BYTES,
    SCRAM_BY_NAME,
    ScramCredential,
    ScramMechanism,
    ScramServer,
)

FindCredential = Callable[[str, ScramMechanism], ScramCredential | None]
_SECRET_BYTES: Final = 32


class SaslListeners:
    """The listeners of a node that ask for proofs."""

    def __init__(self, config: NodeConfig, entropy: Entropy, find: FindCredential) -> None:
        self._entropy = entropy
        self._find = find
        asking = [
            endpoint.name
            for endpoint in config.endpoints
            if config.security_protocol_of(endpoint.name).uses_sasl
        ]
        self._secret = random_bytes(entropy, _SECRET_BYTES) if asking else b""
        self._rules = {name: self._rules_of(config, name) for name in asking}

    def rules_of(self, listener: str) -> SaslRules | None:
        """What a listener asks of its peers; None where it is nothing."""
        return self._rules.get(listener)

    def _rules_of(self, config: NodeConfig, listener: str) -> SaslRules:
        security = config.security_of(listener)
        mechanisms: dict[str, Callable[[], SaslServer]] = {}
        for name in security.sasl_enabled_mechanisms:
            if (mechanism := SCRAM_BY_NAME.get(name)) is not None:
                mechanisms[name] = partial(self._scram, mechanism)
            else:
                entry = parse_jaas(security.jaas[name][0], name, security.jaas[name][1])
                mechanisms[name] = partial(PlainServer, entry.users)
        return SaslRules(
            mechanisms=mechanisms,
            max_reauth_ms=security.connections_max_reauth_ms,
            failed_delay_ms=security.connection_failed_authentication_delay_ms,
            frame_bytes_before=security.sasl_server_max_receive_size,
            frame_bytes=config.socket_request_max_bytes,
        )

    def _scram(self, mechanism: ScramMechanism) -> ScramServer:
        return ScramServer(
            mechanism,
            lambda user: self._find(user, mechanism),
            random_bytes(self._entropy, NONCE_BYTES),
            self._secret,
        )
