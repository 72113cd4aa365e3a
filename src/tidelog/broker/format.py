"""Preparing a node's directories for its first start.

Invariant  All directories of a node are formatted or none: what stands in the way is found out
           before the first of them is written.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack
from uuid import UUID

from tidelog.broker.clock import read_clock
from tidelog.broker.directory_lock import DirectoryLock
from tidelog.broker.entropy import SystemEntropy
from tidelog.broker.os_filesystem import OsFileSystem
from tidelog.controller.features import default_features
from tidelog.controller.records import encode_record
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.model.ids import uuid_text
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.formatting import format_directory
from tidelog.storage.identity import read_identity


def format_node(config: NodeConfig, cluster_id: str | None = None) -> str:
    """Format every directory the configuration names; the cluster's id, drawn if none is given.

    A controller of a quorum whose log names the voters becomes the first of them.
    """
    files = OsFileSystem()
    entropy = SystemEntropy()
    cluster = uuid_text(entropy.uuid()) if cluster_id is None else cluster_id
    if not cluster or cluster != cluster.strip():
        raise ConfigError(f"{cluster!r} cannot be a cluster id: it is empty or has spaces around")
    directories = tuple(dict.fromkeys((*config.log_directories, config.metadata_directory)))
    with ExitStack() as cleanup:
        for directory in directories:
            cleanup.callback(DirectoryLock(directory).release)
            identity = read_identity(files, directory)
            if identity is not None:
                raise ConfigError(
                    f"{directory} is formatted already, for node {identity.node_id} of cluster "
                    f"{identity.cluster_id}: start it as it is, or empty it first"
                )
        for directory in directories:
            directory_id = entropy.uuid()
            is_first_voters = (
                directory == config.metadata_directory
                and config.is_controller
                and not config.quorum_voters
            )
            format_directory(
                files,
                directory,
                cluster_id=cluster,
                node_id=config.node_id,
                directory_id=directory_id,
                bootstrap=[encode_record(record) for record in default_features()],
                voters=(_voter(config, directory_id),) if is_first_voters else (),
                wall_ms=read_clock().wall_ms,
            )
    return cluster


def _voter(config: NodeConfig, directory_id: UUID) -> Voter:
    return Voter(
        voter_id=config.node_id,
        voter_directory_id=directory_id,
        endpoints=tuple(
            VoterEndpoint(name=name, host=host or socket.gethostname(), port=port)
            for name, host, port in config.controller_endpoints
        ),
    )
