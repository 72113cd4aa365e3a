"""Opening what a formatted node has on disk: its directories, its metadata log, its first records.

Invariant  A directory that is not formatted, or that belongs to another node or cluster, is
           refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.controller.features import NODE_FEATURES
from tidelog.controller.records import (
    MetadataRecord,
    decode_record,
    encode_record,
)
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.errors import ConfigError
from tidelog.model.ids import ZERO_UUID
from tidelog.model.settings.endpoints import Endpoint as Listener
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.protocol.stored.metadata import (
    RegisteredEndpoint,
    RegisteredFeature,
)
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.formatting import read_bootstrap
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.metadata_log import metadata_log_config
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.replica import RecordCodec
from tidelog.quorum.snapshots import SnapshotRules
from tidelog.quorum.timeouts import QuorumTimeouts
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.identity import check_identities
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_log import PartitionLog

PLAINTEXT: Final = 0
CODEC = RecordCodec(encode=encode_record, decode=decode_record)


def open_directories(config: NodeConfig, files: FileSystem, entropy: Entropy) -> list[LogDirectory]:
    """The log directories of this node, all of the same cluster and of this node."""
    directories = [LogDirectory(files, path, entropy) for path in config.log_directories]
    check_identities(
        {directory.path: directory.identity for directory in directories}, config.node_id
    )
    for directory in directories:
        directory.begin()
    return directories


def open_quorum(broker: BrokerState, now: Now) -> Quorum[MetadataRecord]:
    """This node's part in the quorum, with a vote or without."""
    config = broker.config
    home = _metadata_home(broker)
    own = ReplicaKey(broker.node_id, home.identity.directory_id)
    endpoints = tuple(
        VoterEndpoint(name=point.name, host=point.host, port=point.port)
        for point in config.advertised_controller_endpoints
    )
    return Quorum(
        files=broker.files,
        log=_load_metadata_log(broker, home, now),
        own=own,
        endpoints=endpoints,
        listener=quorum_listener(config),
        codec=CODEC,
        entropy=broker.entropy,
        now=now,
        rules=_snapshot_rules(config),
        static_voters=_static_voters(config, own),
        timeouts=QuorumTimeouts(
            election_ms=config.controller_quorum_election_timeout_ms,
            fetch_ms=config.controller_quorum_fetch_timeout_ms,
            backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
            retry_ms=config.controller_quorum_retry_backoff_ms,
            disconnect_grace_ms=config.broker_disconnect_grace_ms,
        ),
        can_vote=config.is_controller,
        promises_by_jobs=True,
    )


def quorum_listener(config: NodeConfig) -> str:
    """The listener by which the members of the quorum find each other."""
    return config.controller_names[0]


def _static_voters(config: NodeConfig, own: ReplicaKey) -> tuple[Voter, ...]:
    """The voters of a quorum whose log does not name them; their directories nobody knows."""
    listener = quorum_listener(config)
    return tuple(
        Voter(
            voter_id=voter.node_id,
            voter_directory_id=own.directory_id if voter.node_id == own.id else ZERO_UUID,
            endpoints=(VoterEndpoint(name=listener, host=voter.host, port=voter.port),),
        )
        for voter in config.quorum_voters
    )


def _load_metadata_log(broker: BrokerState, home: LogDirectory, now: Now) -> PartitionLog:
    config = broker.config
    return home.load_metadata_log(
        now, metadata_log_config(config.metadata_log_segment_bytes, config.metadata_log_segment_ms)
    )


def _snapshot_rules(config: NodeConfig) -> SnapshotRules:
    return SnapshotRules(
        bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
        interval_ms=config.metadata_log_max_snapshot_interval_ms,
        retention_bytes=config.metadata_max_retention_bytes,
        retention_ms=config.metadata_max_retention_ms,
    )


def registered_endpoints(
    endpoints: Iterable[Listener | VoterEndpoint],
) -> tuple[RegisteredEndpoint, ...]:
    """Where others find the listeners of this node."""
    return tuple(
        RegisteredEndpoint(
            name=endpoint.name,
            host=endpoint.host or "localhost",
            port=endpoint.port,
            security_protocol=PLAINTEXT,
        )
        for endpoint in endpoints
    )


def supported_features() -> tuple[RegisteredFeature, ...]:
    """What a node of this version can live with: the cluster's features, and the quorum's own."""
    return tuple(
        RegisteredFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in sorted(NODE_FEATURES.items())
    )


def bootstrap_records(broker: BrokerState) -> tuple[MetadataRecord, ...]:
    """The records that formatting left for the first controller."""
    stored = read_bootstrap(broker.files, _metadata_home(broker).path)
    return tuple(decode_record(value) for value in stored or ())


def _metadata_home(broker: BrokerState) -> LogDirectory:
    path = broker.config.metadata_directory
    for directory in broker.directories:
        if directory.path == path:
            return directory
    raise ConfigError(f"metadata.log.dir {path} must be one of log.dirs")
