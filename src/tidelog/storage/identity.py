"""Who a directory belongs to: the node and cluster of a log directory, the topic of a partition.

`meta.properties` names cluster, node and the directory itself; `partition.metadata` names the
topic by its id; `.kafka_cleanshutdown` says that the last stop was an orderly one.

Invariant  A directory is served only by the node, and a partition only as the topic, named in it.
Invariant  The clean-shutdown marker is gone for good before anything in the directory is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.model.errors import ConfigError
from tidelog.model.ids import ZERO_UUID, parse_uuid_text, uuid_text
from tidelog.model.settings.properties import parse_properties, write_properties
from tidelog.storage.filesystem import FileMissing, FileSystem, read_all, write_atomically

META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
UNKNOWN_BROKER_EPOCH: Final = -1
_RESERVED_IDS: Final = 100


class DirectoryIdentity(NamedTuple):
    """What `meta.properties` holds."""

    cluster_id: str
    node_id: int
    directory_id: UUID


def read_identity(files: FileSystem, directory: str) -> DirectoryIdentity | None:
    """The identity a directory was formatted with; None when it was not."""
    path = f"{directory}/{META_PROPERTIES}"
    if not files.exists(path):
        return None
    try:
        values = parse_properties(read_all(files, path).decode())
    except UnicodeDecodeError as error:
        raise _unreadable(path, "it is not text") from error
    version = values.get("version")
    if version != "1":
        raise _unreadable(path, f"version is {version!r}, expected '1'")
    cluster_id = values.get("cluster.id", "")
    if not cluster_id:
        raise _unreadable(path, "cluster.id is missing")
    try:
        node_id = int(values.get("node.id", ""))
        directory_id = parse_uuid_text(values.get("directory.id", ""))
    except ValueError as error:
        raise _unreadable(
            path, f"node.id or directory.id is missing or malformed: {error}"
        ) from error
    if node_id < 0 or directory_id.int < _RESERVED_IDS:
        raise _unreadable(path, "node.id is negative or directory.id is a reserved identity")
    return DirectoryIdentity(cluster_id, node_id, directory_id)


def write_identity(files: FileSystem, directory: str, identity: DirectoryIdentity) -> None:
    """Format a directory, durably."""
    content = write_properties(
        {
            "version": "1",
            "cluster.id": identity.cluster_id,
            "node.id": str(identity.node_id),
            "directory.id": uuid_text(identity.directory_id),
        }
    )
    write_atomically(files, f"{directory}/{META_PROPERTIES}", content.encode())


def check_identities(
    identities: Mapping[str, DirectoryIdentity], node_id: int, cluster_id: str | None = None
) -> None:
    """Refuse directories of another node, of different clusters, or copied from each other."""
    owners: dict[UUID, str] = {}
    for directory, identity in identities.items():
        if identity.node_id != node_id:
            raise ConfigError(
                f"{directory} belongs to node {identity.node_id}, this is node {node_id}: "
                f"set node.id={identity.node_id}, or point log.dirs to this node's directories"
            )
        cluster_id = cluster_id or identity.cluster_id
        if identity.cluster_id != cluster_id:
            raise ConfigError(
                f"{directory} belongs to cluster {identity.cluster_id}, not to {cluster_id}: "
                f"take it out of log.dirs, or format it anew if its records may be lost"
            )
        other = owners.setdefault(identity.directory_id, directory)
        if other != directory:
            raise ConfigError(
                f"{directory} and {other} have the same directory.id, so one is a copy of the "
                f"other: take the copy out of log.dirs"
            )


def read_topic_id(files: FileSystem, directory: str) -> UUID | None:
    """The topic a partition's directory was created for; None when the file does not tell."""
    path = f"{directory}/{PARTITION_METADATA}"
    if not files.exists(path):
        return None
    values: dict[str, str] = {}
    try:
        for line in read_all(files, path).decode("ascii").splitlines():
            name, _, value = line.partition(":")
            values[name.strip()] = value.strip()
        version = int(values.get("version", ""))
        topic_id = parse_uuid_text(values.get("topic_id", ""))
    except ValueError:
        return None
    return None if version < 0 or topic_id == ZERO_UUID else topic_id


def write_topic_id(files: FileSystem, directory: str, topic_id: UUID) -> None:
    """Say which topic a new directory belongs to; not durable before `sync_topic_id`."""
    file = files.open(f"{directory}/{PARTITION_METADATA}")
    try:
        file.append(f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode("ascii"))
    finally:
        file.close()


def sync_topic_id(files: FileSystem, directory: str) -> None:
    """Make the topic id and all names in and of the directory durable, if it is still there.

    May block: run it in a job.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    with suppress(FileMissing):
        if files.exists(path):
            file = files.open(path)
            try:
                file.sync()
            finally:
                file.close()
            files.sync_directory(directory)
            files.sync_directory(directory.rpartition("/")[0])


def read_clean_shutdown(files: FileSystem, directory: str) -> int | None:
    """The broker epoch of the last orderly stop (-1 if unknown); None after any other stop."""
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    if not files.exists(path):
        return None
    try:
        marker = json.loads(read_all(files, path))
    except ValueError:
        return None
    if not isinstance(marker, dict) or marker.get("version") != 0:
        return None
    epoch = marker.get("brokerEpoch", UNKNOWN_BROKER_EPOCH)
    return epoch if isinstance(epoch, int) else UNKNOWN_BROKER_EPOCH


def write_clean_shutdown(files: FileSystem, directory: str, broker_epoch: int) -> None:
    """Say, durably, that everything in this directory is on disk and in order."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_atomically(files, f"{directory}/{CLEAN_SHUTDOWN}", content.encode("ascii"))


def delete_clean_shutdown(files: FileSystem, directory: str) -> None:
    """Take the marker away, for good by the time this returns."""
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    if files.exists(path):
        files.remove(path)
        files.sync_directory(directory)


def _unreadable(path: str, why: str) -> ConfigError:
    return ConfigError(
        f"{path} cannot be used: {why}. Restore the file from a backup, or format the directory "
        f"anew if its records may be lost"
    )
