"""Formatting a node's directories on this machine, from its configuration."""

from __future__ import annotations

import time

from tidelog.broker.entropy import SystemEntropy
from tidelog.broker.os_filesystem import OsFileSystem
from tidelog.controller.features import default_features
from tidelog.controller.records import encode_record
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.model.ids import parse_uuid_text, uuid_text
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.formatting import format_directory
from tidelog.storage.identity import META_PROPERTIES


def format_node(config: NodeConfig, cluster_id: str | None = None) -> str:
    """Format every directory of a node that stands alone; the id of its cluster.

    Without an id a new one is made. Nothing is written when one of the directories has been
    formatted before.
    """
    entropy, files = SystemEntropy(), OsFileSystem()
    chosen = uuid_text(entropy.uuid()) if cluster_id is None else checked_cluster_id(cluster_id)
    directories = dict.fromkeys((*config.log_directories, config.metadata_directory))
    for path in directories:
        if files.exists(f"{path}/{META_PROPERTIES}"):
            raise ConfigError(f"{path} is formatted already: leave it as it is, or empty it first")
    bootstrap = [encode_record(record) for record in default_features()]
    for path in directories:
        directory_id = entropy.uuid()
        votes_here = config.is_controller and path == config.metadata_directory
        endpoints = tuple(
            VoterEndpoint(name=each.name, host=each.host, port=each.port)
            for each in config.controller_endpoints
        )
        voter = Voter(voter_id=config.node_id, voter_directory_id=directory_id, endpoints=endpoints)
        format_directory(
            files,
            path,
            cluster_id=chosen,
            node_id=config.node_id,
            directory_id=directory_id,
            bootstrap=bootstrap,
            voters=(voter,) if votes_here and not config.quorum_voters else (),
            wall_ms=time.time_ns() // 1_000_000,
        )
    return chosen


def checked_cluster_id(text: str) -> str:
    """A cluster id as given, if it is one."""
    try:
        parse_uuid_text(text)
    except ValueError as error:
        raise ConfigError(f"{error}; `tidelog random-uuid` makes a cluster id") from error
    return text
