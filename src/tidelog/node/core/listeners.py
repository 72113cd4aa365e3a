"""Which APIs each listener of a node serves."""

from __future__ import annotations

from tidelog.model.config import NodeConfig
from tidelog.protocol.apis import SUPPORTED, ApiKey, ListenerScope


class Listeners:
    """Listeners of clients and brokers, and those of the quorum."""

    def __init__(self, config: NodeConfig) -> None:
        self.controller_names = frozenset(config.controller_names)
        self._served_on: dict[str, frozenset[ApiKey]] = {}

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
