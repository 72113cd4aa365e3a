"""Where the active controller is, as far as this node can tell."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tidelog.controller.records import MetadataRecord
from tidelog.model.config import NodeConfig
from tidelog.quorum.messages import Address
from tidelog.quorum.quorum import Quorum


class ControllerLocator:
    """The leader of the quorum, or else one address after the other of who might know it."""

    def __init__(self, config: NodeConfig, quorum: Quorum[MetadataRecord]) -> None:
        voters = tuple((voter.host, voter.port) for voter in config.quorum_voters)
        own = {(host or "localhost", port) for _, host, port in config.controller_endpoints}
        told = {(host, port) for _, host, port in config.advertised_controller_endpoints}
        known = config.quorum_bootstrap or voters
        self.others: Final = tuple(each for each in dict.fromkeys(known) if each not in own | told)
        """The controllers that this node was told of, apart from itself."""
        self._known = self.others or known
        self._next = 0
        self._quorum = quorum
        self._own = next(iter(sorted(own)), None)

    @property
    def leader_id(self) -> int:
        """The active controller, or who is about to be; -1 when nobody is known to."""
        return self._quorum.leader_id

    @property
    def address(self) -> Address | None:
        """Where the active controller is found, be it this node; None when there is none."""
        return self._own if self._quorum.is_active else self._quorum.leader_address

    @property
    def who_knows(self) -> Address:
        """Whom to ask for the log: the leader, or somebody who may know it."""
        return self._quorum.leader_address or self._known[self._next]

    def are_most(self, addresses: Collection[Address]) -> bool:
        """Whether these are more than half of the controllers that this node knows of, apart from
        itself."""
        return 2 * len(set(addresses) & set(self.others)) > len(self.others)

    def is_gone(self, asked: Address) -> None:
        """No use asking there: try the next address."""
        if asked == self._known[self._next]:
            self._next = (self._next + 1) % len(self._known)
