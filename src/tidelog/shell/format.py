"""Preparing a node's directories for its first start.

Invariant  All directories of a node are formatted or none: what stands in the way is found out
           before the first of them is written.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from uuid import UUID

from tidelog.controller.features import default_features
from tidelog.controller.records import encode_record
from tidelog.controller.scram_credentials import credential_record
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.model.ids import is_uuid_text, uuid_text
from tidelog.model.settings.endpoints import InitialController, is_wildcard
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.formatting import format_directory
from tidelog.security.scram_option import FirstUser
from tidelog.shell.clock import read_clock
from tidelog.shell.directory_lock import DirectoryLock
from tidelog.shell.entropy import SystemEntropy
from tidelog.shell.os_filesystem import OsFileSystem
from tidelog.storage.identity import read_identity


def format_node(
    config: NodeConfig,
    cluster_id: str | None = None,
    initial: tuple[InitialController, ...] | None = None,
    *,
    standalone: bool = False,
    any_cluster_id: bool = False,
    first_users: Sequence[FirstUser] = (),
) -> str:
    """Format every directory the configuration names; the cluster's id, drawn if none is given.

    `first_users` are there from the first start on; say the same to each controller.

    `any_cluster_id` allows one of another form than the identities that Kafka and we draw.

    `initial` are the first voters of a quorum whose log names them, the same for each of them;
    empty for a controller that joins them later, None for one that is the only voter. That this
    is meant must be said (`standalone`) where the configuration names several controllers.
    """
    _check_initial(config, initial, standalone=standalone)
    files = OsFileSystem()
    entropy = SystemEntropy()
    cluster = uuid_text(entropy.uuid()) if cluster_id is None else cluster_id
    _check_cluster_id(cluster, of_any_form=any_cluster_id)
    bootstrap = [encode_record(record) for record in default_features()]
    bootstrap += [encode_record(credential_record(*user)) for user in first_users]
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
            voters: tuple[Voter, ...] = ()
            if (
                directory == config.metadata_directory
                and config.is_controller
                and not config.quorum_voters
            ):
                own = [
                    each.directory_id for each in initial or () if each.node_id == config.node_id
                ]
                directory_id = own[0] if own else directory_id
                voters = _first_voters(config, directory_id, initial)
            format_directory(
                files,
                directory,
                cluster_id=cluster,
                node_id=config.node_id,
                directory_id=directory_id,
                bootstrap=bootstrap,
                voters=voters,
                wall_ms=read_clock().wall_ms,
            )
    return cluster


def _check_cluster_id(cluster_id: str, *, of_any_form: bool) -> None:
    if not cluster_id or cluster_id != cluster_id.strip():
        raise ConfigError(
            f"{cluster_id!r} cannot be a cluster id: it is empty or has spaces around"
        )
    if not of_any_form and not is_uuid_text(cluster_id):
        raise ConfigError(
            f"{cluster_id!r} cannot be a cluster id: that has 22 letters, digits, - or _; "
            "`tidelog random-uuid` prints one for a new cluster, `tidelog cluster describe` that "
            "of a cluster to join (--any-cluster-id, if that really has another form)"
        )


def _check_initial(
    config: NodeConfig, initial: tuple[InitialController, ...] | None, *, standalone: bool
) -> None:
    if config.quorum_voters or not config.is_controller:
        if initial:
            raise ConfigError("--initial-controllers is for controllers whose log names the voters")
        return
    if initial is None and not standalone and len(config.quorum_bootstrap) > 1:
        raise ConfigError(
            "controller.quorum.bootstrap.servers names several controllers: say which of them vote "
            "first (--initial-controllers), that this one does alone (--standalone), or that it "
            "joins them later (--no-initial-controllers)"
        )
    if initial and config.node_id not in [each.node_id for each in initial]:
        raise ConfigError(f"node {config.node_id} is not among --initial-controllers")


def _first_voters(
    config: NodeConfig, directory_id: UUID, initial: tuple[InitialController, ...] | None
) -> tuple[Voter, ...]:
    if initial is None:
        endpoints = tuple(
            VoterEndpoint(name=name, host=_named(host), port=port)
            for name, host, port in config.advertised_controller_endpoints
        )
        return (
            Voter(voter_id=config.node_id, voter_directory_id=directory_id, endpoints=endpoints),
        )
    listener = config.controller_names[0]
    return tuple(
        Voter(
            voter_id=each.node_id,
            voter_directory_id=each.directory_id,
            endpoints=(VoterEndpoint(name=listener, host=each.host, port=each.port),),
        )
        for each in sorted(initial)
    )


def _named(host: str) -> str:
    """The name of this machine for a listener on all its addresses."""
    return socket.gethostname() if is_wildcard(host) else host
