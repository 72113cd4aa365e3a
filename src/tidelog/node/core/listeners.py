"""Which APIs each listener of a node serves, and for whom it takes those who connect to it.

Invariant  A peer that has shown a certificate is whom the rules make of its subject, or nobody: it
           is never taken for somebody who has shown none.
"""

from __future__ import annotations

from tidelog.model.config import NodeConfig
from tidelog.model.principal import ANONYMOUS, USER_TYPE, Principal
from tidelog.protocol.apis import SUPPORTED, ApiKey, ListenerScope
from tidelog.security.distinguished_name import certificate_subject
from tidelog.security.principal_mapping import PrincipalMapping


class Listeners:
    """Listeners of clients and brokers, and those of the quorum."""

    def __init__(self, config: NodeConfig) -> None:
        self.controller_names = frozenset(config.controller_names)
        self._served_on: dict[str, frozenset[ApiKey]] = {}
        self._mappings: dict[str, PrincipalMapping] = {}
        for endpoint in config.endpoints:
            security = config.security_of(endpoint.name)
            rules = security.ssl_principal_mapping_rules
            self._mappings[endpoint.name] = PrincipalMapping(rules)

    def scope_of(self, listener: str) -> ListenerScope:
        """Whether a listener serves clients and brokers, or the quorum."""
        if listener in self.controller_names:
            return ListenerScope.CONTROLLER
        return ListenerScope.BROKER

    def served_on(self, listener: str) -> frozenset[ApiKey]:
        """The APIs that a listener serves; asked for every request."""
        served = self._served_on.get(listener)
        if served is None:
            scope = self.scope_of(listener)
            served = frozenset(key for key, range_ in SUPPORTED.items() if range_.scope & scope)
            self._served_on[listener] = served
        return served

    def principal_of(self, listener: str, certificate: bytes | None) -> Principal | str:
        """Who a peer with this certificate is; in words, why nobody."""
        if certificate is None:
            return ANONYMOUS
        try:
            subject = certificate_subject(certificate)
        except ValueError:
            return "the subject of its certificate cannot be read"
        name = self._mappings[listener].name_of(subject)
        if not name:
            return f"no rule of ssl.principal.mapping.rules applies to its subject {subject}"
        return Principal(USER_TYPE, name)
