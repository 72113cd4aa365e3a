"""What happened, as values: one frozen class per fact.

Invariant  Each fact says in `cause` why it happened, in words a person can act on.
Invariant  An event holds plain values only and says neither when it happened nor who speaks;
           whoever keeps it knows both.
Invariant  An event of `OF_THE_NODE_ITSELF` has the node that speaks as the subject of its words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.model.ids import TopicPartition, uuid_text
from tidelog.observe.access_events import AccessDenied, AccessDeniedToMany
from tidelog.observe.cleaning_events import CleaningFailed, LogCleaned
from tidelog.observe.cluster_events import (
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ControllerActivated,
    ControllerDeactivated,
    ControllerDisbelieved,
    ControllerFound,
    ControllerMissing,
    InSyncReplicasDecided,
    LeaderElected,
    StrangeController,
)
from tidelog.observe.coordinator_events import (
    CoordinatorLoaded,
    CoordinatorUnloaded,
    InternalTopicMissing,
)
from tidelog.observe.replication_events import (
    FetcherStuck,
    FollowerCaughtUp,
    HighWatermarkMoved,
    InSyncReplicasChanged,
    InSyncReplicasProposed,
    PartitionBecameFollower,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted:
    """The node has loaded its logs and takes part in the cluster."""

    cluster_id: str
    roles: tuple[str, ...]
    cause: str

    def __str__(self) -> str:
        return f"started as {', '.join(self.roles)} of {self.cluster_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped:
    """The node is done; `clean` says that everything it held is on disk."""

    clean: bool
    cause: str

    def __str__(self) -> str:
        return f"stopped {'cleanly' if self.clean else 'without cleaning up'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecovered:
    """A log was read back after an unclean stop and cut behind its last whole batch."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    cut_bytes: int
    damaged: tuple[str, ...] = ()
    """Ranges of offsets whose records were durable once and cannot be read any more."""
    cause: str

    def __str__(self) -> str:
        kept = f"{self.partition} recovered with offsets {self.start_offset} to {self.end_offset}"
        cut = f"{self.cut_bytes} bytes cut" if self.cut_bytes else "nothing cut"
        damaged = f", damaged on disk: {', '.join(self.damaged)}" if self.damaged else ""
        return f"{kept}, {cut}{damaged}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTruncated:
    """Records at the end of a log were given up."""

    partition: TopicPartition
    end_offset_before: int
    end_offset: int
    cause: str

    def __str__(self) -> str:
        return f"{self.partition} truncated from {self.end_offset_before} to {self.end_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    """A topic is in the cluster metadata."""

    topic: str
    topic_id: UUID
    partitions: int
    replication_factor: int
    cause: str

    def __str__(self) -> str:
        return (
            f"topic {self.topic} created with id {uuid_text(self.topic_id)}, "
            f"partitions {self.partitions}, replication factor {self.replication_factor}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    """A topic is gone from the cluster metadata."""

    topic: str
    topic_id: UUID
    cause: str

    def __str__(self) -> str:
        return f"topic {self.topic} with id {uuid_text(self.topic_id)} deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBecameLeader:
    """This node leads a partition; `start_offset` is where its epoch begins."""

    partition: TopicPartition
    leader_epoch: int
    start_offset: int
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.partition} led by this node in epoch {self.leader_epoch} "
            f"from offset {self.start_offset}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDeleted:
    """A log gave up its oldest segment; it now starts at `start_offset`."""

    partition: TopicPartition
    base_offset: int
    size_bytes: int
    start_offset: int
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.partition} deleted segment {self.base_offset} of {self.size_bytes} bytes, "
            f"starts at offset {self.start_offset}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectoryOffline:
    """A data directory can no longer be trusted; its partitions are not served."""

    directory: str
    cause: str

    def __str__(self) -> str:
        return f"log directory {self.directory} went offline"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRefused:
    """A peer connected and was turned away at once."""

    listener: str
    peer_host: str
    cause: str

    def __str__(self) -> str:
        return f"connection of {self.peer_host} to {self.listener} refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionDropped:
    """We closed a connection that its peer had not given up: malformed input, idle, unreadable."""

    listener: str
    peer_host: str
    cause: str

    def __str__(self) -> str:
        return f"connection of {self.peer_host} to {self.listener} closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptingPaused:
    """A listener cannot take connections for the moment and will try again."""

    listener: str
    retry_ms: int
    cause: str

    def __str__(self) -> str:
        return f"listener {self.listener} accepts again in {self.retry_ms} ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationRefused:
    """A peer did not prove who it is; its connection is closed."""

    listener: str
    peer_host: str
    mechanism: str
    """Empty when it never chose one."""
    user: str
    """Whom it claimed to be; empty when there is no such user."""
    cause: str

    def __str__(self) -> str:
        who = f" as {self.user}" if self.user else ""
        how = f" by {self.mechanism}" if self.mechanism else ""
        return f"{self.peer_host} at {self.listener} not let in{who}{how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatesReloaded:
    """A listener shows and trusts what its files say now; connections that are there stay."""

    listener: str
    cause: str

    def __str__(self) -> str:
        return f"certificates of listener {self.listener} read again"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatesKept:
    """The files of a listener have changed and are no good: it goes on with what it had."""

    listener: str
    cause: str

    def __str__(self) -> str:
        return f"certificates of listener {self.listener} kept as they were"


Event: TypeAlias = (
    ControllerActivated
    | ControllerDeactivated
    | ControllerMissing
    | ControllerFound
    | StrangeController
    | ControllerDisbelieved
    | BrokerRegistered
    | BrokerUnregistered
    | BrokerFenced
    | BrokerUnfenced
    | BrokerShuttingDown
    | LeaderElected
    | InSyncReplicasDecided
    | NodeStarted
    | NodeStopped
    | LogRecovered
    | LogTruncated
    | TopicCreated
    | TopicDeleted
    | PartitionBecameLeader
    | PartitionBecameFollower
    | FollowerCaughtUp
    | FetcherStuck
    | InSyncReplicasProposed
    | InSyncReplicasChanged
    | HighWatermarkMoved
    | CoordinatorLoaded
    | CoordinatorUnloaded
    | InternalTopicMissing
    | SegmentDeleted
    | LogCleaned
    | CleaningFailed
    | LogDirectoryOffline
    | ConnectionRefused
    | ConnectionDropped
    | AccessDenied
    | AccessDeniedToMany
    | AcceptingPaused
    | AuthenticationRefused
    | CertificatesReloaded
    | CertificatesKept
)

OF_THE_NODE_ITSELF: Final = (
    NodeStarted,
    NodeStopped,
    ControllerActivated,
    ControllerDeactivated,
    ControllerMissing,
    ControllerDisbelieved,
)
