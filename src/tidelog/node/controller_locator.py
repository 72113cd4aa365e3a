"""Where the active controller is, as far as a node without a vote can tell.

Invariant  Whoever answers as the leader is asked again; only somebody who does not answer, or who
           says that another one leads, is left.
"""

from __future__ import annotations

from typing import TypeAlias

from tidelog.model.config import NodeConfig
from tidelog.model.ids import NO_LEADER

Address: TypeAlias = tuple[str, int]


class ControllerLocator:
    """One address at a time: of the leader, or of the next one who might know it."""

    def __init__(self, config: NodeConfig) -> None:
        voters = tuple((voter.host, voter.port) for voter in config.quorum_voters)
        self._known: tuple[Address, ...] = config.quorum_bootstrap or voters
        self._next = 0
        self.address: Address = self._known[0]
        self.leader_id = NO_LEADER

    def answered(self, leader_id: int) -> None:
        """The node at the current address leads."""
        self.leader_id = leader_id

    def leads_elsewhere(self, asked: Address, leader_id: int, address: Address | None) -> None:
        """The node that was asked does not lead; perhaps it says who does."""
        if asked != self.address:
            return
        self.leader_id = leader_id
        if address is None or address == asked:
            self.is_gone(asked)
        else:
            self.address = address

    def is_gone(self, asked: Address) -> None:
        """No answer from there: try the next address."""
        if asked == self.address:
            self._next = (self._next + 1) % len(self._known)
            self.address = self._known[self._next]
