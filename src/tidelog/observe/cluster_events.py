"""What the controller decided about brokers and leaders; told by the node it runs in.

Invariant  They are announced once the decision is committed: what they say is true.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.model.ids import NO_LEADER, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerActivated:
    """The controller of a node decides from now on: it leads the quorum."""

    epoch: int
    cause: str

    def __str__(self) -> str:
        return f"is the active controller in epoch {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDeactivated:
    """The controller of a node decides no longer; what it had not committed is forgotten."""

    epoch: int
    cause: str

    def __str__(self) -> str:
        return f"is no longer the active controller of epoch {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerMissing:
    """A node has heard of no active controller for a while: nothing that needs one can happen."""

    cause: str

    def __str__(self) -> str:
        return "finds no active controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFound:
    """There is an active controller again."""

    controller_id: int
    epoch: int
    cause: str

    def __str__(self) -> str:
        return f"node {self.controller_id} decides as controller in epoch {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrangeController:
    """A controller that this node is to ask is of another cluster."""

    address: str
    cause: str

    def __str__(self) -> str:
        return f"the controller at {self.address} is of another cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDisbelieved:
    """A controller answered with what cannot be; this node goes on as if it had said nothing."""

    address: str
    cause: str

    def __str__(self) -> str:
        return f"does not believe what the controller at {self.address} answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered:
    """A broker process joined the cluster; fenced until it has caught up with the metadata."""

    broker_id: int
    broker_epoch: int
    cause: str

    def __str__(self) -> str:
        return f"broker {self.broker_id} registered with epoch {self.broker_epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnregistered:
    """The cluster forgot a broker."""

    broker_id: int
    broker_epoch: int
    cause: str

    def __str__(self) -> str:
        return f"broker {self.broker_id} of epoch {self.broker_epoch} unregistered"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced:
    """A broker may no longer lead or be in sync, and clients are not sent to it."""

    broker_id: int
    broker_epoch: int
    cause: str

    def __str__(self) -> str:
        return f"broker {self.broker_id} of epoch {self.broker_epoch} fenced"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnfenced:
    """A broker takes part: it may lead, and clients are sent to it."""

    broker_id: int
    broker_epoch: int
    cause: str

    def __str__(self) -> str:
        return f"broker {self.broker_id} of epoch {self.broker_epoch} unfenced"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerShuttingDown:
    """A broker asked to stop; its leaderships move to others first."""

    broker_id: int
    broker_epoch: int
    cause: str

    def __str__(self) -> str:
        return f"broker {self.broker_id} of epoch {self.broker_epoch} is shutting down"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElected:
    """A partition has a new leader epoch; with leader -1 nobody could be elected."""

    partition: TopicPartition
    leader: int
    leader_before: int
    leader_epoch: int
    unclean: bool
    unclean_elections: int
    """How many there were since this controller started, this one included."""
    may_lose: str
    """After an unclean election: which committed records may be gone."""
    cause: str

    def __str__(self) -> str:
        leads = "has no leader" if self.leader == NO_LEADER else f"is led by {self.leader}"
        unclean = f", unclean: {self.may_lose}" if self.unclean else ""
        before = "nobody" if self.leader_before == NO_LEADER else str(self.leader_before)
        return f"{self.partition} {leads} in epoch {self.leader_epoch} after {before}{unclean}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncReplicasDecided:
    """The controller noted another in-sync set, and who may still lead should it be empty."""

    partition: TopicPartition
    in_sync: tuple[int, ...]
    in_sync_before: tuple[int, ...]
    eligible: tuple[int, ...]
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.partition} in sync: {_ids(self.in_sync)} after {_ids(self.in_sync_before)}"
            + (f", also eligible: {_ids(self.eligible)}" if self.eligible else "")
        )


def _ids(broker_ids: Iterable[int]) -> str:
    return ", ".join(map(str, broker_ids)) or "nobody"
