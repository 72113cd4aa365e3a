"""Formatting: what a directory must hold before a node can start from it.

    meta.properties               whose directory it is; written last, so it means "formatted"
    bootstrap.checkpoint          the records the first controller begins with
    __cluster_metadata-0/0-0.checkpoint   the first voters, in the metadata directory

Invariant  A directory that has `meta.properties` is never formatted again.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from tidelog.model.errors import ConfigError
from tidelog.quorum.control_records import Voter
from tidelog.quorum.snapshots import BOOTSTRAP_FILE, BOOTSTRAP_ID, read_snapshot, write_snapshot
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.identity import META_PROPERTIES, DirectoryIdentity, write_identity
from tidelog.storage.log_directory import METADATA_PARTITION

_VOTERS_IN_LOG = 1


def format_directory(
    files: FileSystem,
    path: str,
    *,
    cluster_id: str,
    node_id: int,
    directory_id: UUID,
    bootstrap: Iterable[bytes],
    voters: tuple[Voter, ...],
    wall_ms: int,
) -> None:
    """Make one directory ready for a node, durably.

    `bootstrap` are encoded metadata records. `voters` are the first members of the quorum, for
    the metadata directory of one of them; every other directory has none.
    """
    if files.exists(f"{path}/{META_PROPERTIES}"):
        raise ConfigError(f"{path} is formatted already: leave it as it is, or empty it first")
    files.make_directory(path)
    write_snapshot(
        files,
        f"{path}/{BOOTSTRAP_FILE}",
        bootstrap,
        epoch=BOOTSTRAP_ID.epoch,
        last_contained_timestamp=0,
        timestamp=wall_ms,
    )
    if voters:
        log_directory = f"{path}/{METADATA_PARTITION}"
        files.make_directory(log_directory)
        write_snapshot(
            files,
            f"{log_directory}/{BOOTSTRAP_ID.file_name}",
            (),
            epoch=BOOTSTRAP_ID.epoch,
            last_contained_timestamp=wall_ms,
            timestamp=wall_ms,
            kraft_version=_VOTERS_IN_LOG,
            voters=voters,
        )
    write_identity(files, path, DirectoryIdentity(cluster_id, node_id, directory_id))
    files.sync_directory(path.rpartition("/")[0])


def read_bootstrap(files: FileSystem, path: str) -> tuple[bytes, ...] | None:
    """The encoded records a formatted directory begins with; None when it has no such file."""
    file = f"{path}/{BOOTSTRAP_FILE}"
    return read_snapshot(files, file).values if files.exists(file) else None
